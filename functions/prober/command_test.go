package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/freeradiustest"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/prober"
)

const (
	secret   = "xyzzy-shared"
	password = "correct-horse"
)

// writeFleet writes a fleet file whose servers are the given addresses.
func writeFleet(t *testing.T, servers ...netip.AddrPort) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`
defaults:
  probe: {interval: 5s, attempt_timeout: 250ms, attempts: 2}
credentials:
  lab: {env: LAB}
groups:
  - name: vpn
    target_groups: [{arn: "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/vpn/0123456789abcdef"}]
    credentials: lab
    servers:
`)
	for i, s := range servers {
		fmt.Fprintf(&b, "      - {name: radius-%d, address: %s, port: %d}\n", i+1, s.Addr(), s.Port())
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environ(secret, password string) []string {
	return []string{"LAB_SHARED_SECRET=" + secret, "LAB_USERNAME=probe", "LAB_PASSWORD=" + password}
}

// run runs the command and checks that it shows no secret.
func run(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = command{environ: environ, out: &out, err: &errs}.run(t.Context(), args)
	for _, text := range []string{out.String(), errs.String()} {
		for _, s := range []string{secret, password} {
			if strings.Contains(text, s) {
				t.Errorf("a secret is shown:\n%s", text)
			}
		}
	}
	return code, out.String(), errs.String()
}

// outcome runs the command with -json and returns the only server's outcome.
func outcome(t *testing.T, environ []string, path string) (health.Outcome, int) {
	t.Helper()
	code, stdout, stderr := run(t, environ, "-config", path, "-json")
	var report prober.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Results) != 1 {
		t.Fatalf("report %s (%v), stderr %s", stdout, err, stderr)
	}
	t.Logf("%+v", report.Results[0])
	return report.Results[0].Outcome, code
}

func TestAgainstFreeRADIUS(t *testing.T) {
	server := freeradiustest.Start(t, freeradiustest.Config{Secret: secret, Users: map[string]string{"probe": password}})
	path := writeFleet(t, server.Addr())
	check := func(what string, environ []string, wantCode int, want ...health.Outcome) {
		t.Helper()
		got, code := outcome(t, environ, path)
		for _, w := range want {
			if got == w && code == wantCode {
				return
			}
		}
		t.Errorf("%s: outcome %s, exit code %d; want one of %v, %d", what, got, code, want, wantCode)
	}
	check("right password", environ(secret, password), exitHealthy, health.Accept)
	check("wrong password", environ(secret, "wrong"), exitCritical, health.Reject)
	check("wrong secret", environ("wrong", password), exitCritical, health.Timeout, health.BadAuthenticator)
	server.Stop()
	check("stopped", environ(secret, password), exitCritical, health.Refused)
}

func TestTable(t *testing.T) {
	config := radiustest.Config{Secret: secret, Users: map[string]string{"probe": password}, Welcome: "welcome", Refusal: "no such user"}
	good, bad := radiustest.Start(t, config), radiustest.Start(t, config)
	if err := bad.SetFault(radiustest.RejectAll); err != nil {
		t.Fatal(err)
	}
	path := writeFleet(t, good.Addr())
	code, stdout, stderr := run(t, environ(secret, password), "-config", path)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitHealthy || stderr != "" || len(lines) != 2 {
		t.Fatalf("exit code %d, stdout\n%s\nstderr %s", code, stdout, stderr)
	}
	if got := strings.Fields(lines[0]); strings.Join(got, " ") != "GROUP SERVER ADDRESS METHOD OUTCOME LATENCY SENT CERTIFICATE REPLY" {
		t.Errorf("header %v", got)
	}
	fields := strings.Fields(lines[1])
	fields[5] = "N"
	if got, want := strings.Join(fields, " "), "vpn radius-1 "+good.Addr().String()+" pap accept N ms 1 - welcome"; got != want {
		t.Errorf("row %q, want %q", got, want)
	}

	path = writeFleet(t, good.Addr(), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), bad.Addr().Port()))
	if code, stdout, _ = run(t, environ(secret, password), "-config", path); code != exitCritical {
		t.Errorf("a server that is not healthy: exit code %d, stdout\n%s", code, stdout)
	}
	if code, stdout, _ = run(t, environ(secret, password), "-config", path, "-group", "vpn", "-server", "radius-1"); code != exitHealthy {
		t.Errorf("the healthy one only: exit code %d, stdout\n%s", code, stdout)
	}
}

func TestUnreadableCredentialsAreNotHealthy(t *testing.T) {
	server := radiustest.Start(t, radiustest.Config{Secret: secret})
	code, stdout, _ := run(t, nil, "-config", writeFleet(t, server.Addr()))
	if code != exitCritical || !strings.Contains(stdout, "prober_error") || !strings.Contains(stdout, "LAB_SHARED_SECRET") {
		t.Errorf("exit code %d, stdout\n%s", code, stdout)
	}
}

func TestBadUsage(t *testing.T) {
	path := writeFleet(t, netip.MustParseAddrPort("127.0.0.1:1812"))
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("groups:\n  - nmae: vpn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		err  string
	}{
		{nil, exitUnknown, "say where it is with -config FILE or RADWITNESS_FLEET"},
		{[]string{"-verbose"}, exitUnknown, "flag provided but not defined: -verbose"},
		{[]string{"-config"}, exitUnknown, "flag needs an argument: -config"},
		{[]string{"-config", path, "extra"}, exitUnknown, `"extra" is no argument`},
		{[]string{"-config", "no-such-file"}, exitUnknown, "no-such-file"},
		{[]string{"-config", broken}, exitUnknown, "broken.yaml:2: groups[0].nmae:"},
		{[]string{"-config", path, "-group", "lan"}, exitUnknown, `group "lan" is not in the fleet`},
		{[]string{"-config", path, "-server", "x"}, exitUnknown, `server "x" is not in the fleet`},
		{[]string{"-config", path, "-method", "smoke"}, exitUnknown, `method "smoke" cannot be probed`},
	} {
		code, stdout, stderr := run(t, environ(secret, password), c.args...)
		if code != c.code || !strings.Contains(stderr, c.err) || stdout != "" || strings.Contains(stderr, "OPTIONS") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %d and %q", c.args, code, stdout, stderr, c.code, c.err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"fleet-test", "-h"}} {
		code, stdout, stderr := run(t, nil, args...)
		if code != exitHealthy || stderr != "" || !strings.Contains(stdout, "Exit code: 0") || !strings.Contains(stdout, "--config FILE") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// The fleet file may also come from the environment, and flags may be written
// with one dash or two, before a command and after it.
func TestCommandLines(t *testing.T) {
	server := radiustest.Start(t, radiustest.Config{Secret: secret, Users: map[string]string{"probe": password}})
	path := writeFleet(t, server.Addr())
	set := append(environ(secret, password), "RADWITNESS_FLEET="+path)
	for _, c := range []struct {
		environ []string
		args    []string
	}{
		{set, nil},
		{environ(secret, password), []string{"--config", path, "--group=vpn"}},
		{environ(secret, password), []string{"-config=" + path, "-server", "radius-1"}},
		{environ(secret, password), []string{"-config", path, "fleet-test", "-n", "1"}},
		{environ(secret, password), []string{"fleet-test", "-n", "1", "-config", path, "--group", "vpn"}},
		{set, []string{"fleet-test", "-n=1"}},
	} {
		if code, stdout, stderr := run(t, c.environ, c.args...); code != exitHealthy || !strings.Contains(stdout, "radius-1") {
			t.Errorf("%v: exit code %d, stdout %s, stderr %s", c.args, code, stdout, stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	path := writeFleet(t, netip.MustParseAddrPort("127.0.0.1:1812"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--generate-shell-completion"}, "fleet-test"},
		{[]string{"-config", path, "-group", "--generate-shell-completion"}, "vpn"},
		{[]string{"-config", path, "fleet-test", "-group", "--generate-shell-completion"}, "vpn"},
		{[]string{"fleet-test", "--str", "--generate-shell-completion"}, "--strategy:"},
		{[]string{"fleet-test", "-str", "--generate-shell-completion"}, "\n-strategy:"},
		{[]string{"fleet-test", "-", "--generate-shell-completion"}, "\n-config:"},
		{[]string{"fleet-test", "-config", path, "-servers", "--generate-shell-completion"}, "radius-1"},
		{[]string{"fleet-test", "-strategy", "--generate-shell-completion"}, "round-robin"},
		{[]string{"completion", "bash"}, "radwitness-prober"},
		{[]string{"completion", "zsh"}, "radwitness-prober"},
		{[]string{"completion", "fish"}, "radwitness-prober"},
	} {
		if code, stdout, stderr := run(t, nil, c.args...); code != exitHealthy || stderr != "" || !strings.Contains(stdout, c.want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %q", c.args, code, stdout, stderr, c.want)
		}
	}
	if _, stdout, _ := run(t, nil, "-group", "--generate-shell-completion"); stdout != "" {
		t.Errorf("without a fleet: %q", stdout)
	}
}

// The sample with every method, against a real server: all healthy, and all that
// need a user rejected once the identity store has lost it.
func TestMethodsAgainstFreeRADIUS(t *testing.T) {
	server := freeradiustest.Start(t, freeradiustest.Config{Secret: secret, Users: map[string]string{"probe": password}})
	sample, err := os.ReadFile("../../testdata/methods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := strings.NewReplacer(
		"port: 11812", fmt.Sprintf("port: %d", server.Addr().Port()),
		"port: 11813", fmt.Sprintf("port: %d", server.Accounting().Port()),
	).Replace(string(sample))
	path := filepath.Join(t.TempDir(), "methods.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}

	report := func(wantCode int) prober.Report {
		t.Helper()
		code, table, stderr := run(t, environ(secret, password), "-config", path)
		if code != wantCode || stderr != "" {
			t.Errorf("exit code %d, want %d, stderr %s", code, wantCode, stderr)
		}
		t.Logf("exit code %d\n%s", code, table)
		_, stdout, _ := run(t, environ(secret, password), "-config", path, "-json")
		var r prober.Report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	needsUser := func(m fleet.Method) bool { return m != fleet.StatusServer && m != fleet.Accounting }
	healthy := report(exitHealthy)
	if len(healthy.Results) != len(probe.Supported()) {
		t.Errorf("%d methods of %d", len(healthy.Results), len(probe.Supported()))
	}
	for _, s := range healthy.Results {
		if !s.Healthy || needsUser(s.Method) != (s.Outcome == health.Accept) {
			t.Errorf("%s: %+v", s.Method, s)
		}
		if c := s.Certificate; s.Method.UsesTLS() != (c != nil) || c != nil && (!c.ExpiresAt.Equal(server.Expires()) || c.DaysLeft != 89) {
			t.Errorf("%s: certificate %+v", s.Method, s.Certificate)
		}
	}
	server.SetUsers(t, nil)
	for _, s := range report(exitCritical).Results {
		if want := map[bool]health.Outcome{true: health.Reject, false: health.Alive}[needsUser(s.Method)]; s.Outcome != want {
			t.Errorf("%s without the user: %+v", s.Method, s)
		}
	}
}
