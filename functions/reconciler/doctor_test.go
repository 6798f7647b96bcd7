//go:build !lambda.norpc

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"radwitness/infra/local/demo"
	"radwitness/infra/local/lab"
	"radwitness/pkg/deployed"
	"radwitness/pkg/doctor"
)

// front is AWS as a doctor sees it: the lab's emulator, and what that lacks.
type front struct {
	next http.Handler

	mu      sync.Mutex
	zones   []string          // of the load balancer
	targets string            // answer to DescribeTargetHealth; empty asks the emulator
	denied  map[string]string // operations that answer with a code
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if action := form.Get("Action"); action != "" {
		operation = action
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch code := f.denied[operation]; {
	case code != "" && form.Has("Action"):
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>", code)
	case code != "":
		w.Header().Set("X-Amzn-Errortype", code)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type": %q, "message": "no"}`, code)
	case strings.HasSuffix(r.URL.Path, "/concurrency"), strings.HasSuffix(r.URL.Path, "/event-invoke-config"):
		_, _ = io.WriteString(w, "{}") // nothing is set
	case operation == "DescribeTargetHealth" && f.targets != "":
		_, _ = fmt.Fprintf(w, "<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions>%s"+
			"</TargetHealthDescriptions></DescribeTargetHealthResult></DescribeTargetHealthResponse>", f.targets)
	case operation == "DescribeLoadBalancers" && f.zones != nil:
		answer := httptest.NewRecorder()
		f.next.ServeHTTP(answer, r)
		var zones strings.Builder
		for _, z := range f.zones {
			fmt.Fprintf(&zones, "<member><ZoneName>%s</ZoneName></member>", z)
		}
		before, _, _ := strings.Cut(answer.Body.String(), "<AvailabilityZones>")
		_, after, _ := strings.Cut(answer.Body.String(), "</AvailabilityZones>")
		_, _ = fmt.Fprintf(w, "%s<AvailabilityZones>%s</AvailabilityZones>%s", before, &zones, after)
	default:
		f.next.ServeHTTP(w, r)
	}
}

// target is a target as DescribeTargetHealth lists it.
func target(address string, port int32, zone string, state elbv2types.TargetHealthStateEnum) string {
	return fmt.Sprintf("<member><Target><Id>%s</Id><Port>%d</Port><AvailabilityZone>%s</AvailabilityZone></Target>"+
		"<TargetHealth><State>%s</State></TargetHealth></member>", address, port, zone, state)
}

// labAccount is a lab with a front, and the environment of a terminal that looks at it.
type labAccount struct {
	*lab.Lab
	front   *front
	environ []string
	arn     string // of the target group
	port    int32  // of the servers
}

// startLab starts a lab and waits until all of its servers are in.
func startLab(t *testing.T) *labAccount {
	t.Helper()
	l, err := lab.Start(t.Context(), lab.Config{Log: io.Discard, Environ: demo.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	emulator, err := url.Parse(*l.Operator.BaseEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	d := &labAccount{Lab: l, front: &front{next: httputil.NewSingleHostReverseProxy(emulator)}, arn: l.Fleet.Groups[0].TargetGroups[0].ARN}
	server := httptest.NewServer(d.front)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "local.env")
	if _, err := l.Export(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if assignment, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			d.environ = append(d.environ, strings.ReplaceAll(assignment, "'", ""))
		}
	}
	d.environ = append(d.environ, "AWS_ENDPOINT_URL="+server.URL)
	d.port = int32(l.Fleet.Groups[0].Servers[0].Checks[0].Port)
	d.await(t)
	return d
}

// await waits until all servers are in and the pass that did it is recorded.
func (d *labAccount) await(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		view, err := d.View(t.Context())
		if err == nil && view[0].Registered() == 3 && view[0].Row.Pass == "done" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the servers are not in: %+v, %v", view, err)
		}
	}
}

// run runs a command with the terminal's environment and more.
func (d *labAccount) run(t *testing.T, more []string, args ...string) (code int, out, errs string) {
	t.Helper()
	environ := append(slices.Clone(d.environ), more...)
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
	// The last of a name wins in a process; console takes the first.
	slices.Reverse(environ)
	var stdout, stderr bytes.Buffer
	code = console{environ: environ, out: &stdout, err: &stderr, args: args}.run(t.Context())
	return code, stdout.String(), stderr.String()
}

// examine runs doctor and returns what is not well, in words.
func (d *labAccount) examine(t *testing.T, more []string, args ...string) (code int, problems []string, report doctor.Report) {
	t.Helper()
	code, out, errs := d.run(t, more, append([]string{"doctor", "-json"}, args...)...)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		t.Fatalf("exit code %d, output %s, %s, %v", code, out, errs, err)
	}
	if err := compile(t, "doctor").Validate(document); err != nil {
		t.Errorf("the output does not fit its schema: %v\n%s", err, out)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Level != doctor.OK {
			problems = append(problems, fmt.Sprintf("%s %s: %s", f.Level, f.Check, f.Says))
		}
	}
	return code, problems, report
}

func TestDoctor(t *testing.T) {
	d := startLab(t)
	none := func(t *testing.T) {
		t.Helper()
		if code, problems, _ := d.examine(t, nil); code != exitFine || problems != nil {
			t.Errorf("exit code %d, false alarms:\n%s", code, strings.Join(problems, "\n"))
		}
	}
	t.Run("finds nothing wrong with a good deployment", none)
	t.Run("and says so", func(t *testing.T) {
		code, out, errs := d.run(t, nil, "doctor")
		if code != exitFine || errs != "" || !strings.Contains(out, "0 warn, 0 fail") || strings.Contains(out, "mend") || strings.Contains(out, "\x1b") {
			t.Errorf("exit code %d, %s\n%s", code, errs, out)
		}
		_, all, _ := d.run(t, nil, "doctor", "-all")
		if strings.Count(all, "\n    ok ") < 40 {
			t.Errorf("-all lists too little:\n%s", all)
		}
	})

	t.Run("finds six mistakes and nothing else", func(t *testing.T) {
		d.plant(t)
		// The functions go on with PAP on their port: these are the terminal's alone.
		more := []string{"RADWITNESS_PROBE_METHOD=eap-md5", "RADWITNESS_PROBE_PORT=1812"}
		code, problems, report := d.examine(t, more)
		want := []string{
			"fail connection-termination: off: a NAS that sends from one port stays on a server that is out for ever",
			"fail health-check-port: no target passes it: TCP to the port that RADIUS is sent to",
			fmt.Sprintf("fail port: users are sent to port %d, which is not probed on radius-1, radius-2, radius-3", d.port),
			"fail zones: without a target: us-east-1b; cross-zone balancing is off",
			"warn stickiness: off, and the group speaks EAP (eap-md5)",
			fmt.Sprintf("warn unmanaged: 10.9.9.9:%d is no server's", d.port),
		}
		slices.Sort(problems)
		if diff := cmp.Diff(want, problems); diff != "" || code != exitAttention || report.Level != doctor.Fail {
			t.Errorf("exit code %d, findings (-want +got):\n%s", code, diff)
		}
		for _, f := range report.Findings {
			if f.Level != doctor.OK && (!strings.Contains(f.Mend, d.arn) && f.Check != "port" || f.Source == "") {
				t.Errorf("%s: mend %q, source %q", f.Check, f.Mend, f.Source)
			}
		}
		code, out, _ := d.run(t, more, "doctor")
		if code != exitAttention || !strings.Contains(out, "2 warn, 4 fail") ||
			!strings.Contains(out, "mend  aws elbv2 modify-target-group-attributes --target-group-arn "+d.arn) {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
	t.Run("finds nothing once they are mended", func(t *testing.T) {
		d.mend(t)
		none(t)
	})
}

// modify sets attributes of the target group.
func (d *labAccount) modify(t *testing.T, attributes map[string]string) {
	t.Helper()
	in := &elbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &d.arn}
	for key, value := range attributes {
		in.Attributes = append(in.Attributes, elbv2types.TargetGroupAttribute{Key: &key, Value: &value})
	}
	if _, err := elbv2.NewFromConfig(d.Operator).ModifyTargetGroupAttributes(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// plant makes mistakes in the target group: no termination, an empty zone without
// cross-zone balancing, a target of nobody's, and a health check that nobody passes.
func (d *labAccount) plant(t *testing.T) {
	t.Helper()
	d.modify(t, map[string]string{"deregistration_delay.connection_termination.enabled": "false", "load_balancing.cross_zone.enabled": "false"})
	d.front.mu.Lock()
	defer d.front.mu.Unlock()
	d.front.zones = []string{"us-east-1a", "us-east-1b"}
	d.front.targets = target("10.9.9.9", d.port, "us-east-1a", elbv2types.TargetHealthStateEnumUnhealthy)
	for _, s := range d.Fleet.Groups[0].Servers {
		d.front.targets += target(s.Address.String(), d.port, "us-east-1a", elbv2types.TargetHealthStateEnumUnhealthy)
	}
}

func (d *labAccount) mend(t *testing.T) {
	t.Helper()
	d.modify(t, map[string]string{"deregistration_delay.connection_termination.enabled": "true", "load_balancing.cross_zone.enabled": "true"})
	d.front.mu.Lock()
	defer d.front.mu.Unlock()
	d.front.zones, d.front.targets = nil, ""
}

// What the operator may not read is not checked: neither good nor bad.
func TestDoctorWithoutPermissions(t *testing.T) {
	d := startLab(t)
	d.front.denied = map[string]string{
		"DescribeTargetGroupAttributes": "AccessDenied", "GetSecretValue": "AccessDeniedException", "DescribeTimeToLive": "AccessDeniedException",
	}
	code, problems, _ := d.examine(t, nil)
	want := []string{
		"warn not-checked: to read its attributes needs elasticloadbalancing:DescribeTargetGroupAttributes",
		"warn not-checked: to read its time to live needs dynamodb:DescribeTimeToLive",
		"warn not-checked: to read its time to live needs dynamodb:DescribeTimeToLive",
		"warn not-checked: to read the secret needs secretsmanager:GetSecretValue",
	}
	slices.Sort(problems)
	if diff := cmp.Diff(want, problems); diff != "" || code != exitWarnings {
		t.Errorf("exit code %d, findings (-want +got):\n%s", code, diff)
	}
	d.front.denied = map[string]string{"GetCallerIdentity": "ExpiredToken"}
	if code, _, errs := d.run(t, nil, "doctor"); code != exitFailed || !strings.Contains(errs, "the AWS credentials have expired") {
		t.Errorf("expired: exit code %d, %s", code, errs)
	}
}

// The emulator by itself cannot tell everything, and is not taken for broken.
func TestDoctorOnTheEmulator(t *testing.T) {
	d := startLab(t)
	code, problems, _ := d.examine(t, []string{"AWS_ENDPOINT_URL=" + *d.Operator.BaseEndpoint})
	if code != exitWarnings {
		t.Errorf("exit code %d", code)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p, "warn not-checked: ") {
			t.Errorf("a false alarm: %s", p)
		}
	}
}

func TestDoctorWithoutAStack(t *testing.T) {
	d := startLab(t)
	code, problems, _ := d.examine(t, []string{"RADWITNESS_STACK=nothing", "RADWITNESS_PROBES_TABLE=", "RADWITNESS_HEALTH_TABLE="})
	want := []string{
		"fail function: is not there",
		"fail function: is not there",
		"fail schedule: is not there",
	}
	if diff := cmp.Diff(want, problems); diff != "" || code != exitAttention {
		t.Errorf("exit code %d, findings (-want +got):\n%s", code, diff)
	}
}

func TestDoctorUsage(t *testing.T) {
	d := startLab(t)
	elsewhere := strings.NewReplacer("us-east-1", "eu-central-1", ":000000000000:", ":123456789012:")
	text, err := os.ReadFile(deployed.Source{Environ: d.environ}.Variable("RADWITNESS_FLEET"))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(other, []byte(elsewhere.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		err  string
	}{
		{[]string{"doctor", "extra"}, `"extra" is no argument of radwitness doctor`},
		{[]string{"doctor", "-group", "lan"}, `group "lan" is not in the fleet`},
		{[]string{"-config", other, "doctor"}, "the target groups are in eu-central-1, and the AWS configuration says us-east-1: use -region eu-central-1"},
		{[]string{"-config", other, "-region", "eu-central-1", "doctor"},
			"the target groups are in account 123456789012, and these credentials are of account 000000000000"},
	} {
		if code, out, errs := d.run(t, nil, test.args...); code != exitFailed || out != "" || !strings.Contains(errs, test.err) {
			t.Errorf("%v: exit code %d, %s%s, want %q", test.args, code, out, errs, test.err)
		}
	}
}
