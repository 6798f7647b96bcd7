package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/health"
)

var (
	t0     = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	policy = health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute}
)

func at(d time.Duration) time.Time { return t0.Add(d) }

// failing is the image of a row whose newest probe is the n-th failure in a
// row, one second apart.
func failing(n int, round time.Time) health.Observation {
	return health.Observation{
		Round: round, Outcome: health.Reject,
		ConsecutiveFailures: n, FailureSince: round.Add(-time.Duration(n-1) * time.Second), LastFailure: round,
	}
}

// succeeding is the image of a row whose successes run since the given round.
func succeeding(since, round time.Time) health.Observation {
	return health.Observation{
		Round: round, Outcome: health.Accept,
		ConsecutiveSuccesses: int(round.Sub(since)/time.Second) + 1, SuccessSince: since, LastSuccess: round,
	}
}

func TestAdvance(t *testing.T) {
	up := health.State{Status: health.Up, Since: t0}
	down := health.State{Status: health.Down, Since: t0, HoldDown: 2 * time.Minute}
	held := health.State{Status: health.HoldDown, Since: t0, HeldUntil: at(2 * time.Minute), HoldDown: 2 * time.Minute}
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		policy health.Policy
		from   health.State
		o      health.Observation
		want   health.State
		rule   health.Rule
	}{
		{"unknown, success", policy, health.State{}, succeeding(t0, t0),
			health.State{Status: health.Up, Since: t0}, health.RuleFirstSuccess},
		{"unknown, threshold-1", policy, health.State{}, failing(2, t0), health.State{Status: health.Unknown}, ""},
		{"unknown, threshold", policy, health.State{}, failing(3, t0),
			health.State{Status: health.Down, Since: t0, HoldDown: 2 * time.Minute}, health.RuleThreshold},
		{"unknown, never conclusive", policy, health.State{}, health.Observation{Round: t0, Outcome: health.ProberError},
			health.State{Status: health.Unknown}, ""},
		{"up, threshold-1", policy, up, failing(2, at(time.Minute)), up, ""},
		{"up, threshold", policy, up, failing(3, at(time.Minute)),
			health.State{Status: health.Down, Since: at(time.Minute), HoldDown: 2 * time.Minute}, health.RuleThreshold},
		{"up, threshold+1 because a record was lost", policy, up, failing(4, at(time.Minute)),
			health.State{Status: health.Down, Since: at(time.Minute), HoldDown: 2 * time.Minute}, health.RuleThreshold},
		{"up, success", policy, up, succeeding(t0, at(time.Minute)), up, ""},
		{"up, threshold, but not newer", policy, up, failing(3, t0), up, ""},
		{"up, threshold, newer by 1 ms", policy, up, failing(3, at(ms)),
			health.State{Status: health.Down, Since: at(ms), HoldDown: 2 * time.Minute}, health.RuleThreshold},
		{"down, failure", policy, down, failing(9, at(time.Minute)), down, ""},
		{"down, success", policy, down, succeeding(at(time.Minute), at(time.Minute)),
			health.State{Status: health.HoldDown, Since: at(time.Minute), HeldUntil: at(3 * time.Minute), HoldDown: 2 * time.Minute}, health.RuleRecovered},
		{"down, later success: the hold-down counts from the first", policy, down, succeeding(at(time.Minute), at(90*time.Second)),
			health.State{Status: health.HoldDown, Since: at(90 * time.Second), HeldUntil: at(3 * time.Minute), HoldDown: 2 * time.Minute}, health.RuleRecovered},
		{"holddown, failure", policy, held, failing(1, at(time.Minute)),
			health.State{Status: health.Down, Since: at(time.Minute), HoldDown: 2 * time.Minute}, health.RuleRelapsed},
		{"holddown, success 1 ms before the end", policy, held, succeeding(t0, at(2*time.Minute-ms)), held, ""},
		{"holddown, success at the end", policy, held, succeeding(t0, at(2*time.Minute)),
			health.State{Status: health.Up, Since: at(2 * time.Minute), HoldDown: 2 * time.Minute}, health.RuleProven},
		{"holddown, success 1 ms after the end", policy, held, succeeding(t0, at(2*time.Minute+ms)),
			health.State{Status: health.Up, Since: at(2*time.Minute + ms), HoldDown: 2 * time.Minute}, health.RuleProven},
		{"holddown, the record of a failure was lost", policy, held, succeeding(at(ms), at(2*time.Minute)),
			health.State{Status: health.HoldDown, Since: at(2 * time.Minute), HeldUntil: at(2*time.Minute + ms), HoldDown: 2 * time.Minute}, health.RuleRestarted},
		{"holddown, prober error after the end: the evidence is older", policy, held,
			health.Observation{Round: at(3 * time.Minute), Outcome: health.ProberError, ConsecutiveSuccesses: 4, SuccessSince: t0, LastSuccess: at(time.Minute)},
			held, ""},

		{"falls again within hold_down_max of coming up: doubled", policy,
			health.State{Status: health.Up, Since: t0, HoldDown: 2 * time.Minute}, failing(3, at(15*time.Minute)),
			health.State{Status: health.Down, Since: at(15 * time.Minute), HoldDown: 4 * time.Minute}, health.RuleThreshold},
		{"falls again 1 ms later: not doubled", policy,
			health.State{Status: health.Up, Since: t0, HoldDown: 8 * time.Minute}, failing(3, at(15*time.Minute+ms)),
			health.State{Status: health.Down, Since: at(15*time.Minute + ms), HoldDown: 2 * time.Minute}, health.RuleThreshold},
		{"doubling ends at hold_down_max", policy,
			health.State{Status: health.Up, Since: t0, HoldDown: 8 * time.Minute}, failing(3, at(time.Minute)),
			health.State{Status: health.Down, Since: at(time.Minute), HoldDown: 15 * time.Minute}, health.RuleThreshold},
		{"first fall is not a flap", policy, up, failing(3, at(ms)),
			health.State{Status: health.Down, Since: at(ms), HoldDown: 2 * time.Minute}, health.RuleThreshold},
		{"a shorter hold_down_max was deployed while down",
			health.Policy{FailureThreshold: 3, HoldDown: time.Minute, HoldDownMax: 90 * time.Second}, down, succeeding(at(time.Second), at(time.Second)),
			health.State{Status: health.HoldDown, Since: at(time.Second), HeldUntil: at(91 * time.Second), HoldDown: 90 * time.Second}, health.RuleRecovered},
		{"a longer hold_down was deployed while down",
			health.Policy{FailureThreshold: 3, HoldDown: 5 * time.Minute, HoldDownMax: 15 * time.Minute}, down, succeeding(at(time.Second), at(time.Second)),
			health.State{Status: health.HoldDown, Since: at(time.Second), HeldUntil: at(301 * time.Second), HoldDown: 5 * time.Minute}, health.RuleRecovered},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, transition := health.Advance(c.policy, c.from, c.o)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if c.rule == "" {
				if transition != nil {
					t.Errorf("transition %+v, want none", *transition)
				}
				return
			}
			from := c.from.Status
			if from == "" {
				from = health.Unknown
			}
			want := &health.Transition{From: from, To: c.want.Status, At: c.want.Since, Rule: c.rule, Outcome: c.o.Outcome, HeldUntil: c.want.HeldUntil}
			if diff := cmp.Diff(want, transition); diff != "" {
				t.Errorf("transition (-want +got):\n%s", diff)
			}
			if again, second := health.Advance(c.policy, got, c.o); second != nil || !cmp.Equal(again, got) {
				t.Errorf("the same record again moved the state to %+v", again)
			}
		})
	}
}

func TestCriteriaEvidence(t *testing.T) {
	c := health.Criteria{
		HealthyOn: []health.Outcome{health.Accept, health.ProberError},
		FailureOn: []health.Outcome{health.Reject, health.Timeout, health.Alive, health.ProberError},
	}
	want := map[health.Outcome]health.Evidence{
		health.Accept: health.Success, health.Alive: health.Success,
		health.Reject: health.Failure, health.Timeout: health.Failure,
		health.Challenge: health.NoEvidence, health.Refused: health.NoEvidence, health.BadAuthenticator: health.NoEvidence,
		health.Malformed: health.NoEvidence, health.BadCertificate: health.NoEvidence, health.ProberError: health.NoEvidence,
	}
	for _, o := range health.Outcomes() {
		if got := c.Evidence(o); got != want[o] {
			t.Errorf("%s: evidence %d, want %d", o, got, want[o])
		}
	}
	if len(want) != len(health.Outcomes()) {
		t.Errorf("%d outcomes, %d are tested", len(health.Outcomes()), len(want))
	}
}
