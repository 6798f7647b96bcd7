package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/announce"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// want checks who is registered.
func (w *world) want(t *testing.T, when, servers string) {
	t.Helper()
	if got := w.registered(); got != servers {
		t.Errorf("%s: registered [%s], want [%s]", when, got, servers)
	}
}

// steady plays rounds ten seconds apart for the given time.
func (w *world) steady(t *testing.T, outcomes string, d time.Duration) {
	t.Helper()
	for range d / (10 * time.Second) {
		time.Sleep(10 * time.Second)
		w.round(t, outcomes)
	}
}

func TestAnOutageOfOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.round(t, "aaa")
		w.want(t, "all answer", "a b c")
		for range 2 {
			time.Sleep(time.Second)
			w.round(t, "-r-")
			w.want(t, "below the threshold", "a b c")
		}
		time.Sleep(time.Second)
		w.round(t, "-r-")
		w.want(t, "at the threshold", "a c")
		pass := w.lines(t, "pass")
		last := pass[len(pass)-1]
		if last["up"] != 2.0 || last["down"] != 1.0 || last["registered"] != 2.0 || last["changes"] != 1.0 || last["fail_open"] != false {
			t.Errorf("summary %v", last)
		}

		w.steady(t, "ara", time.Minute)
		w.want(t, "still failing", "a c")
		time.Sleep(10 * time.Second)
		w.round(t, "aaa") // b answers, its hold-down begins
		w.steady(t, "aaa", 110*time.Second)
		w.want(t, "10 s before the hold-down's end", "a c")
		w.steady(t, "aaa", 10*time.Second)
		w.want(t, "at the hold-down's end", "a b c")
		if n := len(w.transitions); n != 6 {
			t.Errorf("%d transitions, want 6: three first successes, down, hold-down, up", n)
		}
	})
}

func TestMetricsThatAreMostlyZeroAreAbsentThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.round(t, "aa") // registers both
		if !strings.Contains(w.metrics.String(), `"changes":2`) || strings.Contains(w.metrics.String(), `"errors"`) {
			t.Errorf("with two changes: %s", w.metrics)
		}
		w.metrics.Reset()
		w.steady(t, "aa", 30*time.Second)
		if text := w.metrics.String(); !strings.Contains(text, `"up":2`) || strings.Contains(text, "changes") || strings.Contains(text, "errors") {
			t.Errorf("at rest: %s", text)
		}
		w.metrics.Reset()
		w.aws.Fail(balancertest.DescribeTargetHealth, 1, errors.New("broken"))
		w.steady(t, "aa", 30*time.Second)
		if !strings.Contains(w.metrics.String(), `"errors":1`) {
			t.Errorf("with an error: %s", w.metrics)
		}
	})
}

func TestACommonCauseTakesNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.round(t, "aaa")
		// The directory goes; it reaches the servers seconds apart.
		for _, outcomes := range []string{"r--", "rr-", "rrr", "-rr", "--r"} {
			time.Sleep(time.Second)
			w.round(t, outcomes)
		}
		w.want(t, "all failing", "a b c")
		row := w.groups["vpn"]
		if row.Case != health.CaseOutage || !row.FailOpen || row.FailOpenSince.IsZero() {
			t.Errorf("group row %+v", row)
		}
		began := row.FailOpenSince

		time.Sleep(10 * time.Second)
		w.round(t, "arr")
		w.want(t, "one answers again: it alone serves", "a")
		if row := w.groups["vpn"]; row.Case != health.CaseRecovering || !row.FailOpen || !row.FailOpenSince.Equal(began) {
			t.Errorf("group row %+v", row)
		}
		time.Sleep(10 * time.Second)
		w.round(t, "aaa")
		w.steady(t, "aaa", 2*time.Minute)
		w.want(t, "all have served their hold-down", "a b c")
		if row := w.groups["vpn"]; row.FailOpen || !row.FailOpenSince.IsZero() || row.Pass != store.PassDone {
			t.Errorf("group row %+v", row)
		}
		if len(w.lines(t, "fail-open changed")) != 2 {
			t.Errorf("fail-open began and ended: %v", w.lines(t, "fail-open changed"))
		}
	})
}

func TestAtRestNothingIsWrittenOrCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.round(t, "aa")
		writes := w.writes
		w.aws.ResetCalls()
		w.steady(t, "aa", 1000*time.Second)
		if w.writes != writes || w.changes() != 0 {
			t.Errorf("100 rounds at rest: %d writes, %d changes", w.writes-writes, w.changes())
		}
		if n := w.aws.Count(balancertest.DescribeTargetHealth); n < 30 || n > 34 {
			t.Errorf("%d looks at the target group in 1000 s, want one every 30 s", n)
		}
	})
}

func TestDriftIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.round(t, "aa")
		w.aws.Remove(arn, "10.0.1.11", 1812)
		w.steady(t, "aa", 30*time.Second)
		w.want(t, "removed by hand", "a b")

		w.round(t, "ar")
		for range 2 {
			time.Sleep(time.Second)
			w.round(t, "-r")
		}
		w.want(t, "b is down", "a")
		w.aws.Put(arn, balancertest.Target{ID: "10.0.1.11", Port: 1812, State: "healthy"})
		w.steady(t, "ar", 40*time.Second)
		w.want(t, "put back by hand", "a")
	})
}

func TestObserveModeChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.group.Mode = fleet.Observe
		w.round(t, "aa")
		for range 3 {
			time.Sleep(time.Second)
			w.round(t, "ar")
		}
		if w.changes() != 0 {
			t.Errorf("%d changes in observe mode", w.changes())
		}
		if s := w.states["vpn"]["b"]; s.Status != health.Down {
			t.Errorf("state %+v, want it recorded as down", s)
		}
		if row := w.groups["vpn"]; row.Members["b"] != health.Out || row.Pass != store.PassDone {
			t.Errorf("group row %+v", row)
		}
		if !strings.Contains(w.log.String(), `"would_register"`) {
			t.Error("the log does not say what would be done")
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.round(t, "aaa")
		w.group.Servers[0].Admin = fleet.AdminOut
		w.drains = map[string]store.Drain{"b": {Until: time.Now().Add(time.Hour), Reason: "patching"}}
		w.steady(t, "aaa", 10*time.Second)
		w.want(t, "a is out by configuration, b by a drain", "c")
		if reason := w.groups["vpn"].Reasons["b"]; !strings.HasSuffix(reason, ": patching") {
			t.Errorf("reason %q", reason)
		}
		w.steady(t, "aaa", time.Hour-20*time.Second)
		w.want(t, "before the drain's end", "c")
		w.steady(t, "aaa", 10*time.Second)
		w.want(t, "at the drain's end", "b c")
	})
}

func TestCatchingUpLeavesTargetsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.round(t, "aa")
		var old []json.RawMessage
		for range 3 {
			time.Sleep(time.Second)
			old = append(old, w.probe("b", health.Reject))
		}
		time.Sleep(61 * time.Second)
		w.aws.ResetCalls()
		w.deliver(t, old...)
		if w.states["vpn"]["b"].Status != health.Down || w.aws.Count() != 0 {
			t.Errorf("state %+v, %d calls to ELBv2", w.states["vpn"]["b"], w.aws.Count())
		}
		w.round(t, "ar")
		w.want(t, "with a fresh round", "a")
	})
}

func TestBadRecordsSpoilNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		records := []json.RawMessage{
			w.probe("a", health.Accept),
			json.RawMessage(`{"eventID":"x","eventName":"REMOVE","dynamodb":{"SequenceNumber":"101","OldImage":{"group":{"S":"vpn"}}}}`),
			json.RawMessage(`{"eventID":"y","eventName":"MODIFY","dynamodb":{"SequenceNumber":"102"}}`),
			json.RawMessage(`{"eventID":"z","eventName":"MODIFY","dynamodb":{"SequenceNumber":"103","NewImage":{"group":{"S":"vpn"},"server":{"S":"a"},"round":{"S":"2000-01-01T00:00:00.000Z"},"outcome":{"S":"accept"},"consecutive_failures":{"S":"three"}}}}`),
			json.RawMessage(`{"eventName":"MODIFY","dynamodb":{"SequenceNumber":"104","NewImage":{"group":{"Q":"vpn"}}}}`),
			json.RawMessage(`17`),
			w.probe("b", health.Accept),
		}
		kept := &deadLetters{err: errors.New("no queue")} // that it is not there is no reason to stop
		w.DeadLetters = kept
		if failed := w.deliver(t, records...); failed != nil {
			t.Errorf("records %v are reported as failed", failed)
		}
		w.want(t, "both good ones applied", "a b")
		if len(kept.reasons) != 4 || !strings.Contains(kept.reasons[0], "round is missing") && !strings.Contains(kept.reasons[0], "group is missing") {
			t.Errorf("kept %q", kept.reasons)
		}
		if n := len(w.lines(t, "record skipped")); n != 4 {
			t.Errorf("%d lines about skipped records, want 4", n)
		}
	})
}

// deadLetters records the reasons.
type deadLetters struct {
	reasons []string
	err     error
}

func (d *deadLetters) Send(_ context.Context, reason string, _ json.RawMessage) error {
	d.reasons = append(d.reasons, reason)
	return d.err
}

func TestAFailingGroupFailsItsOwnRecordsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		f := *w.Fleet
		other := f.Groups[0]
		other.Name, other.TargetGroups = "lan", []fleet.TargetGroup{{ARN: arn + "2"}}
		f.Groups = append(slices.Clone(f.Groups), other)
		w.Reconciler = w.reconciler(&f)
		w.aws.AddTargetGroup(balancertest.TargetGroup{ARN: arn + "2", Port: 1812})
		vpn := w.probe("a", health.Accept)
		w.group = &f.Groups[1]
		lan1, lan2 := w.probe("a", health.Accept), w.probe("b", health.Accept)
		w.aws.Fail(balancertest.DescribeTargetGroups, 1, errors.New("rate exceeded"))
		failed := w.deliver(t, lan1, vpn, lan2)
		// Which of the two groups meets the failure is a race; never both.
		if !slices.Equal(failed, []string{"1"}) && !slices.Equal(failed, []string{"2", "3"}) {
			t.Errorf("failed records %v", failed)
		}
		if failed := w.deliver(t, lan1, vpn, lan2); failed != nil {
			t.Errorf("delivered again, records %v failed", failed)
		}
	})
}

func TestThrottledPassIsRepeatedUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.aws.Throttle(balancertest.RegisterTargets, 3)
		records := []json.RawMessage{w.probe("a", health.Accept), w.probe("b", health.Accept)}
		for i := range 3 {
			if failed := w.deliver(t, records...); !slices.Equal(failed, []string{"1", "2"}) {
				t.Fatalf("delivery %d: failed %v", i, failed)
			}
			if row := w.groups["vpn"]; row.Pass != store.PassPending || !strings.Contains(row.PassError, "Rate exceeded") {
				t.Errorf("group row %+v", row)
			}
		}
		w.Reconciler = w.reconciler(w.Fleet) // another container takes over
		if failed := w.deliver(t, records...); failed != nil {
			t.Errorf("failed %v", failed)
		}
		w.want(t, "after three throttled passes", "a b")
		if row := w.groups["vpn"]; row.Pass != store.PassDone || row.PassError != "" {
			t.Errorf("group row %+v", row)
		}
		w.steady(t, "aa", time.Minute)
		if n := w.aws.Count(balancertest.RegisterTargets); n != 4 {
			t.Errorf("%d calls of RegisterTargets, want 3 throttled and 1", n)
		}
	})
}

func TestARefusedTargetWaitsForTheNextRegularPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.aws.SetInvalid("10.0.1.11", true)
		if failed := w.round(t, "aa"); failed != nil {
			t.Errorf("failed %v: delivering the records again would not help", failed)
		}
		w.want(t, "b is refused", "a")
		if row := w.groups["vpn"]; row.Pass != store.PassFailed || !strings.Contains(row.PassError, "10.0.1.11:1812 (b)") {
			t.Errorf("group row %+v", row)
		}
		calls := w.changes()
		for range 20 {
			time.Sleep(time.Second)
			w.round(t, "aa")
		}
		if w.changes() != calls {
			t.Errorf("%d further calls in 20 s, want none before the next regular pass", w.changes()-calls)
		}
		w.aws.SetInvalid("10.0.1.11", false)
		w.steady(t, "aa", 20*time.Second)
		w.want(t, "accepted again", "a b")
	})
}

func TestAMissingTargetGroupDoesNotHoldUpTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		w.aws.RemoveTargetGroup(arn)
		if failed := w.round(t, "a"); failed != nil {
			t.Errorf("failed %v", failed)
		}
		if row := w.groups["vpn"]; row.Pass != store.PassFailed || !strings.Contains(row.PassError, arn) {
			t.Errorf("group row %+v", row)
		}
	})
}

func TestUnreadableTablesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		w.err = errors.New("table is gone")
		record := w.probe("a", health.Accept)
		if failed := w.deliver(t, record); !slices.Equal(failed, []string{"1"}) {
			t.Errorf("failed %v, want the record", failed)
		}
		if w.aws.Count() != 0 {
			t.Errorf("%d calls on no evidence", w.aws.Count())
		}
	})
}

func TestAnotherReconcilerWentFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		record := w.probe("a", health.Accept)
		stale := &staleReads{tables: w.tables}
		w.Health = stale
		w.states["vpn"] = map[string]health.State{"a": {Status: health.Down, Since: time.Now().Add(time.Second)}}
		if failed := w.deliver(t, record); !slices.Equal(failed, []string{"1"}) {
			t.Errorf("failed %v, want the record to come again", failed)
		}
		if w.states["vpn"]["a"].Status != health.Down {
			t.Error("an older state replaced a newer one")
		}
	})
}

// staleReads is table health as a reconciler saw it that was overtaken.
type staleReads struct{ *tables }

func (s *staleReads) Group(context.Context, string) (store.GroupHealth, error) {
	return store.GroupHealth{States: map[string]health.State{}}, nil
}

func TestPlanOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.round(t, "aa")
		for range 3 {
			time.Sleep(time.Second)
			w.round(t, "ar")
		}
		w.aws.Put(arn, balancertest.Target{ID: "10.0.1.11", Port: 1812, State: "healthy"})
		calls, writes := w.changes(), w.writes
		answer, err := w.Handle(t.Context(), json.RawMessage(`{"action":"plan","group":"vpn"}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		const deregister = `"deregister":[{"target":{"id":"10.0.1.11","port":1812},"server":"b","standing":"down","reason":"down"}]`
		if !strings.Contains(string(b), deregister) {
			t.Errorf("answer %s, want %s in it", b, deregister)
		}
		report := answer.(reconciler.PlanReport)
		if s := report.Groups[0].Servers[1]; s.Membership != health.Out || len(s.Checks) != 1 || s.Checks[0].Status != health.Down || s.Checks[0].Since == nil || s.Checks[0].Outcome != health.Reject {
			t.Errorf("server %+v", s)
		}
		if w.changes() != calls || w.writes != writes {
			t.Error("the request changed something")
		}
		all, err := w.Handle(t.Context(), json.RawMessage(`{"action":"plan"}`))
		if err != nil || !cmp.Equal(all, answer) {
			t.Errorf("all groups: %v, %v", all, err)
		}
		w.aws.RemoveTargetGroup(arn)
		w.Reconciler = w.reconciler(w.Fleet)
		answer, err = w.Handle(t.Context(), json.RawMessage(`{"action":"plan"}`))
		if err != nil || answer.(reconciler.PlanReport).Groups[0].TargetGroups[0].Error == "" {
			t.Errorf("without the target group: %v, %v", answer, err)
		}
	})
}

func TestHandleRefusesWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(1, "a")
	for _, c := range []struct{ event, err string }{
		{`{"action":"plan","gruop":"vpn"}`, `unknown field "gruop"; the fields of a request are "action" ("plan") and "group"`},
		{`{"action":"explode"}`, `action "explode" is not known`},
		{`{}`, `action "" is not known`},
		{`{"action":"plan","group":"lan"}`, `group "lan" is not in the fleet`},
		{`[]`, "a JSON object is needed"},
	} {
		_, err := w.Handle(t.Context(), json.RawMessage(c.event))
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q in it", c.event, err, c.err)
		}
	}
	if answer, err := w.Handle(t.Context(), json.RawMessage(`{"Records":[]}`)); err != nil || answer == nil {
		t.Errorf("an empty batch: %v, %v", answer, err)
	}
}

func TestUnknownGroupsAndServersAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		stranger := w.record(store.ProbeRow{Group: "gone", Server: "x", Round: time.Now(), Outcome: health.Accept})
		removed := w.probe("was-removed", health.Accept)
		if failed := w.deliver(t, stranger, removed, w.probe("a", health.Accept)); failed != nil {
			t.Errorf("failed %v", failed)
		}
		w.want(t, "the known server", "a")
	})
}

// crier records what it is told, and fails if told to.
type crier struct {
	details []announce.Detail
	err     error
}

func (c *crier) Announce(_ context.Context, _ time.Time, details []announce.Detail) error {
	c.details = append(c.details, details...)
	return c.err
}

func TestChangesAreExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		c := &crier{}
		w.Announcer = c
		w.round(t, "aa")
		w.changed, c.details = nil, nil
		for range 3 {
			time.Sleep(time.Second)
			w.round(t, "ar")
		}
		round := w.rows["vpn"]["b"].Round
		want := []announce.Detail{
			announce.ServerStateChange{
				Group: "vpn", Server: "b", From: health.Up, To: health.Down, Rule: health.RuleThreshold,
				Outcome: health.Reject, Round: round, FleetVersion: "v1",
			},
			announce.TargetGroupChange{
				Group: "vpn", TargetGroup: arn, Case: health.CaseServing, Round: round, FleetVersion: "v1",
				Deregistered: []store.Move{{Target: "10.0.1.11:1812", Server: "b", Reason: "down"}},
			},
		}
		if diff := cmp.Diff(want, c.details); diff != "" {
			t.Errorf("announced (-want +got):\n%s", diff)
		}
		if len(w.changed) != 1 || w.changed[0].Version != "v1" || len(w.changed[0].Deregistered) != 1 {
			t.Errorf("stored %+v", w.changed)
		}
		c.details = nil
		for range 3 {
			time.Sleep(time.Second)
			w.round(t, "rr")
		}
		if len(c.details) != 3 {
			t.Fatalf("a's fall opens the group, and b comes back: %+v", c.details)
		}
		if open, ok := c.details[1].(announce.FailOpenChange); !ok || open.To != "open" || open.Servers["a"] == "" {
			t.Errorf("announced %+v", c.details[1])
		}
		for _, transition := range w.transitions {
			if transition.Version != "v1" {
				t.Errorf("transition %+v does not name the fleet's version", transition)
			}
		}
	})
}

func TestAFailedAnnouncementFailsNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		w.Announcer = &crier{err: errors.New("no bus")}
		if failed := w.round(t, "a"); failed != nil {
			t.Errorf("failed %v", failed)
		}
		w.want(t, "announced or not", "a")
		if len(w.lines(t, "changes not announced")) != 1 {
			t.Error("nothing says so")
		}
	})
}

// A change that is made is not made again because its history is not stored.
func TestAChangeThatIsNotStoredFailsNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		w.Health = forgetful{w.tables}
		if failed := w.round(t, "a"); failed != nil {
			t.Errorf("failed %v", failed)
		}
		w.want(t, "stored or not", "a")
		if len(w.lines(t, "change not stored")) != 1 {
			t.Error("nothing says so")
		}
	})
}

// forgetful stores no changes.
type forgetful struct{ *tables }

func (forgetful) SaveChange(context.Context, string, store.Change) error {
	return errors.New("throttled")
}

// A server that was given another address is another machine: it is registered
// when it has answered there, and its hold-down, or its good name, is gone.
func TestANewAddressBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.round(t, "aaa")
		for range 3 {
			time.Sleep(time.Second)
			w.round(t, "aar")
		}
		w.want(t, "c is down", "a b")
		old := w.probe("b", health.Reject) // still on its way when the fleet changes
		w.group.Servers[1].Address = netip.MustParseAddr("10.0.2.11")
		w.group.Servers[2].Address = netip.MustParseAddr("10.0.2.12")
		for range 4 {
			time.Sleep(10 * time.Second)
			w.round(t, "a--")
		}
		w.deliver(t, old)
		w.want(t, "nothing is known of the new addresses, and the old one of b is nobody's", "10.0.1.11 a")
		time.Sleep(time.Second)
		w.round(t, "arr")
		w.want(t, "a failure is no reason to be registered", "10.0.1.11 a")
		time.Sleep(time.Second)
		w.round(t, "aaa")
		w.want(t, "they answer", "10.0.1.11 a b c")
	})
}

// A server with several checks leaves when one of them is down, and returns
// when all of them have served their hold-down.
func TestEveryCheckMustPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b")
		w.addCheck(1)
		rounds := func(n int, outcomes string) {
			for range n {
				time.Sleep(10 * time.Second)
				w.round(t, outcomes)
			}
		}
		rounds(3, "aaa")
		if got := w.registered(); got != "a b" {
			t.Fatalf("registered %q", got)
		}
		rounds(3, "aar")
		if got := w.registered(); got != "a" {
			t.Errorf("one check is down: registered %q", got)
		}
		if reason := w.groups["vpn"].Reasons["b"]; reason != "down (b/accounting)" {
			t.Errorf("reason %q", reason)
		}
		rounds(12, "aaa") // two minutes less a round
		if got := w.registered(); got != "a" {
			t.Errorf("in hold-down: registered %q", got)
		}
		rounds(1, "aaa")
		if got := w.registered(); got != "a b" {
			t.Errorf("after the hold-down: registered %q", got)
		}
		answer, err := w.Handle(t.Context(), json.RawMessage(`{"action":"plan"}`))
		if err != nil {
			t.Fatal(err)
		}
		checks := answer.(reconciler.PlanReport).Groups[0].Servers[1].Checks
		if len(checks) != 2 || checks[0].Row != "b/pap" || checks[1].Row != "b/accounting" || checks[1].Status != health.Up {
			t.Errorf("checks %+v", checks)
		}
	})
}

// A row that somebody wrote by hand and that cannot be read keeps its own server
// where it is, and is no reason to stop the rest of the group.
func TestAnUnreadableRowKeepsItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.round(t, "aaa")
		w.unreadable = map[string]error{"b": errors.New("until is not a time")}
		before := w.states["vpn"]["b"]
		for range 4 {
			time.Sleep(time.Second)
			if failed := w.round(t, "arr"); failed != nil {
				t.Fatalf("failed %v", failed)
			}
		}
		w.want(t, "c is down, b cannot be judged", "a b")
		if !cmp.Equal(before, w.states["vpn"]["b"]) {
			t.Errorf("the state that cannot be read became %+v", w.states["vpn"]["b"])
		}
		if reason := w.groups["vpn"].Reasons["b"]; reason != "its row in table health cannot be read" {
			t.Errorf("reason %q", reason)
		}
	})
}

// A round that has not come yet blinds nobody.
func TestARoundFromTheFutureIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.round(t, "aaa")
		if failed := w.deliver(t, w.probeAt("c", health.Reject, time.Now().Add(24*time.Hour))); failed != nil {
			t.Errorf("failed %v", failed)
		}
		for range 3 {
			time.Sleep(time.Second)
			w.round(t, "ra-")
		}
		w.want(t, "a is down, and c stays where it is", "b c")
	})
}

func TestAMissingPermissionDoesNotHoldUpTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		w.aws.Fail(balancertest.RegisterTargets, 1, &smithy.GenericAPIError{Code: "AccessDenied", Message: "not authorized"})
		if failed := w.round(t, "a"); failed != nil {
			t.Errorf("failed %v", failed)
		}
		if row := w.groups["vpn"]; row.Pass != store.PassFailed || !strings.Contains(row.PassError, "AccessDenied") {
			t.Errorf("group row %+v", row)
		}
		w.steady(t, "a", 30*time.Second)
		w.want(t, "with the permission", "a")
	})
}

// A directory that fails over two rounds and comes back: a, which was the first
// to go and has been registered again, is the first to answer. Until the load
// balancer's first checks let users reach it, the others must not leave.
func TestNobodyLeavesWhileUsersReachNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a", "b", "c")
		w.addTargetGroup(firstChecks)
		w.round(t, "aaa")
		w.steady(t, "aaa", firstChecks)
		fast := func(n int, outcomes string) {
			for range n {
				time.Sleep(time.Second)
				w.round(t, outcomes)
			}
		}
		fast(3, "raa")
		w.want(t, "a is down", "b c")
		fast(3, "rrr")
		w.want(t, "all are down", "a b c")
		fast(1, "arr")
		w.want(t, "a answers again, and is initial", "a b c")
		plan, err := w.Plan(t.Context(), "vpn")
		if err != nil {
			t.Fatal(err)
		}
		const reason = "down; but those that are up or held down are not past the load balancer's first checks"
		if held := plan.Groups[0].TargetGroups[0].Withheld; len(held) != 2 || held[0].Server != "b" || held[0].Reason != reason {
			t.Errorf("withheld %+v", held)
		}
		w.steady(t, "arr", firstChecks+30*time.Second)
		w.want(t, "a is past them", "a")
	})
}

// asked remembers in which order groups are read.
type asked struct {
	probesTable
	mu     sync.Mutex
	groups []string
}

func (a *asked) Group(ctx context.Context, group string) (map[string]store.ProbeRow, error) {
	a.mu.Lock()
	a.groups = append(a.groups, group)
	a.mu.Unlock()
	time.Sleep(time.Millisecond) // in a bubble: the others get their turn
	return a.probesTable.Group(ctx, group)
}

func TestAGroupWithAFailingServerComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, "a")
		f := &fleet.Fleet{}
		var records []reconciler.Record
		now := time.Now()
		for i := range 100 {
			g := *w.group
			g.Name = fmt.Sprintf("group-%02d", i)
			f.Groups = append(f.Groups, g)
			row := store.ProbeRow{
				Group: g.Name, Server: "a", Round: now, Outcome: health.Accept, ConsecutiveSuccesses: 1, SuccessSince: now, LastSuccess: now,
			}
			if i == 42 || i == 57 { // one about to be down, one that has long been
				row.Outcome, row.ConsecutiveSuccesses, row.SuccessSince, row.LastSuccess = health.Reject, 0, time.Time{}, time.Time{}
				row.ConsecutiveFailures, row.FailureSince, row.LastFailure = 3, now, now
			}
			if i == 57 {
				row.ConsecutiveFailures = 4
			}
			records = append(records, reconciler.Record{Sequence: strconv.Itoa(i), Row: row})
		}
		a := &asked{probesTable: probesTable{w.tables}}
		r := w.reconciler(f)
		r.Probes = a
		r.Reconcile(t.Context(), records)
		// Eight groups are worked on at once.
		if at := slices.Index(a.groups, "group-42"); at < 0 || at >= 8 {
			t.Errorf("the group with a failing server is read as number %d", at+1)
		}
		if at := slices.Index(a.groups, "group-57"); at < 8 {
			t.Errorf("the group with a server that is down already is read as number %d", at+1)
		}
	})
}
