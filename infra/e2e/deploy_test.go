//go:build e2e

// Package e2e deploys the whole system with the real CDK CLI into ministack, an
// emulator of AWS on this machine, where the functions run as the processes that
// Lambda would run, and lets it watch real FreeRADIUS servers. Everything stays
// on loopback addresses. make e2e prepares and runs it.
package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/pkg/doctor"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/prober"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

const (
	group    = "vpn-auth"
	holdDown = 20 * time.Second
)

// fleetFile is fleet.yaml of the test.
var fleetFile = template.Must(template.New("fleet.yaml").Parse(`defaults:
  probe: {port: {{.Port}}, interval: 5s, fast_interval: 1s, attempt_timeout: 1s, attempts: 2}
  health: {failure_threshold: 3, hold_down: {{.HoldDown}}, hold_down_max: {{.HoldDown}}}
credentials:
  vpn: {secrets_manager: "{{.Secret}}"}
groups:
  - name: {{.Group}}
    mode: {{.Mode}}
    target_groups: [{arn: "{{.TargetGroup}}"}]
    credentials: vpn
    reconcile_interval: 5s
    servers:
{{- range .Servers}}
      - {name: {{.Name}}, address: {{.Address}}}
{{- end}}
deploy:
  vpc_id: {{.VPC}}
  subnet_ids: [{{index .Subnets 0}}, {{index .Subnets 1}}]
  availability_zones: [us-east-1a, us-east-1b]
  endpoints: [dynamodb]
  reachable: [secretsmanager]
  route_table_ids: [{{.RouteTable}}]
  dynamodb_prefix_list_id: pl-02cd2c6b
  architecture: {{.Architecture}}
  alarm_email: noc@example.com
  retain_tables: false
`))

// arch is this machine's architecture: ministack runs the functions here.
type arch struct {
	goArch, lambda string
}

func architecture() arch {
	if runtime.GOARCH == "arm64" {
		return arch{"arm64", "arm64"}
	}
	return arch{"amd64", "x86_64"}
}

func writeFleet(t *testing.T, path string, mode fleet.Mode, port int, p place, servers []*radiusServer) {
	t.Helper()
	type server struct{ Name, Address string }
	var list []server
	for _, s := range servers {
		list = append(list, server{s.name, s.address})
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	err = fleetFile.Execute(f, map[string]any{
		"Mode": mode, "Port": port, "HoldDown": holdDown, "Group": group, "Secret": p.secret, "TargetGroup": p.targetGroup, "Servers": list,
		"VPC": p.vpc, "Subnets": p.subnets, "RouteTable": p.routeTable, "Architecture": architecture().lambda,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// outputs are what the stack tells of itself.
type outputs struct {
	ProbesTableName, HealthTableName, ProberFunctionName, ReconcilerFunctionName, ProbeByHand string
}

func TestDeploy(t *testing.T) {
	begin := time.Now()
	step := func(name string, do func()) {
		t.Helper()
		start := time.Now()
		do()
		t.Logf("%5.1fs  %s", time.Since(start).Seconds(), name)
	}
	var (
		port    = freePort(t)
		servers []*radiusServer
		c       *cloud
		p       place
		out     outputs
		probes  store.Probes
		states  store.Health
		said    strings.Builder // what the CLI printed
		file    = filepath.Join(t.TempDir(), "fleet.yaml")
		results = filepath.Join(t.TempDir(), "outputs.json")
	)
	deploy := func() string {
		t.Helper()
		text := c.mustCDK("deploy", "--context", "fleet="+file, "--require-approval", "never", "--outputs-file", results)
		said.WriteString(text)
		return text
	}

	step("three FreeRADIUS servers started", func() {
		for n := range 3 {
			servers = append(servers, startRADIUS(t, n+1, port))
		}
	})
	step("ministack started", func() { c = startCloud(t) })
	step("VPC, subnets, UDP target group with the servers, secret made", func() {
		p = c.furnish(port, servers)
		writeFleet(t, file, fleet.Observe, port, p, servers)
	})
	step("cdk bootstrap", func() { c.mustCDK("bootstrap", "aws://"+account+"/"+region, "--context", "fleet="+file) })
	step("cdk deploy, in observe mode", func() {
		deploy()
		out = readOutputs(t, results)
		probes = store.Probes{DynamoDB: dynamodb.NewFromConfig(c.cfg), Table: out.ProbesTableName}
		states = store.Health{DynamoDB: dynamodb.NewFromConfig(c.cfg), Table: out.HealthTableName}
	})
	step("the schedule has fired: every server has a row in table probes", func() {
		waitForRows(t, probes, 2*time.Minute, servers)
	})
	step("the reconciler has all servers up, and leaves the target group as it is", func() {
		waitForStatus(t, states, 30*time.Second, health.Up, servers...)
		c.waitForTargets(p, time.Second, servers...)
	})
	broken := servers[1]
	step(broken.name+" loses its identity store, is down, and stays in the target group", func() {
		broken.breakStore(t)
		waitForStatus(t, states, 90*time.Second, health.Down, broken)
		c.waitForTargets(p, time.Second, servers...)
	})
	step("cdk deploy again: no changes", func() {
		if text := deploy(); !strings.Contains(text, "(no changes)") {
			t.Errorf("deploying again does not say that nothing changed:\n%s", text)
		}
		c.waitForTargets(p, time.Second, servers...) // still
	})
	step("cdk deploy, in enforce mode: "+broken.name+" leaves the target group", func() {
		writeFleet(t, file, fleet.Enforce, port, p, servers)
		deploy()
		c.waitForTargets(p, 90*time.Second, servers[0], servers[2])
	})
	step(broken.name+" is repaired, and returns after its hold-down", func() {
		broken.repair(t)
		waitForStatus(t, states, 90*time.Second, health.HoldDown, broken)
		held := stateOf(t, states, broken).HeldUntil
		c.waitForTargets(p, 90*time.Second, servers...)
		if back := time.Now(); back.Before(held) {
			t.Errorf("%s is back at %v, before its hold-down ends at %v", broken.name, back, held)
		}
		checkHistory(t, states, broken, "unknown up", "up down", "down holddown", "holddown up")
	})
	step(servers[2].name+" loses its identity store: the time from fault to deregistration", func() {
		servers[2].breakStore(t)
		c.waitForTargets(p, 90*time.Second, servers[0], servers[1])
		servers[2].repair(t)
	})
	step("the prober, invoked by hand as the stack's output says", func() {
		payload := regexp.MustCompile(`--payload '(.*)'`).FindStringSubmatch(out.ProbeByHand)
		if payload == nil {
			t.Fatalf("output ProbeByHand, %q, has no payload", out.ProbeByHand)
		}
		var report prober.Report
		c.invoke(out.ProberFunctionName, payload[1], &report)
		if !report.Healthy || len(report.Results) != 1 || report.Results[0].Server != servers[0].name || report.Results[0].Outcome != health.Accept {
			t.Errorf("the prober reports %+v, want %s healthy", report, servers[0].name)
		}
	})
	step("the reconciler, asked for its plan", func() {
		var plan reconciler.PlanReport
		c.invoke(out.ReconcilerFunctionName, `{"action":"plan","group":"`+group+`"}`, &plan)
		if tg := plan.Groups[0].TargetGroups[0]; tg.Error != "" || len(tg.Deregister) > 0 || len(plan.Groups[0].Servers) != len(servers) {
			t.Errorf("the reconciler plans %+v, want all servers and nobody to leave", plan.Groups[0])
		}
	})
	step("doctor finds that no listener leads to the target group, and nothing wrong with the stack", func() {
		var report doctor.Report
		c.command(&report, "doctor", "-config", file, "-json")
		var failed []string
		well := map[string]bool{}
		for _, f := range report.Findings {
			switch f.Level {
			case doctor.Fail:
				failed = append(failed, f.Check+": "+f.Says)
			case doctor.OK:
				well[f.Check] = true
			}
		}
		if !slices.Equal(failed, []string{"listener: no listener forwards to it"}) {
			t.Errorf("doctor fails %q", failed)
		}
		for _, check := range []string{
			"probes", "secret", "function", "environment", "fleet-version", "schedule", "table", "stream-mapping", "stream-order", "vpc",
		} {
			if !well[check] {
				t.Errorf("doctor does not find %s well: %+v", check, report.Findings)
			}
		}
	})
	step("a server added to fleet.yaml and deployed is probed and registered", func() {
		servers = append(servers, startRADIUS(t, 4, port))
		writeFleet(t, file, fleet.Enforce, port, p, servers)
		deploy()
		waitForRows(t, probes, 3*time.Minute, servers)
		c.waitForTargets(p, time.Minute, servers...)
	})
	step("the operator's command finds the stack by fleet.yaml, drains a server and takes it back", func() {
		radwitness := c.operator(file)
		waitFor(t, 30*time.Second, "status to find nothing wrong", func() error {
			text, err := radwitness("status", "-check")
			if err != nil || strings.Contains(text, "warning") { // the deployed file is this one
				return fmt.Errorf("%v: %s", err, text)
			}
			return nil
		})
		for _, order := range [][]string{{"drain", servers[0].name, "-for", "1h", "-reason", "patching"}, {"undrain", servers[0].name}} {
			if text, err := radwitness(order...); err != nil {
				t.Errorf("%v: %v\n%s", order, err, text)
			}
			if order[0] == "drain" {
				c.waitForTargets(p, time.Second, servers[1:]...)
			}
		}
		c.waitForTargets(p, time.Second, servers...)
		if text, err := radwitness("timeline"); err != nil || !strings.Contains(text, "drained for 1h00m: patching") {
			t.Errorf("timeline: %v\n%s", err, text)
		}
	})
	step("a broken fleet.yaml stops synthesis at file, line and key", func() {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(bad, []byte(strings.Replace(string(text), "127.0.0.12", "127.0.0.312", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := c.cdk("deploy", "--context", "fleet="+bad, "--require-approval", "never")
		if want := bad + ":14: groups[0].servers[1].address: "; err == nil || !strings.Contains(said, want) {
			t.Errorf("deploying a broken file: error %v, want %q in\n%s", err, want, said)
		}
	})
	step("no secret in the functions' logs or the CLI's output", func() {
		for name, text := range map[string]string{
			"the prober's log": c.logs(out.ProberFunctionName), "the reconciler's log": c.logs(out.ReconcilerFunctionName), "the CLI's output": said.String(),
		} {
			if len(text) == 0 {
				t.Errorf("%s is empty", name)
			}
			for _, secret := range []string{sharedSecret, password} {
				if strings.Contains(text, secret) {
					t.Errorf("%s has %q in it", name, secret)
				}
			}
		}
	})
	step("cdk destroy: everything of ours is gone, the targets stay", func() {
		c.mustCDK("destroy", "--context", "fleet="+file, "--force")
		left, err := c.tables()
		if err != nil || len(left) > 0 {
			t.Errorf("tables left: %v, %v", left, err)
		}
		if left, err = c.functions(); err != nil || len(left) > 0 {
			t.Errorf("functions left: %v, %v", left, err)
		}
		c.waitForTargets(p, time.Second, servers...)
	})
	t.Logf("%5.1fs  in all", time.Since(begin).Seconds())
}

func readOutputs(t *testing.T, path string) outputs {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var stacks map[string]outputs
	if err := json.Unmarshal(data, &stacks); err != nil {
		t.Fatal(err)
	}
	return stacks["radwitness"]
}

// waitForRows waits until every server has a row with a success.
func waitForRows(t *testing.T, probes store.Probes, within time.Duration, servers []*radiusServer) {
	t.Helper()
	waitFor(t, within, "a successful probe of every server", func() error {
		rows, err := probes.Group(t.Context(), group)
		if err != nil {
			return err
		}
		for _, s := range servers {
			if row := rows[s.name]; row.Outcome != health.Accept {
				return fmt.Errorf("%s has outcome %q (%s)", s.name, row.Outcome, row.Reason)
			}
		}
		return nil
	})
}

// waitForStatus waits until the servers have a status.
func waitForStatus(t *testing.T, states store.Health, within time.Duration, want health.Status, servers ...*radiusServer) {
	t.Helper()
	waitFor(t, within, "status "+string(want), func() error {
		for _, s := range servers {
			if got := stateOf(t, states, s).Status; got != want {
				return fmt.Errorf("%s is %q", s.name, got)
			}
		}
		return nil
	})
}

func stateOf(t *testing.T, states store.Health, s *radiusServer) health.State {
	t.Helper()
	g, err := states.Group(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	return g.States[s.name]
}

// checkHistory checks a server's transitions, oldest first.
func checkHistory(t *testing.T, states store.Health, s *radiusServer, want ...string) {
	t.Helper()
	transitions, err := states.Transitions(t.Context(), group, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tr := range slices.Backward(transitions) {
		if tr.Server == s.name {
			got = append(got, tr.From+" "+tr.To)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("transitions of %s are %q, want %q", s.name, got, want)
	}
}
