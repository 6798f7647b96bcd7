package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"radwitness/pkg/health"
)

// history draws the images that a row goes through: random evidence at
// growing rounds, as the prober's conditional updates would write them.
func history(t *rapid.T) []health.Observation {
	var o health.Observation
	round := t0
	var list []health.Observation
	for range rapid.IntRange(1, 80).Draw(t, "probes") {
		round = round.Add(rapid.SampledFrom([]time.Duration{
			time.Millisecond, time.Second, 10 * time.Second, time.Minute, 5 * time.Minute,
		}).Draw(t, "gap"))
		o.Round = round
		switch rapid.SampledFrom([]string{"success", "success", "failure", "failure", "nothing"}).Draw(t, "evidence") {
		case "success":
			if o.ConsecutiveSuccesses == 0 {
				o.SuccessSince = round
			}
			o.Outcome, o.LastSuccess = health.Accept, round
			o.ConsecutiveSuccesses, o.ConsecutiveFailures, o.FailureSince = o.ConsecutiveSuccesses+1, 0, time.Time{}
		case "failure":
			if o.ConsecutiveFailures == 0 {
				o.FailureSince = round
			}
			o.Outcome, o.LastFailure = health.Reject, round
			o.ConsecutiveFailures, o.ConsecutiveSuccesses, o.SuccessSince = o.ConsecutiveFailures+1, 0, time.Time{}
		default:
			o.Outcome = health.ProberError
		}
		list = append(list, o)
	}
	return list
}

func run(s health.State, records []health.Observation) health.State {
	for _, o := range records {
		s, _ = health.Advance(policy, s, o)
	}
	return s
}

// P2: replaying any suffix any number of times, or repeating records, ends in
// the same state.
func TestReplayChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := history(t)
		want := run(health.State{}, records)
		got := want
		for range rapid.IntRange(1, 4).Draw(t, "replays") {
			got = run(got, records[rapid.IntRange(0, len(records)-1).Draw(t, "from"):])
		}
		if !cmp.Equal(want, got) {
			t.Fatalf("after replays %+v, want %+v", got, want)
		}
		var s health.State
		for _, o := range records {
			for range rapid.IntRange(1, 3).Draw(t, "copies") {
				s, _ = health.Advance(policy, s, o)
			}
		}
		if !cmp.Equal(want, s) {
			t.Fatalf("with duplicates %+v, want %+v", s, want)
		}
	})
}

// P5: no server is up again before an unbroken hold-down has passed.
func TestHoldDownIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s health.State
		var lastFailure time.Time
		for _, o := range history(t) {
			before := s
			var transition *health.Transition
			s, transition = health.Advance(policy, s, o)
			if o.ConsecutiveFailures > 0 {
				lastFailure = o.LastFailure
			}
			if transition == nil || transition.To != health.Up || before.Status != health.HoldDown {
				continue
			}
			if s.Since.Before(before.HeldUntil) {
				t.Fatalf("up at %v, held until %v", s.Since, before.HeldUntil)
			}
			if served := s.Since.Sub(o.SuccessSince); served < policy.HoldDown || lastFailure.After(o.SuccessSince) {
				t.Fatalf("up after %v of success, last failure %v", served, lastFailure)
			}
		}
	})
}

// A lost record loses no verdict: a server whose newest image is past the
// threshold is down whatever was lost before it, and one in hold-down has
// succeeded ever since the hold-down's count began.
func TestLostRecordsLoseNoVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := history(t)
		var s health.State
		for i, o := range records {
			if i < len(records)-1 && rapid.Bool().Draw(t, "lost") {
				continue
			}
			s, _ = health.Advance(policy, s, o)
			evidence, _ := o.Evidence()
			if o.ConsecutiveFailures >= policy.FailureThreshold && s.Status != health.Down {
				t.Fatalf("%d failures and %s", o.ConsecutiveFailures, s.Status)
			}
			if s.Status == health.HoldDown && (evidence != health.Success || s.HeldUntil.Sub(o.SuccessSince) < policy.HoldDown) {
				t.Fatalf("held until %v with successes since %v", s.HeldUntil, o.SuccessSince)
			}
		}
	})
}

// P6: what proves nothing moves nothing.
func TestProberErrorMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := history(t)
		s := run(health.State{}, records)
		o := records[len(records)-1]
		o.Round, o.Outcome = o.Round.Add(time.Hour), health.ProberError
		if got, transition := health.Advance(policy, s, o); transition != nil {
			t.Fatalf("prober_error moved %+v to %+v", s, got)
		}
	})
}

// P3 and the floor, for the decision: a solid server is always in, and a server
// is put out for its health only while enough others serve.
func TestDecisionNeverStarvesTheGroup(t *testing.T) {
	all := []health.Standing{
		health.StandingSolid, health.StandingInDoubt, health.StandingHoldDown, health.StandingDown,
		health.StandingUnknown, health.StandingStale, health.StandingDrained,
	}
	rapid.Check(t, func(t *rapid.T) {
		var list []health.Member
		for i, s := range rapid.SliceOfN(rapid.SampledFrom(all), 0, 8).Draw(t, "standings") {
			m := member(string(rune('a'+i)), s)
			for range rapid.IntRange(0, 2).Draw(t, "checks that do better") {
				m.Checks = append(m.Checks, check("better", health.StandingSolid))
			}
			list = append(list, m)
		}
		below := rapid.IntRange(0, 5).Draw(t, "below")
		d := health.Decide(below, list)
		if shuffled := health.Decide(below, rapid.Permutation(list).Draw(t, "order")); !cmp.Equal(d, shuffled) {
			t.Fatalf("the order of the members matters:\n%s", cmp.Diff(d, shuffled))
		}
		serving, out := 0, 0
		for _, v := range d.Verdicts {
			switch {
			case v.Standing == health.StandingSolid && v.Membership != health.In:
				t.Fatalf("%s is up and %s", v.Server, v.Membership)
			case v.Standing == health.StandingDrained && v.Membership != health.Out:
				t.Fatalf("%s is drained and %s", v.Server, v.Membership)
			case v.Standing == health.StandingStale && v.Membership != health.Keep:
				t.Fatalf("%s is stale and %s", v.Server, v.Membership)
			}
			if v.Membership == health.In && (v.Standing == health.StandingSolid || v.Standing == health.StandingHoldDown) {
				serving++
			}
			if v.Membership == health.Out && v.Standing != health.StandingDrained {
				out++
			}
		}
		if out > 0 && serving < below {
			t.Fatalf("%d put out with %d serving, floor %d", out, serving, below)
		}
	})
}
