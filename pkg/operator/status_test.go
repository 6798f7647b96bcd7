package operator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/operator"
	"radwitness/pkg/store"
)

func TestReportOfAnOutage(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "c")
	w.rounds(t, "aaa", "aar", "aar", "aar")
	g := w.report(t)
	if g.Case != health.CaseServing || g.Registered != 2 || g.Desired != 2 || g.FailOpen || g.Pass != store.PassDone || len(g.Warnings) > 0 {
		t.Errorf("one of three is down: %+v", g)
	}
	c := g.Servers[2]
	if c.Standing != health.StandingDown || c.Membership != health.Out || c.Registered != 0 || c.Draining != 1 || !c.Since.Equal(w.now) || c.Reason != "down" {
		t.Errorf("the one that is down: %+v", c)
	}
	check := c.Checks[0]
	if check.Outcome != health.Reject || check.ReplyMessage != "no directory" || check.ConsecutiveFailures != 3 || !check.StreakSince.Equal(begin.Add(2*interval)) {
		t.Errorf("its check: %+v", check)
	}
	if check.LatencyP50MS != 3 || check.LatencyP99MS != 3 || !slices.Equal(check.Recent, []float64{2, 3, 3, 3}) {
		t.Errorf("its latencies: p50 %v, p99 %v, recent %v", check.LatencyP50MS, check.LatencyP99MS, check.Recent)
	}
	if tg := g.TargetGroups[0]; tg.Name != "vpn" || tg.Registered != 2 || tg.Draining != 1 {
		t.Errorf("the target group: %+v", tg)
	}

	w.rounds(t, "rra", "rra", "rra")
	failed := w.now
	g = w.report(t)
	if g.Case != health.CaseRecovering || !g.FailOpen || !g.FailOpenSince.Equal(failed) || g.Servers[2].Standing != health.StandingHoldDown {
		t.Errorf("two go, the third is in hold-down: %+v", g)
	}
	w.rounds(t, "rrr")
	g = w.report(t)
	if g.Case != health.CaseOutage || g.Registered != 3 || g.Desired != 3 || !g.FailOpenSince.Equal(failed) {
		t.Errorf("all are down: %+v", g)
	}
	if next := g.Servers[0].Next; !strings.HasPrefix(next, "held in by fail-open until 1 more server is well again") {
		t.Errorf("next of a server that is held in: %q", next)
	}
	if (operator.Report{Groups: []operator.Group{g}}).Well() {
		t.Error("an outage is well")
	}
}

func TestReportWell(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa", "aa")
	well := func() bool {
		t.Helper()
		r, err := w.Report(t.Context(), "vpn")
		if err != nil {
			t.Fatal(err)
		}
		return r.Well()
	}
	if !well() {
		t.Error("all up and in: not well")
	}
	if _, err := w.Drain(t.Context(), operator.Order{Server: "b", For: time.Hour, Reason: "patching"}); err != nil {
		t.Fatal(err)
	}
	if well() {
		t.Error("drained, but still in: well")
	}
	w.rounds(t, "aa")
	if !well() {
		t.Error("drained and out: not well")
	}
	w.rounds(t, "ra")
	if well() {
		t.Error("a server in doubt: well")
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrange func(*testing.T, *world)
		want    string // empty for no warning at all
	}{
		{"nothing", func(*testing.T, *world) {}, ""},
		{"three intervals and a probe without a row", func(_ *testing.T, w *world) { w.now = w.now.Add(3*interval + 3*time.Second) }, ""},
		{"a little longer", func(_ *testing.T, w *world) { w.now = w.now.Add(3*interval + 3*time.Second + time.Millisecond) }, "the prober is silent: the newest probe is 33s old"},
		{"observe mode", func(_ *testing.T, w *world) { w.group.Mode = fleet.Observe }, "observe mode"},
		{"a pass that fails", func(t *testing.T, w *world) {
			w.aws.Fail(balancertest.RegisterTargets, 9, &smithy.GenericAPIError{Code: "AccessDenied", Message: "no such luck"})
			w.aws.Remove(arn, "10.0.1.10", 1812)
			w.now = w.now.Add(time.Minute)
			w.round(t, "aa")
		}, "the last pass over the target groups failed: "},
		{"a drain's last minutes", func(t *testing.T, w *world) {
			drain(t, w, 15*time.Minute+interval)
		}, "the drain of b ends in 15m00s"},
		{"more than that", func(t *testing.T, w *world) { drain(t, w, 15*time.Minute+interval+time.Second) }, ""},
		{"a target group that is not there", func(_ *testing.T, w *world) {
			w.aws.Fail(balancertest.DescribeTargetHealth, 1, errors.New("gone fishing"))
		}, "target group vpn cannot be looked at: "},
		{"an unreadable row of table health", func(t *testing.T, w *world) { spoil(t, w, w.health.Table, "item", "server#a") }, "a row of table health cannot be read"},
		{"an unreadable row of table probes", func(t *testing.T, w *world) { spoil(t, w, w.probes.Table, "server", "a") }, "rows of table probes cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, "a", "b")
			w.rounds(t, "aa", "aa")
			c.arrange(t, w)
			got := w.report(t).Warnings
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.want) }) {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
	w := newWorld(t, 1, "a")
	if got := w.report(t).Warnings; len(got) != 1 || !strings.HasPrefix(got[0], "no probe of this group is recorded") {
		t.Errorf("warnings of a group that was never probed: %q", got)
	}
	const meaning = "too few servers have a verdict: those without one stay as they are"
	if g := w.report(t); g.Meaning != meaning || operator.CaseWord(g.Case, g.FailOpen) != "undecided" {
		t.Errorf("a group that was never probed is %s: %s", operator.CaseWord(g.Case, g.FailOpen), g.Meaning)
	}
}

// A row that nothing can be made of is told by every command that counts on it.
func TestUnusableRowsAreTold(t *testing.T) {
	w := newWorld(t, 1, "a")
	_, err := w.probes.Record(t.Context(), store.ProbeResult{
		Group: "vpn", Server: "a", Address: "10.0.1.10:1812", Method: "pap", Round: w.now.Add(24 * time.Hour), Outcome: health.Accept, Evidence: health.Success,
	})
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, w, w.health.Table, "item", "drain#a")
	servers, err := w.Servers(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the round of row a in table probes is in the future", "a row of table health cannot be read"} {
		for command, got := range map[string][]string{"status": w.report(t).Warnings, "servers": servers.Groups[0].Warnings} {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%s warns %q, want %q", command, got, want)
			}
			if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "no probe of this group is recorded") }) {
				t.Errorf("%s says that there is no row: %q", command, got)
			}
		}
	}
	if _, err := w.Undrain(t.Context(), "a", 0); err != nil {
		t.Errorf("taking back a drain that cannot be read: %v", err)
	}
	if got := w.report(t).Warnings; len(got) != 1 {
		t.Errorf("after that: %q", got)
	}
}

// drain keeps b out from now on, and has it carried out an interval later.
func drain(t *testing.T, w *world, length time.Duration) {
	t.Helper()
	if _, err := w.Drain(t.Context(), operator.Order{Server: "b", For: length, Reason: "patching"}); err != nil {
		t.Fatal(err)
	}
	w.rounds(t, "aa")
}

// spoil makes a row of a table unreadable.
func spoil(t *testing.T, w *world, table, sortKey, value string) {
	t.Helper()
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	_, err := w.health.DynamoDB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: map[string]types.AttributeValue{
		"group": text("vpn"), sortKey: text(value), "since": text("yesterday"), "round": text("yesterday"),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReportOfACheck(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	s := &w.group.Servers[0]
	s.Checks[0].Row = "a/pap"
	acct := s.Checks[0]
	acct.Row, acct.Method, acct.Port = "a/accounting", fleet.Accounting, 1813
	s.Checks = append(s.Checks, acct)
	w.rounds(t, "aaa", "ara", "ara", "ara")
	a := w.report(t).Servers[0]
	if a.Standing != health.StandingDown || a.Row != "a/accounting" || a.Reason != "down (a/accounting)" || len(a.Checks) != 2 {
		t.Errorf("a server of which one check fails: %+v", a)
	}
	if a.Checks[0].Status != health.Up || a.Checks[1].Status != health.Down || a.Checks[1].Address != "10.0.1.10:1813" {
		t.Errorf("its checks: %+v", a.Checks)
	}
}

func TestUnknownGroup(t *testing.T) {
	w := newWorld(t, 1, "a")
	_, err := w.Report(t.Context(), "wifi")
	if err == nil || err.Error() != `group "wifi" is not in the fleet; it has vpn` {
		t.Errorf("error %v", err)
	}
}

func TestServers(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa", "ar", "at", "ar")             // b is down at 40 s
	w.rounds(t, "aa")                               // and in hold-down at 50 s
	w.rounds(t, "ar")                               // down again at 60 s
	w.rounds(t, "aa", "ae", "aa", "aa", "aa", "aa") // hold-down from 70 s
	w.now = begin.Add(130 * time.Second)
	r, err := w.Servers(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	if !r.Since.Equal(w.now.Add(-90 * 24 * time.Hour)) {
		t.Errorf("history since %v", r.Since)
	}
	got := r.Groups[0].Checks[1]
	want := operator.Counters{
		Server: "b", Row: "b", Address: "10.0.1.11:1812", Method: fleet.PAP, State: health.HoldDown,
		DurationSeconds: 60, PreviousState: "down", PreviousSeconds: 10, DeadSeconds: 20, DeadCount: 2,
		Quarantined: true, QuarantineSeconds: 70, QuarantineCount: 2,
		Requests: 12, Timeouts: 1, Accepts: 7, Rejects: 3, Success: 7, Failure: 4, NoEvidence: 1, TimeMS: 2.3,
	}
	if got != want {
		t.Errorf("counters\n%+v, want\n%+v", got, want)
	}
}
