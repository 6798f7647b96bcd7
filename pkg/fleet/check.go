package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"radwitness/pkg/health"
)

// The syntax of names and of AWS identifiers.
var (
	// Names are parts of table keys, where # and / separate.
	namePattern      = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	targetGroupARN   = regexp.MustCompile(`^arn:aws[a-z-]*:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:targetgroup/[A-Za-z0-9-]{1,32}/[A-Za-z0-9-]+$`)
	secretPattern    = regexp.MustCompile(`^(arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}$`)
	parameterPattern = regexp.MustCompile(`^(arn:aws[a-z-]*:ssm:[a-z0-9-]+:[0-9]{12}:parameter)?/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	envPattern       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// The words of the keys that take one of a few.
func methods() []Method {
	return []Method{PAP, CHAP, MSCHAPv2, StatusServer, Accounting, EAPMD5, PEAP, TTLS}
}
func modes() []Mode   { return []Mode{Enforce, Observe} }
func admins() []Admin { return []Admin{AdminAuto, AdminOut} }
func messageAuthenticators() []MessageAuthenticator {
	return []MessageAuthenticator{MessageAuthenticatorAuto, MessageAuthenticatorRequired, MessageAuthenticatorOff}
}

// listable returns the outcomes that healthy_on and failure_on may hold.
func listable() []health.Outcome {
	return slices.DeleteFunc(health.Outcomes(), func(o health.Outcome) bool {
		return o == health.Alive || o == health.ProberError
	})
}

// checkProbe checks each value of one form by itself.
func (r *report) checkProbe(f *probeForm, at func(key string) place) {
	checkWord(r, at("method"), f.Method, methods())
	checkWord(r, at("message_authenticator"), f.MessageAuthenticator, messageAuthenticators())
	r.checkInt(at("port"), f.Port, maxPort)
	r.checkInt(at("attempts"), f.Attempts, maxAttempts)
	r.checkDuration(at("interval"), f.Interval, minInterval, maxInterval)
	if f.Interval != nil && *f.Interval > 0 && time.Minute%time.Duration(*f.Interval) != 0 {
		r.fail(at("interval"), "must divide 60s evenly, like 5s, 10s, 15s or 20s; %s does not", *f.Interval)
	}
	r.checkDuration(at("fast_interval"), f.FastInterval, minFastInterval, maxInterval)
	r.checkDuration(at("attempt_timeout"), f.AttemptTimeout, minAttemptTimeout, maxAttemptTimeout)
	if id := f.NASIdentifier; id != nil && (len(*id) < 1 || len(*id) > maxNASIdentifier) {
		r.fail(at("nas_identifier"), "must be 1 to %d bytes long, not %d", maxNASIdentifier, len(*id))
	}
	if f.HealthyOn != nil && len(*f.HealthyOn) == 0 {
		r.fail(at("healthy_on"), "needs at least one outcome, or no server ever comes up")
	}
	r.checkOutcomes(at("healthy_on"), f.HealthyOn)
	r.checkOutcomes(at("failure_on"), f.FailureOn)
}

func (r *report) checkOutcomes(list place, outcomes *[]health.Outcome) {
	if outcomes == nil {
		return
	}
	for i, o := range *outcomes {
		at := r.at(fmt.Sprintf("%s[%d]", list.key, i))
		switch {
		case o == health.Alive:
			r.fail(at, "alive is always a success and cannot be listed")
		case o == health.ProberError:
			r.fail(at, "prober_error is a fault of the prober, says nothing about the server, and cannot be listed")
		case slices.Contains((*outcomes)[:i], o):
			r.fail(at, "%s is listed twice", o)
		default:
			checkWord(r, at, &o, listable())
		}
	}
}

// checkChecks checks a list of checks, each by itself.
func (r *report) checkChecks(list *[]checkForm, at place) {
	if list == nil {
		return
	}
	r.checkFilled(at, len(*list), "check")
	seen := map[Method]bool{}
	for i := range *list {
		key := fmt.Sprintf("%s[%d]", at.key, i)
		f := &(*list)[i]
		if r.bad[r.at(key)] {
			continue
		}
		r.checkProbe(&f.probeForm, r.under(key))
		switch {
		case f.Method == nil:
			r.fail(r.at(join(key, "method")), "is missing")
		case seen[*f.Method]:
			r.fail(r.at(key), "%s is checked twice", *f.Method)
		default:
			seen[*f.Method] = true
		}
	}
}

// checkHealth checks each value of one form by itself.
func (r *report) checkHealth(f *healthForm, at func(key string) place) {
	r.checkInt(at("failure_threshold"), f.FailureThreshold, maxFailureThreshold)
	r.checkDuration(at("hold_down"), f.HoldDown, 0, maxHoldDown)
	r.checkDuration(at("hold_down_max"), f.HoldDownMax, 0, maxHoldDown)
}

// checkGroupSettings checks the scalars of a group that a variable can set too.
func (r *report) checkGroupSettings(mode *Mode, reconcileInterval *duration, at func(key string) place) {
	checkWord(r, at("mode"), mode, modes())
	r.checkDuration(at("reconcile_interval"), reconcileInterval, minReconcileInterval, maxReconcileInterval)
}

func (r *report) checkDuration(at place, v *duration, least, most duration) {
	if v != nil && (*v < least || *v > most) {
		r.fail(at, "must be %s to %s, not %s", least, most, *v)
	}
}

// checkFilled checks that a list has an entry.
func (r *report) checkFilled(at place, entries int, what string) {
	if entries == 0 {
		r.fail(at, "needs at least one %s", what)
	}
}

// checkInt checks a number that is at least 1.
func (r *report) checkInt(at place, v *int, most int) {
	if v != nil && (*v < 1 || *v > most) {
		r.fail(at, "must be 1 to %d, not %d", most, *v)
	}
}

func checkWord[T ~string](r *report, at place, v *T, known []T) {
	if v == nil || slices.Contains(known, *v) {
		return
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	r.fail(at, "%s is not one of %s", quote(string(*v)), strings.Join(words, ", "))
}

// checkName checks a name, and that it is new among its kind.
func (r *report) checkName(at place, name string, seen map[string]place) {
	if !namePattern.MatchString(name) {
		r.fail(at, "%s is not a name: use 1 to 64 letters, digits, dots, underscores and hyphens", quote(name))
		return
	}
	if twin, ok := seen[name]; ok {
		r.fail(at, "%s is already the name of %s on line %d", name, parent(twin.key), twin.line)
		return
	}
	seen[name] = at
}

// checkCredentials checks that a reference has something to refer to.
func (r *resolver) checkCredentials(at place, name *string) {
	if name == nil {
		return
	}
	if _, ok := r.file.Credentials[*name]; ok {
		return
	}
	var known []string
	for k := range r.file.Credentials {
		known = append(known, k)
	}
	slices.Sort(known)
	r.fail(at, "%s is not a name under credentials%s", quote(*name), suggest(*name, known))
}

// The errors for sources of credentials do not quote: what stands there may be
// a secret that somebody put into the wrong place.
func checkSecret(text string) error {
	if !secretPattern.MatchString(text) {
		return errors.New("is neither the ARN nor the name of a secret (arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME)")
	}
	return nil
}

func checkParameter(text string) error {
	if !parameterPattern.MatchString(text) {
		return errors.New("is neither the name nor the ARN of an SSM parameter")
	}
	return nil
}

func checkEnvPrefix(text string) error {
	if !envPattern.MatchString(text) {
		return errors.New("cannot begin the name of an environment variable")
	}
	if strings.HasPrefix(text+"_", variablePrefix) {
		return fmt.Errorf("must not begin with %s: such variables override this file", variablePrefix)
	}
	return nil
}

// parseAddress parses the address of a server. An IPv4 address in IPv6 clothes
// is the IPv4 address.
func parseAddress(text string) (netip.Addr, error) {
	if _, err := netip.ParseAddrPort(text); err == nil {
		return netip.Addr{}, fmt.Errorf("%s has a port: put it under the key port", quote(text))
	}
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%s is not an IP address; host names are not allowed, a health check must not depend on DNS", quote(text))
	case addr.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s has a zone, which means something on one machine only", quote(text))
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() {
		return netip.Addr{}, errors.New(text + " is not the address of a server")
	}
	return addr, nil
}
