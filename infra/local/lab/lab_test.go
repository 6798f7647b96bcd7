package lab

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/health"
	"radwitness/pkg/probe/radiustest"
)

// brisk are overrides that make the lab's own fleet quick.
func brisk() []string {
	return []string{
		"RADWITNESS_PROBE_INTERVAL=1s", "RADWITNESS_PROBE_FAST_INTERVAL=200ms",
		"RADWITNESS_PROBE_ATTEMPT_TIMEOUT=450ms", "RADWITNESS_PROBE_ATTEMPTS=2", "RADWITNESS_RECONCILE_INTERVAL=1s",
	}
}

// start runs a lab until the test ends.
func start(t *testing.T, cfg Config) *Lab {
	t.Helper()
	cfg.Log = io.Discard
	l, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// await looks at the lab until it is as wanted.
func await(t *testing.T, l *Lab, what string, wanted func(View) bool) View {
	t.Helper()
	var v View
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var err error
		if v, err = l.View(t.Context()); err != nil {
			t.Fatal(err)
		}
		if wanted(v) {
			return v
		}
	}
	t.Fatalf("expected %s, actual %+v", what, v)
	return nil
}

func TestPassesAtRestWriteNothing(t *testing.T) {
	l := start(t, Config{Environ: brisk()})
	await(t, l, "all servers up and registered", func(v View) bool {
		return v[0].Registered() == 3 && v[0].Row.Pass == "done"
	})
	writes, changes := l.Calls.Count(PutItem), len(l.Calls.Changes())
	passes, probes := l.Calls.Count("DescribeTargetHealth"), l.Calls.Count(UpdateItem)
	for deadline := time.Now().Add(20 * time.Second); l.Calls.Count("DescribeTargetHealth") < passes+2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("expected two passes within 20 s")
		}
	}
	if got := l.Calls.Count(PutItem) - writes; got != 0 {
		t.Errorf("writes to table health: expected 0, actual %d", got)
	}
	if got := l.Calls.Changes()[changes:]; len(got) != 0 {
		t.Errorf("changes of targets: expected none, actual %v", got)
	}
	if l.Calls.Count(UpdateItem) == probes {
		t.Error("no probe was recorded meanwhile")
	}
}

func TestOwnFleetIsAdopted(t *testing.T) {
	server, err := radiustest.Listen("127.0.0.1:0", radiustest.Config{Secret: "s3cret", Users: map[string]string{"user": "pass"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	environ := append(brisk(), "LAB_SHARED_SECRET=s3cret", "LAB_USERNAME=user", "LAB_PASSWORD=pass")
	path := write(t, `
credentials: {lab: {env: LAB}}
groups:
  - name: vpn
    credentials: lab
    target_groups:
      - arn: arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/auth/0123456789abcdef
      - arn: arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/acct/0123456789abcdef
        port: 1813
    servers:
      - {name: one, address: 127.0.0.1, port: `+server.Addr().String()[len("127.0.0.1:"):]+`}
`)
	f, err := LoadFleet(path, environ)
	if err != nil {
		t.Fatal(err)
	}
	configured := f.Fleet.Groups[0].TargetGroups[0].ARN
	l := start(t, Config{Fleet: f, Environ: environ})
	if l.Fleet.Groups[0].TargetGroups[0].ARN == configured || f.Fleet.Groups[0].TargetGroups[0].ARN != configured {
		t.Error("the lab's fleet must have target groups of its own, and the user's stay as it is")
	}
	in := func(v View) bool { return v.Servers()[0].In() }
	v := await(t, l, "the server up and in both target groups", in)
	one := v.Servers()[0]
	if one.State.Status != health.Up || one.TargetGroups != 2 || one.Fault != "" {
		t.Errorf("the server is %+v", one)
	}
	if err := l.SetFault("one", radiustest.RejectAll); err == nil {
		t.Error("a fault of a server that is not the lab's: no error")
	}
	if err := l.RemoveTarget(t.Context(), "vpn", "one"); err != nil {
		t.Fatal(err)
	}
	await(t, l, "the target back in both target groups", in)
	if err := l.RemoveTarget(t.Context(), "vpn", "two"); err == nil {
		t.Error("removing the target of an unknown server: no error")
	}
}

func TestLoadFleetRefusesWhatOnlyAWSHas(t *testing.T) {
	group := `
groups:
  - name: vpn
    credentials: corp-1
    target_groups: [{arn: "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/auth/0123456789abcdef"}]
    servers: [{name: one, address: 127.0.0.1}]
`
	for _, test := range []struct{ name, text, want string }{
		{"Secrets Manager", "credentials: {corp-1: {secrets_manager: radius}}" + group, "write {env: CORP_1} in their place and set CORP_1_SHARED_SECRET"},
		{"Parameter Store", "credentials: {corp-1: {ssm: /radius}}" + group, "credentials corp-1 are kept in AWS"},
		{"a source that no server uses", "credentials: {corp-1: {env: CORP}, other: {ssm: /radius}}" + group, ""},
		{"what fleet.Load refuses", "credentials: {}", "groups"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := LoadFleet(write(t, test.text), nil)
			if test.want == "" && err != nil {
				t.Error(err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestSetFaultNamesTheServer(t *testing.T) {
	l := start(t, Config{Environ: brisk()})
	if err := l.SetFault("radius-2", radiustest.DropAll); err != nil {
		t.Fatal(err)
	}
	v, err := l.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	for _, s := range v.Servers() {
		faults = append(faults, s.Fault)
	}
	if diff := cmp.Diff([]string{"none", "drop-all", "none"}, faults); diff != "" {
		t.Errorf("faults:\n%s", diff)
	}
	if err := l.SetFault("radius-9", radiustest.DropAll); err == nil {
		t.Error("an unknown server: no error")
	}
}

func TestCallsReadBothProtocols(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
	}))
	defer server.Close()
	calls := &Calls{next: http.DefaultTransport}
	post := func(target, body string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if target != "" {
			r.Header.Set("X-Amz-Target", target)
		}
		answer, err := (&http.Client{Transport: calls}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	const change = "Action=DeregisterTargets&TargetGroupArn=arn&Targets.member.1.Id=10.0.0.1&Targets.member.2.Id=10.0.0.2"
	post("DynamoDB_20120810.PutItem", `{"Item":{}}`)
	post("DynamoDB_20120810.UpdateItem", `{}`)
	post("DynamoDB_20120810.UpdateItem", `{}`)
	post("", change)
	post("", "Action=DescribeTargetHealth&TargetGroupArn=arn")

	if got := calls.Count(UpdateItem, PutItem); got != 3 {
		t.Errorf("writes: %d, want 3", got)
	}
	if got := calls.Count(DeregisterTargets, RegisterTargets); got != 1 {
		t.Errorf("changes: %d, want 1", got)
	}
	if diff := cmp.Diff([]string{`{"Item":{}}`, `{}`, `{}`, change, "Action=DescribeTargetHealth&TargetGroupArn=arn"}, bodies); diff != "" {
		t.Errorf("bodies that arrived:\n%s", diff)
	}
	list := calls.Changes()
	if len(list) != 1 || list[0].Operation != DeregisterTargets || !cmp.Equal(list[0].Targets, []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("changes: %+v", list)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
