package balancer_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/health"
)

const arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/radius/0123456789abcdef"

// The states that a target is listed in.
var (
	healthy   = balancer.TargetState{State: elbv2types.TargetHealthStateEnumHealthy}
	initial   = balancer.TargetState{State: elbv2types.TargetHealthStateEnumInitial, Reason: elbv2types.TargetHealthReasonEnumRegistrationInProgress}
	unhealthy = balancer.TargetState{State: elbv2types.TargetHealthStateEnumUnhealthy, Reason: elbv2types.TargetHealthReasonEnumFailedHealthChecks}
	leaving   = balancer.TargetState{State: elbv2types.TargetHealthStateEnumUnhealthyDraining}
	notInUse  = balancer.TargetState{State: elbv2types.TargetHealthStateEnumUnused, Reason: elbv2types.TargetHealthReasonEnumNotInUse}
	unlisted  = balancer.TargetState{State: elbv2types.TargetHealthStateEnumUnused, Reason: elbv2types.TargetHealthReasonEnumNotRegistered}
	disabled  = balancer.TargetState{State: elbv2types.TargetHealthStateEnumUnavailable, Reason: elbv2types.TargetHealthReasonEnumHealthCheckDisabled}
	draining  = balancer.TargetState{State: elbv2types.TargetHealthStateEnumDraining, Reason: elbv2types.TargetHealthReasonEnumDeregistrationInProgress}
)

// at is the target of a test server: its name is its id.
func at(id string) balancer.Target { return balancer.Target{ID: id, Port: 1812} }

// observed is a group that lists the given targets by "id" or "id:port".
func observed(states map[balancer.Target]balancer.TargetState) balancer.Observation {
	return balancer.Observation{TargetGroup: balancer.TargetGroup{ARN: arn, Port: 1812}, States: states}
}

// resolved are servers whose targets carry their names.
func resolved(servers ...string) []balancer.Resolution {
	var rs []balancer.Resolution
	for _, s := range servers {
		rs = append(rs, balancer.Resolution{Server: s, Target: at(s)})
	}
	return rs
}

// verdict is a server's part of a decision; its reason is its standing.
func verdict(server string, m health.Membership, s health.Standing) health.Verdict {
	return health.Verdict{Server: server, Membership: m, Standing: s, Reason: string(s)}
}

// targetsOf lists what changes are about.
func targetsOf(changes []balancer.Change) []string {
	var ids []string
	for _, c := range changes {
		ids = append(ids, c.Target.String())
	}
	return ids
}

// idsOf is targetsOf for targets that are all on port 1812.
func idsOf(changes []balancer.Change) []string {
	ids := targetsOf(changes)
	for i := range ids {
		ids[i] = strings.TrimSuffix(ids[i], ":1812")
	}
	return ids
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := reflect.ValueOf(got), reflect.ValueOf(want); g.Kind() == reflect.Slice && g.Len() == 0 && w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// newest is the newest round in the members of the tests.
var newest = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// member makes a member of the group that Decide gives the standing to.
func member(server string, s health.Standing) health.Member {
	m := health.Member{Server: server}
	c := health.Check{Row: server, StaleAfter: time.Minute}
	succeeded := health.Observation{Round: newest, Outcome: health.Accept, ConsecutiveSuccesses: 1, LastSuccess: newest}
	failed := health.Observation{Round: newest, Outcome: health.Timeout, ConsecutiveFailures: 1, LastFailure: newest}
	switch s {
	case health.StandingDrained:
		m.Drained, c.State.Status, c.Observation = "maintenance", health.Up, succeeded
	case health.StandingStale:
		c.State.Status, c.Observation = health.Up, succeeded
		c.Observation.LastSuccess = newest.Add(-c.StaleAfter - time.Millisecond)
	case health.StandingUnknown:
		c.State.Status, c.Observation = health.Unknown, failed
	case health.StandingSolid:
		c.State.Status, c.Observation = health.Up, succeeded
	case health.StandingInDoubt:
		c.State.Status, c.Observation = health.Up, failed
	case health.StandingHoldDown:
		c.State.Status, c.Observation = health.HoldDown, succeeded
	case health.StandingDown:
		c.State.Status, c.Observation = health.Down, failed
	}
	m.Checks = []health.Check{c}
	return m
}

// The whole decision table, with all servers registered, absent or draining.
func TestPlanDecisionTable(t *testing.T) {
	standings := map[string]health.Standing{
		"solid": health.StandingSolid, "doubt": health.StandingInDoubt, "unknown": health.StandingUnknown,
		"stale": health.StandingStale, "held": health.StandingHoldDown, "down": health.StandingDown, "drained": health.StandingDrained,
	}
	rows := []struct {
		want    health.Case
		below   int
		absent  string // missing from the group, so that the case applies
		in, out []string
	}{
		{want: health.CaseServing, below: 0, in: []string{"doubt", "solid"}, out: []string{"down", "drained", "held"}},
		{want: health.CaseServing, below: 1, in: []string{"doubt", "solid"}, out: []string{"down", "drained", "held"}},
		{want: health.CaseDoubt, below: 2, in: []string{"doubt", "solid"}, out: []string{"drained"}},
		{want: health.CaseRecovering, below: 2, absent: "doubt", in: []string{"held", "solid"}, out: []string{"down", "drained"}},
		{want: health.CaseOutage, below: 4, in: []string{"doubt", "down", "held", "solid"}, out: []string{"drained"}},
	}
	for _, row := range rows {
		var members []health.Member
		var servers []string
		for name, s := range standings {
			if name != row.absent {
				members = append(members, member(name, s))
				servers = append(servers, name)
			}
		}
		d := health.Decide(row.below, members)
		if d.Case != row.want {
			t.Fatalf("below %d: case %q, want %q", row.below, d.Case, row.want)
		}
		for state, registered := range map[balancer.TargetState]bool{
			healthy: true, unhealthy: true, leaving: true, notInUse: true, disabled: true, {}: true,
			draining: false, unlisted: false, {State: "not listed"}: false,
		} {
			t.Run(fmt.Sprintf("%s/below %d/%s %s", row.want, row.below, state.State, state.Reason), func(t *testing.T) {
				o := observed(make(map[balancer.Target]balancer.TargetState))
				for _, s := range servers {
					if state.State != "not listed" {
						o.States[at(s)] = state
					}
				}
				p := balancer.NewPlan(o, balancer.Desired{Decision: d, Servers: resolved(servers...)})
				if registered {
					same(t, "register", idsOf(p.Register), []string(nil))
					same(t, "deregister", idsOf(p.Deregister), row.out)
					same(t, "registered", p.Registered, slices.Sorted(slices.Values(servers)))
				} else {
					same(t, "register", idsOf(p.Register), row.in)
					same(t, "deregister", idsOf(p.Deregister), []string(nil))
					same(t, "registered", p.Registered, []string(nil))
				}
				same(t, "withheld", idsOf(p.Withheld), []string(nil))
				same(t, "unmanaged", p.Unmanaged, []balancer.Target(nil))
			})
		}
	}
}

// The floor, on its edge: what counts, what does not, and what it never holds.
func TestPlanFloor(t *testing.T) {
	down := verdict("d", health.Out, health.StandingDown)
	tests := []struct {
		name       string
		below      int
		verdicts   []health.Verdict
		registered []string
		prune      bool
		deregister []string
		withheld   []string
	}{
		{"no floor", 0, []health.Verdict{down}, []string{"d"}, false, []string{"d"}, nil},
		{"one short", 2, []health.Verdict{verdict("a", health.In, health.StandingSolid), down}, []string{"a", "d"}, false, nil, []string{"d"}},
		{"just enough", 2, []health.Verdict{verdict("a", health.In, health.StandingSolid), verdict("b", health.In, health.StandingSolid), down}, []string{"a", "b", "d"}, false, []string{"d"}, nil},
		{"one to spare", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid), verdict("b", health.In, health.StandingSolid), down}, []string{"a", "b", "d"}, false, []string{"d"}, nil},
		{"a registration of this plan counts", 2, []health.Verdict{verdict("a", health.In, health.StandingSolid), verdict("b", health.In, health.StandingSolid), down}, []string{"b", "d"}, false, []string{"d"}, nil},
		{"hold-down that comes in counts", 2, []health.Verdict{verdict("b", health.In, health.StandingSolid), verdict("h", health.In, health.StandingHoldDown), down}, []string{"b", "d"}, false, []string{"d"}, nil},
		{"but nobody is reached by it alone", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid), down}, []string{"d"}, false, nil, []string{"d"}},
		{"nor by those in their first checks", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid), down}, []string{"a initial", "d"}, false, nil, []string{"d"}},
		{"one past them is enough", 2, []health.Verdict{verdict("a", health.In, health.StandingSolid), verdict("b", health.In, health.StandingSolid), down}, []string{"a initial", "b", "d"}, false, []string{"d"}, nil},
		{"one that fails them is past them, too", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid), down}, []string{"a unhealthy", "d"}, false, []string{"d"}, nil},
		{"no floor, nobody to be reached", 0, []health.Verdict{verdict("a", health.In, health.StandingSolid), down}, []string{"a initial", "d"}, false, []string{"d"}, nil},
		{"pruning waits for it, too", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid)}, []string{"a initial", "foreign"}, true, nil, []string{"foreign"}},
		{"hold-down that is kept counts", 1, []health.Verdict{verdict("h", health.Keep, health.StandingHoldDown), down}, []string{"d", "h"}, false, []string{"d"}, nil},
		{"hold-down that is kept out does not", 1, []health.Verdict{verdict("h", health.Keep, health.StandingHoldDown), down}, []string{"d"}, false, nil, []string{"d"}},
		{"hold-down that leaves does not", 1, []health.Verdict{verdict("h", health.Out, health.StandingHoldDown), down}, []string{"d", "h"}, false, nil, []string{"d", "h"}},
		{"a failing server does not", 1, []health.Verdict{verdict("a", health.In, health.StandingInDoubt), down}, []string{"a", "d"}, false, nil, []string{"d"}},
		{"a stale server does not", 1, []health.Verdict{verdict("a", health.Keep, health.StandingStale), down}, []string{"a", "d"}, false, nil, []string{"d"}},
		{"a drained server goes anyway", 1, []health.Verdict{verdict("x", health.Out, health.StandingDrained), down}, []string{"d", "x"}, false, []string{"x"}, []string{"d"}},
		{"pruning waits too", 1, []health.Verdict{verdict("a", health.In, health.StandingInDoubt)}, []string{"a", "foreign"}, true, nil, []string{"foreign"}},
		{"pruning above the floor", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid)}, []string{"a", "foreign"}, true, []string{"foreign"}, nil},
		{"no pruning unless asked", 1, []health.Verdict{verdict("a", health.In, health.StandingSolid)}, []string{"a", "foreign"}, false, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := observed(make(map[balancer.Target]balancer.TargetState))
			states := map[string]balancer.TargetState{"": healthy, "initial": initial, "unhealthy": unhealthy}
			for _, r := range tt.registered {
				id, state, _ := strings.Cut(r, " ")
				o.States[at(id)] = states[state]
			}
			var servers []string
			for _, v := range tt.verdicts {
				servers = append(servers, v.Server)
			}
			p := balancer.NewPlan(o, balancer.Desired{
				Decision: health.Decision{Below: tt.below, Verdicts: tt.verdicts}, Servers: resolved(servers...), Prune: tt.prune,
			})
			same(t, "deregister", idsOf(p.Deregister), tt.deregister)
			same(t, "withheld", idsOf(p.Withheld), tt.withheld)
		})
	}
}

// F03: the port is part of the identity.
func TestPlanPorts(t *testing.T) {
	on := func(port int32) balancer.Target { return balancer.Target{ID: "10.0.1.10", Port: port} }
	both := map[balancer.Target]balancer.TargetState{on(1812): healthy, on(1813): healthy}
	in, out := verdict("ise-1", health.In, health.StandingSolid), verdict("ise-1", health.Out, health.StandingDown)
	tests := []struct {
		name                 string
		states               map[balancer.Target]balancer.TargetState
		server               balancer.Target
		verdict              health.Verdict
		prune                bool
		register, deregister []string
		unmanaged            []balancer.Target
	}{
		{"listed as configured", map[balancer.Target]balancer.TargetState{on(1812): healthy}, on(1812), in, false, nil, nil, nil},
		{"another port is another target", map[balancer.Target]balancer.TargetState{on(1812): healthy}, on(11812), in, false, []string{"10.0.1.10:11812"}, nil, []balancer.Target{on(1812)}},
		{"the call names the odd port", map[balancer.Target]balancer.TargetState{on(11812): healthy}, on(11812), out, false, nil, []string{"10.0.1.10:11812"}, nil},
		{"only the failing port goes", both, on(1813), out, false, nil, []string{"10.0.1.10:1813"}, []balancer.Target{on(1812)}},
		{"pruning takes the other port", both, on(1812), in, true, nil, []string{"10.0.1.10:1813"}, []balancer.Target{on(1813)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := balancer.NewPlan(observed(tt.states), balancer.Desired{
				Decision: health.Decision{Verdicts: []health.Verdict{tt.verdict}},
				Servers:  []balancer.Resolution{{Server: "ise-1", Target: tt.server}},
				Prune:    tt.prune,
			})
			same(t, "register", targetsOf(p.Register), tt.register)
			same(t, "deregister", targetsOf(p.Deregister), tt.deregister)
			same(t, "unmanaged", p.Unmanaged, tt.unmanaged)
		})
	}
}

func TestPlanRefused(t *testing.T) {
	decision := health.Decision{Verdicts: []health.Verdict{
		verdict("a", health.In, health.StandingSolid), verdict("b", health.In, health.StandingSolid), verdict("c", health.Out, health.StandingDown),
	}}
	stopped := func(r balancer.Resolution) balancer.Resolution {
		r.NotReady = "stopped"
		return r
	}
	t.Run("nothing is pruned while a server is not resolved", func(t *testing.T) {
		o := observed(map[balancer.Target]balancer.TargetState{at("a"): healthy, at("c"): healthy, at("foreign"): healthy})
		p := balancer.NewPlan(o, balancer.Desired{Decision: decision, Prune: true, Servers: []balancer.Resolution{
			{Server: "b", Refused: "no instance"}, {Server: "a", Target: at("a")}, {Server: "c", Target: at("c")},
		}})
		same(t, "refused", p.Refused, []balancer.Refusal{{Server: "b", Reason: "no instance"}})
		same(t, "deregister", idsOf(p.Deregister), []string{"c"})
		same(t, "withheld", p.Withheld, []balancer.Change{{Target: at("foreign"), Reason: "no configured server owns it, but it may be the target of b"}})
		same(t, "unmanaged", p.Unmanaged, []balancer.Target{at("foreign")})
	})
	t.Run("a target that is not ready may leave, not come", func(t *testing.T) {
		o := observed(map[balancer.Target]balancer.TargetState{at("b"): healthy, at("c"): healthy, at("foreign"): healthy})
		var servers []balancer.Resolution
		for _, r := range resolved("a", "b", "c") {
			servers = append(servers, stopped(r))
		}
		p := balancer.NewPlan(o, balancer.Desired{Decision: decision, Prune: true, Servers: servers})
		same(t, "refused", p.Refused, []balancer.Refusal{{Server: "a", Reason: "stopped"}})
		same(t, "register", idsOf(p.Register), []string(nil))
		same(t, "deregister", idsOf(p.Deregister), []string{"c", "foreign"})
	})
	t.Run("two servers never share a target", func(t *testing.T) {
		o := observed(map[balancer.Target]balancer.TargetState{at("a"): healthy})
		p := balancer.NewPlan(o, balancer.Desired{Decision: decision, Servers: []balancer.Resolution{
			{Server: "c", Target: at("a")}, {Server: "a", Target: at("a")},
		}})
		same(t, "refused", p.Refused, []balancer.Refusal{{Server: "c", Reason: "a:1812 is already the target of a"}})
		if !p.Empty() {
			t.Errorf("plan is not empty: %+v", p)
		}
	})
	t.Run("a server without a verdict stays as it is", func(t *testing.T) {
		o := observed(map[balancer.Target]balancer.TargetState{at("new"): healthy})
		p := balancer.NewPlan(o, balancer.Desired{Decision: decision, Servers: resolved("new", "newer"), Prune: true})
		if !p.Empty() {
			t.Errorf("plan is not empty: %+v", p)
		}
	})
}

// A plan is read by people and by other programs.
func TestPlanJSON(t *testing.T) {
	o := observed(map[balancer.Target]balancer.TargetState{
		at("a"): draining, at("d"): unhealthy, {ID: "2001:db8::1", Port: 1813}: healthy,
	})
	p := balancer.NewPlan(o, balancer.Desired{Servers: resolved("d", "a"), Decision: health.Decision{Verdicts: []health.Verdict{
		verdict("a", health.In, health.StandingSolid), verdict("d", health.Out, health.StandingDown),
	}}})
	got, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "target_group": "` + arn + `",
 "register": [
  {
   "target": {
    "id": "a",
    "port": 1812
   },
   "server": "a",
   "standing": "up",
   "reason": "up; ends its draining"
  }
 ],
 "deregister": [
  {
   "target": {
    "id": "d",
    "port": 1812
   },
   "server": "d",
   "standing": "down",
   "reason": "down"
  }
 ],
 "unmanaged": [
  {
   "id": "2001:db8::1",
   "port": 1813
  }
 ],
 "registered": [
  "d"
 ],
 "observed": [
  {
   "target": {
    "id": "2001:db8::1",
    "port": 1813
   },
   "state": "healthy"
  },
  {
   "target": {
    "id": "a",
    "port": 1812
   },
   "server": "a",
   "state": "draining",
   "reason": "Target.DeregistrationInProgress"
  },
  {
   "target": {
    "id": "d",
    "port": 1812
   },
   "server": "d",
   "state": "unhealthy",
   "reason": "Target.FailedHealthChecks"
  }
 ],
 "below": 0,
 "backing": 0
}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	var back balancer.Plan
	if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("read back: %+v, %v", back, err)
	}
	if s := fmt.Sprint(p.Unmanaged); s != "[[2001:db8::1]:1813]" {
		t.Errorf("printed: %s", s)
	}
}

// A zone that loses its last target is named: its address leaves DNS.
func TestPlanNamesEmptiedZones(t *testing.T) {
	zoned := func(s balancer.TargetState, zone string) balancer.TargetState {
		s.Zone = zone
		return s
	}
	o := observed(map[balancer.Target]balancer.TargetState{
		at("a"): zoned(healthy, "us-east-1a"), at("b"): zoned(healthy, "us-east-1b"), at("b2"): healthy, at("c"): zoned(draining, "us-east-1a"),
	})
	d := balancer.Desired{Decision: decide(1, "a down", "b up", "b2 down", "c down"), Servers: resolved("a", "b", "b2", "c")}
	for i, r := range d.Servers {
		if r.Server == "b2" {
			d.Servers[i].Zone = "us-east-1b" // as EC2 says; the load balancer does not
		}
	}
	same(t, "emptied", balancer.NewPlan(o, d).EmptiedZones, []string{"us-east-1a"})
	d.Decision = decide(0, "a down", "b down", "b2 down", "c down")
	same(t, "emptied", balancer.NewPlan(o, d).EmptiedZones, []string{"us-east-1a", "us-east-1b"})
	d.Decision = decide(1, "a down", "b up", "b2 up", "c up")
	d.Servers[3].Zone = "us-east-1a"
	same(t, "emptied", balancer.NewPlan(o, d).EmptiedZones, []string(nil))
}
