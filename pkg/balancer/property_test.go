package balancer_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// world is a random group in front of a random target group.
type world struct {
	o balancer.Observation
	d balancer.Desired
}

// someStates are the states of listed targets; the last two are not registered.
var someStates = []balancer.TargetState{healthy, initial, unhealthy, leaving, notInUse, disabled, draining, unlisted}

// drawDecision makes the decision for random servers, s0 to sN.
func drawDecision(t *rapid.T) health.Decision {
	standings := []health.Standing{
		health.StandingSolid, health.StandingInDoubt, health.StandingHoldDown, health.StandingDown,
		health.StandingUnknown, health.StandingStale, health.StandingDrained,
	}
	var members []health.Member
	for i := range rapid.IntRange(0, 7).Draw(t, "servers") {
		members = append(members, member(fmt.Sprintf("s%d", i), rapid.SampledFrom(standings).Draw(t, "standing")))
	}
	return health.Decide(rapid.IntRange(0, 4).Draw(t, "below"), members)
}

func drawWorld(t *rapid.T) world {
	w := world{o: observed(make(map[balancer.Target]balancer.TargetState))}
	w.d.Decision = drawDecision(t)
	w.d.Prune = rapid.Bool().Draw(t, "prune")
	for _, v := range w.d.Decision.Verdicts {
		r := balancer.Resolution{Server: v.Server, Target: at(v.Server)}
		switch rapid.IntRange(0, 9).Draw(t, "resolution") {
		case 0:
			r = balancer.Resolution{Server: v.Server, Refused: "no instance"}
		case 1:
			r.NotReady = "stopped"
		}
		w.d.Servers = append(w.d.Servers, r)
	}
	ids := []string{"foreign", "s0", "s1", "s2", "s3", "s4", "s5", "s6"}
	for _, id := range ids {
		for _, port := range []int32{1812, 1813} {
			if rapid.Bool().Draw(t, "listed") {
				w.o.States[balancer.Target{ID: id, Port: port}] = rapid.SampledFrom(someStates).Draw(t, "state")
			}
		}
	}
	return w
}

// after is the observation once the plan has been applied in full.
func after(o balancer.Observation, p balancer.Plan) balancer.Observation {
	o.States = maps.Clone(o.States)
	for _, c := range p.Register {
		o.States[c.Target] = initial
	}
	for _, c := range p.Deregister {
		o.States[c.Target] = draining
	}
	return o
}

// backed counts the servers that are solidly up or held down, and registered.
func backed(d health.Decision, registered func(server string) bool) int {
	n := 0
	for _, v := range d.Verdicts {
		if (v.Standing == health.StandingSolid || v.Standing == health.StandingHoldDown) && registered(v.Server) {
			n++
		}
	}
	return n
}

func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p := balancer.NewPlan(w.o, w.d)

		// P1: what leaves, leaves the floor standing. Counted on the outcome, with
		// none of the planner's own arithmetic.
		then := after(w.o, p)
		standing := backed(w.d.Decision, func(server string) bool { return then.Registered(at(server)) })
		for _, c := range p.Deregister {
			if c.Standing != health.StandingDrained && standing < w.d.Decision.Below {
				t.Errorf("%v leaves %d servers, below is %d", c.Target, standing, w.d.Decision.Below)
			}
		}

		// The plan is done when it is done.
		if again := balancer.NewPlan(then, w.d); !again.Empty() {
			t.Errorf("applied %+v, then planned %+v", p, again)
		}

		owners := make(map[balancer.Target]balancer.Resolution)
		for _, r := range w.d.Servers {
			if r.Refused == "" {
				owners[r.Target] = r
			}
		}
		for _, c := range p.Register {
			r, owned := owners[c.Target]
			v, _ := w.d.Decision.Verdict(c.Server)
			if !owned || r.Server != c.Server || r.NotReady != "" || w.o.Registered(c.Target) || v.Membership != health.In {
				t.Errorf("registers %+v of verdict %+v", c, v)
			}
			if slices.ContainsFunc(p.Deregister, func(d balancer.Change) bool { return d.Target == c.Target }) {
				t.Errorf("registers and deregisters %v", c.Target)
			}
		}
		for _, c := range slices.Concat(p.Deregister, p.Withheld) {
			r, owned := owners[c.Target]
			v, _ := w.d.Decision.Verdict(r.Server)
			switch {
			case !w.o.Registered(c.Target):
				t.Errorf("deregisters %+v, which is not there", c)
			case owned && v.Membership != health.Out:
				t.Errorf("deregisters %+v of verdict %+v", c, v)
			case !owned && !w.d.Prune:
				t.Errorf("deregisters %+v, which nobody owns", c)
			}
		}

		// No server is lost: one that should change does, or is named with a reason.
		named := len(p.Register) + len(p.Deregister) + len(p.Withheld) + len(p.Refused)
		wanted := 0
		for _, r := range w.d.Servers {
			v, _ := w.d.Decision.Verdict(r.Server)
			here := w.o.Registered(r.Target)
			if r.Refused != "" || v.Membership == health.In && !here || v.Membership == health.Out && here {
				wanted++
			}
		}
		if w.d.Prune {
			wanted += len(p.Unmanaged)
		}
		if named != wanted {
			t.Errorf("%d changes wanted, %d named in %+v", wanted, named, p)
		}

		// Order of input does not show.
		shuffled := w.d
		shuffled.Servers = rapid.Permutation(w.d.Servers).Draw(t, "servers")
		shuffled.Decision.Verdicts = rapid.Permutation(w.d.Decision.Verdicts).Draw(t, "verdicts")
		if other := balancer.NewPlan(w.o, shuffled); !reflect.DeepEqual(p, other) {
			t.Errorf("plan depends on the order of its input:\n%+v\n%+v", p, other)
		}
	})
}

// P1 and P7 through Apply: whatever calls fail, the floor stands, and once they
// work again one pass is enough.
func TestApplyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fake := balancertest.New(nil)
		fake.AddTargetGroup(balancertest.TargetGroup{ARN: arn, Port: 1812})
		client := &balancer.Client{ELBv2: fake}
		d := drawDecision(t)
		group := fleet.Group{Prune: rapid.Bool().Draw(t, "prune")}
		address := func(server string) string { return "10.0.0." + server[1:] }
		for _, v := range d.Verdicts {
			group.Servers = append(group.Servers, fleet.Server{Name: v.Server, Address: netip.MustParseAddr(address(v.Server))})
			fake.SetInvalid(address(v.Server), rapid.Bool().Draw(t, "invalid"))
		}
		for i := range 9 {
			if state := rapid.SampledFrom(someStates).Draw(t, "state"); rapid.Bool().Draw(t, "listed") {
				fake.Put(arn, balancertest.Target{ID: fmt.Sprintf("10.0.0.%d", i), Port: 1812, State: state.State, Reason: state.Reason})
			}
		}
		fake.Throttle(balancertest.RegisterTargets, rapid.IntRange(0, 1).Draw(t, "throttled registrations"))
		fake.Throttle(balancertest.DeregisterTargets, rapid.IntRange(0, 1).Draw(t, "throttled deregistrations"))

		pass := func() (balancer.Plan, balancer.Result, error) {
			p, err := client.Plan(context.Background(), group, fleet.TargetGroup{ARN: arn}, d)
			if err != nil {
				t.Fatal(err)
			}
			r, err := client.Apply(context.Background(), p)
			return p, r, err
		}
		p, r, err := pass()
		o, oerr := client.Observe(context.Background(), arn)
		if oerr != nil {
			t.Fatal(oerr)
		}
		standing := backed(d, func(s string) bool { return o.Registered(balancer.Target{ID: address(s), Port: 1812}) })
		for _, c := range r.Deregistered {
			if c.Standing != health.StandingDrained && standing < d.Below {
				t.Errorf("%v left %d servers, below is %d", c.Target, standing, d.Below)
			}
		}
		failed := 0
		for _, f := range r.Failed {
			if f.Action != "confirming" {
				failed++
			}
		}
		if got, want := len(r.Registered)+len(r.Deregistered)+len(r.Withheld)+failed, len(p.Register)+len(p.Deregister)+len(p.Withheld); got != want {
			t.Errorf("%d changes planned, %d accounted for", want, got)
		}
		if (err != nil) != (len(r.Failed) > 0) {
			t.Errorf("%d targets failed, error is %v", len(r.Failed), err)
		}

		for i := range 9 {
			fake.SetInvalid(fmt.Sprintf("10.0.0.%d", i), false)
		}
		for range 3 { // one may still meet a throttled registration that was not used up, another a deregistration
			_, r, err = pass()
		}
		if err != nil || len(r.Failed) > 0 {
			t.Errorf("with all well again: %+v, %v", r, err)
		}
		if p, _, _ := pass(); !p.Empty() {
			t.Errorf("not at rest: %+v", p)
		}
	})
}
