package fleet

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"radwitness/pkg/health"
)

// Bounds on single values. The forms' tags tell editors the same.
const (
	minInterval          = duration(time.Second)
	maxInterval          = duration(time.Minute) // a prober runs for a minute
	minFastInterval      = duration(100 * time.Millisecond)
	minAttemptTimeout    = duration(10 * time.Millisecond)
	maxAttemptTimeout    = duration(30 * time.Second)
	maxAttempts          = 10
	maxNASIdentifier     = 253 // bytes in an attribute, RFC 2865 section 5
	maxFailureThreshold  = 100
	maxHoldDown          = duration(24 * time.Hour)
	minReconcileInterval = duration(time.Second)
	maxReconcileInterval = duration(15 * time.Minute)
	maxPort              = 65535
)

// The ports of RADIUS, RFC 2865 section 3 and RFC 2866 section 3.
const (
	authenticationPort = 1812
	accountingPort     = 1813
)

// layer is one of the forms that may set a key, and the place of its keys.
// A nil form sets none.
type layer[F any] struct {
	form *F
	at   func(key string) place
}

// setting is the value of a key and where it comes from.
type setting[T any] struct {
	value T
	origin
}

// origin is a place and the rank of its layer, 0 for the most specific.
type origin struct {
	place
	rank int
}

// pick returns the value of a key in the first layer that sets it.
func pick[F, T any](layers []layer[F], key string, get func(*F) *T) setting[T] {
	for rank, l := range layers {
		if l.form == nil {
			continue
		}
		if v := get(l.form); v != nil {
			return setting[T]{*v, origin{l.at(key), rank}}
		}
	}
	return setting[T]{origin: origin{rank: len(layers)}}
}

// under returns the places of the keys in a mapping of the file.
func (r *report) under(parent string) func(key string) place {
	return func(key string) place { return r.at(join(parent, key)) }
}

// inVariables returns the places of the keys of a section in the environment.
func inVariables(section string) func(key string) place {
	return func(key string) place { return variable(join(section, key)) }
}

func builtin(string) place { return place{} }

// resolver turns a file's form into a Fleet.
type resolver struct {
	*report
	file    *fileForm
	env     overrideForm
	builtin defaultsForm
	arns    map[string]place  // target groups seen so far
	bundles map[string]string // content of the CA files read so far, by path
}

// resolve checks a file's form, and fills in what it and the overrides leave
// open. The fleet is valid only if nothing was noted in the report.
func (r *report) resolve(file *fileForm, env overrideForm) *Fleet {
	res := resolver{report: r, file: file, env: env, builtin: builtinDefaults(), arns: map[string]place{}, bundles: map[string]string{}}
	res.checkProbe(&file.Defaults.Probe, r.under("defaults.probe"))
	res.checkHealth(&file.Defaults.Health, r.under("defaults.health"))

	fleet := &Fleet{Credentials: res.credentials()}
	r.checkFilled(r.at("groups"), len(file.Groups), "group")
	names := map[string]place{}
	for i := range file.Groups {
		key := fmt.Sprintf("groups[%d]", i)
		if r.bad[r.at(key)] {
			continue
		}
		res.checkName(r.at(join(key, "name")), file.Groups[i].Name, names)
		fleet.Groups = append(fleet.Groups, res.group(key, &file.Groups[i]))
	}
	fleet.Files = slices.Sorted(maps.Keys(res.bundles))
	fleet.Deploy = res.deploy(fleet)
	return fleet
}

func (r *resolver) credentials() map[string]Credential {
	credentials := map[string]Credential{}
	for _, name := range slices.Sorted(maps.Keys(r.file.Credentials)) {
		form := r.file.Credentials[name]
		key := join("credentials", name)
		at := r.under(key)
		r.checkName(r.at(key), name, map[string]place{})
		sources := 0
		source := func(key string, value *string, check func(string) error) string {
			if value == nil {
				return ""
			}
			sources++
			if err := check(*value); err != nil {
				r.fail(at(key), "%v", err)
			}
			return *value
		}
		credentials[name] = Credential{
			SecretsManager: source("secrets_manager", form.SecretsManager, checkSecret),
			SSM:            source("ssm", form.SSM, checkParameter),
			Env:            source("env", form.Env, checkEnvPrefix),
		}
		if sources != 1 {
			r.fail(r.at(key), "needs exactly one of secrets_manager, ssm and env")
		}
	}
	return credentials
}

func (r *resolver) group(key string, form *groupForm) Group {
	at := r.under(key)
	r.checkProbe(&form.Probe, r.under(join(key, "probe")))
	r.checkHealth(&form.Health, r.under(join(key, "health")))
	r.checkGroupSettings(form.Mode, form.ReconcileInterval, at)
	r.checkCredentials(at("credentials"), form.Credentials)
	r.checkChecks(form.Checks, at("checks"))

	g := Group{
		Name:              form.Name,
		Mode:              firstOr(defaultMode, r.env.Mode, form.Mode),
		Prune:             form.Prune,
		ServerMetrics:     form.ServerMetrics,
		ReconcileInterval: time.Duration(firstOr(defaultReconcileInterval, r.env.ReconcileInterval, form.ReconcileInterval)),
		Health:            r.health(key, form),
	}
	r.checkFilled(at("target_groups"), len(form.TargetGroups), "target group")
	for i, t := range form.TargetGroups {
		g.TargetGroups = append(g.TargetGroups, r.targetGroup(fmt.Sprintf("%s.target_groups[%d]", key, i), t))
	}

	r.checkFilled(at("servers"), len(form.Servers), "server")
	names, addresses, inService := map[string]place{}, map[netip.Addr]place{}, 0
	for i := range form.Servers {
		serverKey := fmt.Sprintf("%s.servers[%d]", key, i)
		if r.bad[r.at(serverKey)] {
			continue
		}
		s := r.server(serverKey, &form.Servers[i], key, form)
		r.checkName(r.at(serverKey+".name"), s.Name, names)
		addressAt := r.at(serverKey + ".address")
		if twin, ok := addresses[s.Address]; ok && s.Address.IsValid() {
			r.fail(addressAt, "%s is already the address of %s on line %d", s.Address, parent(twin.key), twin.line)
		}
		addresses[s.Address] = addressAt
		if s.Admin != AdminOut {
			inService++
		}
		g.Servers = append(g.Servers, s)
	}
	g.Below = r.below(key, form, inService)
	return g
}

func (r *resolver) targetGroup(key string, form targetGroupForm) TargetGroup {
	if r.bad[r.at(key)] {
		return TargetGroup{}
	}
	at := r.at(key + ".arn")
	if !targetGroupARN.MatchString(form.ARN) {
		r.fail(at, "%s is not the ARN of a target group (arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID)", quote(form.ARN))
	}
	if twin, ok := r.arns[form.ARN]; ok {
		r.fail(at, "is already the target group of %s on line %d", parent(twin.key), twin.line)
	}
	r.arns[form.ARN] = at
	r.checkInt(r.at(key+".port"), form.Port, maxPort)
	return TargetGroup{ARN: form.ARN, Port: uint16(firstOr(0, form.Port))}
}

func (r *resolver) health(key string, form *groupForm) health.Policy {
	layers := []layer[healthForm]{
		{&r.env.Health, inVariables("health")},
		{&form.Health, r.under(join(key, "health"))},
		{&r.file.Defaults.Health, r.under("defaults.health")},
		{&r.builtin.Health, builtin},
	}
	threshold := pick(layers, "failure_threshold", func(f *healthForm) *int { return f.FailureThreshold })
	holdDown := pick(layers, "hold_down", func(f *healthForm) *duration { return f.HoldDown })
	holdDownMax := pick(layers, "hold_down_max", func(f *healthForm) *duration { return f.HoldDownMax })
	if holdDownMax.value < holdDown.value {
		r.clash([]origin{holdDownMax.origin, holdDown.origin}, "hold_down_max (%s) is less than hold_down (%s)", holdDownMax.value, holdDown.value)
	}
	return health.Policy{
		FailureThreshold: threshold.value,
		HoldDown:         time.Duration(holdDown.value),
		HoldDownMax:      time.Duration(holdDownMax.value),
	}
}

// below returns the floor of a group of which n servers are not admin out.
func (r *resolver) below(key string, form *groupForm, n int) int {
	layers := []layer[failOpenForm]{
		{&r.env.FailOpen, inVariables("fail_open")},
		{form.FailOpen, r.under(join(key, "fail_open"))},
		{r.file.Defaults.FailOpen, r.under("defaults.fail_open")},
		{r.builtin.FailOpen, func(string) place { return r.at(key) }},
	}
	least := pick(layers, "below", func(f *failOpenForm) *floor { return f.Below })
	below := least.value.of(n)
	if below > n && len(form.Servers) > 0 {
		r.clash([]origin{least.origin}, "fail_open below %d is more than the servers of group %s that are not admin out (%d)", below, quote(form.Name), n)
	}
	return below
}

func (r *resolver) server(key string, form *serverForm, groupKey string, group *groupForm) Server {
	at := r.under(key)
	r.checkProbe(&form.probeForm, at)
	checkWord(r.report, at("admin"), form.Admin, admins())
	r.checkCredentials(at("credentials"), form.Credentials)
	if form.Credentials == nil && group.Credentials == nil {
		r.fail(r.at(join(groupKey, "credentials")), "is missing, and not every server names its own")
	}
	address, err := parseAddress(form.Address)
	if err != nil {
		r.fail(at("address"), "%v", err)
	}
	r.checkChecks(form.Checks, at("checks"))
	return Server{
		Name:       form.Name,
		Address:    address,
		Admin:      firstOr(defaultAdmin, form.Admin),
		Credential: firstOr("", form.Credentials, group.Credentials),
		Checks: r.checks(form.Name, []layer[checksForm]{
			{&checksForm{form.Checks}, at},
			{&checksForm{group.Checks}, r.under(groupKey)},
		}, []layer[probeForm]{
			{&r.env.Probe, inVariables("probe")},
			{&form.probeForm, at},
			{&group.Probe, r.under(join(groupKey, "probe"))},
			{&r.file.Defaults.Probe, r.under("defaults.probe")},
			{&r.builtin.Probe, builtin},
		}),
	}
}

// checksForm is what a server and a group have of checks.
type checksForm struct{ list *[]checkForm }

// checks returns the checks of a server: those that it or its group lists, or
// the one that its probe settings are.
func (r *resolver) checks(server string, lists []layer[checksForm], layers []layer[probeForm]) []Probe {
	list := pick(lists, "checks", func(f *checksForm) *[]checkForm { return f.list })
	if len(list.value) == 0 {
		p := r.probe(layers)
		p.Row = server
		return []Probe{p}
	}
	var checks []Probe
	for i := range list.value {
		// The check's own keys come right after the variables; only its method comes first.
		form := &list.value[i].probeForm
		own := layer[probeForm]{form, r.under(fmt.Sprintf("%s[%d]", list.key, i))}
		named := layer[probeForm]{&probeForm{Method: form.Method}, own.at}
		all := append([]layer[probeForm]{named, layers[0], own}, layers[1:]...)
		if firstOr("", form.Method) == Accounting {
			// A port that stands further out is that of the other checks.
			named.form.Port = new(firstOr(accountingPort, form.Port))
		}
		p := r.probe(all)
		p.Row = server
		if len(list.value) > 1 {
			p.Row += "/" + string(p.Method)
		}
		checks = append(checks, p)
	}
	return checks
}

func (r *resolver) probe(layers []layer[probeForm]) Probe {
	method := pick(layers, "method", func(f *probeForm) *Method { return f.Method })
	port := pick(layers, "port", func(f *probeForm) *int { return f.Port })
	interval := pick(layers, "interval", func(f *probeForm) *duration { return f.Interval })
	fast := pick(layers, "fast_interval", func(f *probeForm) *duration { return f.FastInterval })
	timeout := pick(layers, "attempt_timeout", func(f *probeForm) *duration { return f.AttemptTimeout })
	attempts := pick(layers, "attempts", func(f *probeForm) *int { return f.Attempts })
	healthy := pick(layers, "healthy_on", func(f *probeForm) *[]health.Outcome { return f.HealthyOn })
	failure := pick(layers, "failure_on", func(f *probeForm) *[]health.Outcome { return f.FailureOn })
	authenticator := pick(layers, "message_authenticator", func(f *probeForm) *MessageAuthenticator { return f.MessageAuthenticator })
	nasIdentifier := pick(layers, "nas_identifier", func(f *probeForm) *string { return f.NASIdentifier })
	attributes := pick(layers, "attributes", func(f *probeForm) *map[string]attributeForm { return f.Attributes })
	caFile := pick(layers, "ca_file", func(f *probeForm) *string { return f.CAFile })
	requireValid := pick(layers, "require_valid_cert", func(f *probeForm) *bool { return f.RequireValidCert })

	if port.value == 0 {
		port.value = authenticationPort
		if method.value == Accounting {
			port.value = accountingPort
		}
	}
	p := Probe{
		Method:               method.value,
		Port:                 uint16(port.value),
		Interval:             time.Duration(interval.value),
		FastInterval:         time.Duration(fast.value),
		AttemptTimeout:       time.Duration(timeout.value),
		Attempts:             attempts.value,
		Criteria:             health.Criteria{HealthyOn: healthy.value, FailureOn: failure.value},
		MessageAuthenticator: authenticator.value,
		NASIdentifier:        nasIdentifier.value,
		Attributes:           r.attributes(attributes),
		CABundle:             r.caBundle(caFile),
		RequireValidCert:     requireValid.value,
	}
	if requireValid.value && method.value.UsesTLS() && caFile.value == "" {
		r.clash([]origin{requireValid.origin, method.origin}, "require_valid_cert needs a ca_file to check certificates of %s against", method.value)
	}
	if fast.value > interval.value {
		r.clash([]origin{fast.origin, interval.origin}, "fast_interval (%s) is longer than interval (%s)", fast.value, interval.value)
	}
	if budget := duration(p.Budget()); budget > interval.value {
		r.clash([]origin{interval.origin, attempts.origin, timeout.origin},
			"interval (%s) is shorter than the probe can take: %d attempts of %s are %s", interval.value, attempts.value, timeout.value, budget)
	}
	for _, o := range healthy.value {
		if slices.Contains(failure.value, o) {
			r.clash([]origin{healthy.origin, failure.origin}, "%s is in both healthy_on and failure_on", o)
		}
	}
	return p
}

// caBundle reads a CA file; empty if none is given.
func (r *resolver) caBundle(path setting[string]) string {
	if path.place == (place{}) {
		return ""
	}
	if content, ok := r.bundles[path.value]; ok {
		return content
	}
	if !filepath.IsLocal(path.value) {
		r.fail(path.place, "%s must be a relative path, beside this file or below: it is deployed with it", quote(path.value))
		return ""
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(r.report.file), path.value))
	switch {
	case err != nil:
		r.fail(path.place, "cannot be read: %v", err)
	case !x509.NewCertPool().AppendCertsFromPEM(content):
		r.fail(path.place, "%s holds no certificate in PEM", quote(path.value))
	}
	r.bundles[path.value] = string(content)
	return string(content)
}

// firstOr returns the first value that is set, or the default.
func firstOr[T any](otherwise T, values ...*T) T {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return otherwise
}

// parent returns the key that holds a key.
func parent(key string) string {
	return key[:strings.LastIndex(key, ".")]
}
