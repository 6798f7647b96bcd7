package reconciler_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

var gaps = []time.Duration{time.Second, time.Second, 10 * time.Second, 10 * time.Second, time.Minute}

// standings counts the servers that are registered and either solidly up or
// held down: those that a group can lean on.
func (w *world) backing() int {
	n := 0
	for _, name := range strings.Fields(w.registered()) {
		server, _ := w.group.Server(name)
		if !slices.ContainsFunc(server.Checks, func(c fleet.Probe) bool {
			state, row := w.states["vpn"][c.Row], w.rows["vpn"][c.Row]
			return state.Status != health.HoldDown && (state.Status != health.Up || row.ConsecutiveFailures > 0)
		}) {
			n++
		}
	}
	return n
}

// targetsOf lists the servers that a call names.
func (w *world) targetsOf(c balancertest.Call) []string {
	var ids []string
	switch in := c.Input.(type) {
	case *elbv2.RegisterTargetsInput:
		for _, t := range in.Targets {
			ids = append(ids, aws.ToString(t.Id))
		}
	case *elbv2.DeregisterTargetsInput:
		for _, t := range in.Targets {
			ids = append(ids, aws.ToString(t.Id))
		}
	}
	var names []string
	for _, s := range w.group.Servers {
		if slices.Contains(ids, s.Address.String()) {
			names = append(names, s.Name)
		}
	}
	return names
}

// check runs a property, each case in a bubble of its own on virtual time. What
// the case panics with, as rapid's failures do, is carried out of the bubble.
func check(t *testing.T, property func(*rapid.T)) {
	rapid.Check(t, func(r *rapid.T) {
		var failure any
		synctest.Test(t, func(*testing.T) {
			defer func() { failure = recover() }()
			property(r)
		})
		if failure != nil {
			panic(failure)
		}
	})
}

// Random outages, drift by hand and throttling never break P1, P3 or P5, and
// the group comes to rest afterwards: P7 and P8.
func TestMembershipProperties(t *testing.T) {
	check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "servers")]
		below := rapid.IntRange(0, len(names)).Draw(t, "below")
		honest := rapid.IntRange(0, len(names)).Draw(t, "honest servers")
		w := newWorld(below, names...)
		honestChecks := 0
		for i := range names {
			if rapid.Bool().Draw(t, "two checks") {
				w.addCheck(i)
			}
			if i < honest {
				honestChecks += len(w.group.Servers[i].Checks)
			}
		}
		letters := rapid.SampledFrom([]rune("aaarrre-"))
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			time.Sleep(rapid.SampledFrom(gaps).Draw(t, "gap"))
			switch rapid.SampledFrom([]string{"", "", "", "", "", "remove", "add", "throttle", "cold"}).Draw(t, "event") {
			case "remove":
				w.aws.Remove(arn, w.group.Servers[rapid.IntRange(0, len(names)-1).Draw(t, "removed")].Address.String(), 1812)
			case "add":
				w.aws.Put(arn, balancertest.Target{ID: w.group.Servers[rapid.IntRange(0, len(names)-1).Draw(t, "added")].Address.String(), Port: 1812, State: "healthy"})
			case "throttle":
				w.aws.Throttle(rapid.SampledFrom([]string{balancertest.RegisterTargets, balancertest.DeregisterTargets, balancertest.DescribeTargetHealth}).Draw(t, "throttled"), 1)
			case "cold":
				w.Reconciler = w.reconciler(w.Fleet)
			}
			outcomes := []rune(strings.Repeat("a", len(w.checks())))
			for i := honestChecks; i < len(outcomes); i++ {
				outcomes[i] = letters.Draw(t, w.checks()[i])
			}
			w.aws.ResetCalls()
			w.round(t, string(outcomes))
			w.checkCalls(t, below, names[:honest])
		}
		w.settle(t, len(names))
	})
}

// checkCalls judges the calls of one delivery.
func (w *world) checkCalls(t *rapid.T, below int, honest []string) {
	for _, c := range w.aws.Calls(balancertest.RegisterTargets, balancertest.DeregisterTargets) {
		if c.Err != nil {
			continue
		}
		for _, name := range w.targetsOf(c) {
			server, _ := w.group.Server(name)
			switch c.Operation {
			case balancertest.DeregisterTargets:
				if n := w.backing(); n < below {
					t.Fatalf("P1: %s deregistered with %d servers to lean on, floor %d", name, n, below)
				}
				if slices.Contains(honest, name) {
					t.Fatalf("P3: %s answered every probe and is deregistered", name)
				}
			case balancertest.RegisterTargets:
				for _, check := range server.Checks {
					if state := w.states["vpn"][check.Row]; state.Status == health.HoldDown && !w.groups["vpn"].FailOpen {
						t.Fatalf("P5: %s returns at %v, %s held until %v", name, time.Now(), check.Row, state.HeldUntil)
					}
				}
			}
		}
	}
}

// settle lets every server answer until all must be back, and checks that the
// group is then at rest.
func (w *world) settle(t *rapid.T, servers int) {
	all := strings.Repeat("a", len(w.checks()))
	for range 2 * 30 {
		time.Sleep(30 * time.Second)
		w.round(t, all)
	}
	if n := len(strings.Fields(w.registered())); n != servers {
		t.Fatalf("P7: %d of %d servers registered half an hour after the last fault", n, servers)
	}
	writes := w.writes
	w.aws.ResetCalls()
	for range 10 {
		time.Sleep(10 * time.Second)
		w.round(t, all)
	}
	if w.writes != writes || w.changes() != 0 {
		t.Fatalf("P8: at rest %d writes and %d changes", w.writes-writes, w.changes())
	}
}

// P2: the same records, cut into other batches, duplicated and replayed, give
// the same states, history and decision, and a membership that fits it.
func TestBatchesDoNotMatter(t *testing.T) {
	check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}
		one, other := newWorld(1, names...), newWorld(1, names...)
		letters := rapid.SampledFrom([]rune("aaarrre"))
		var records []json.RawMessage
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			time.Sleep(rapid.SampledFrom(gaps).Draw(t, "gap"))
			for _, name := range names {
				o := map[rune]health.Outcome{'a': health.Accept, 'r': health.Reject, 'e': health.ProberError}[letters.Draw(t, name)]
				records = append(records, one.probe(name, o))
			}
		}
		other.rows = map[string]map[string]store.ProbeRow{"vpn": maps.Clone(one.rows["vpn"])}

		for _, r := range records {
			one.deliver(t, r)
		}
		for rest := records; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			other.deliver(t, rest[:n]...)
			if rapid.Bool().Draw(t, "again") {
				other.deliver(t, rest[:n]...)
			}
			rest = rest[n:]
		}
		from := rapid.IntRange(0, len(records)-1).Draw(t, "replay from")
		other.deliver(t, records[from:]...)

		if diff := cmp.Diff(one.states, other.states); diff != "" {
			t.Fatalf("states differ:\n%s", diff)
		}
		if diff := cmp.Diff(servers(one.transitions), servers(other.transitions)); diff != "" {
			t.Fatalf("history differs:\n%s", diff)
		}
		if diff := cmp.Diff(one.groups["vpn"].Members, other.groups["vpn"].Members); diff != "" {
			t.Fatalf("decisions differ:\n%s", diff)
		}
		time.Sleep(one.group.ReconcileInterval) // what waited for a registration is done by the next pass
		for _, w := range []*world{one, other} {
			w.deliver(t, records[len(records)-1])
			registered := strings.Fields(w.registered())
			for name, m := range w.groups["vpn"].Members {
				if is := slices.Contains(registered, name); m == health.In && !is || m == health.Out && is {
					t.Fatalf("%s should be %s, registered: %v", name, m, is)
				}
			}
		}
	})
}

// servers keeps the transitions of servers. Fail-open is a matter of the
// group's rows, not of the records.
func servers(transitions map[string]store.Transition) map[string]store.Transition {
	list := maps.Clone(transitions)
	maps.DeleteFunc(list, func(_ string, t store.Transition) bool { return t.Server == "" })
	return list
}
