package operator

import (
	"testing"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

func TestNext(t *testing.T) {
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	in := func(d time.Duration) time.Time { return now.Add(d) }
	second := time.Second
	standing := func(s health.Standing, m health.Membership) health.Verdict {
		return health.Verdict{Server: "a", Row: "a", Standing: s, Membership: m}
	}
	failing := func(n int, o health.Outcome, last time.Time) store.ProbeRow {
		return store.ProbeRow{Round: last, Outcome: o, ConsecutiveFailures: n, LastFailure: last}
	}
	answering := func(last time.Time) store.ProbeRow {
		return store.ProbeRow{Round: last, Outcome: health.Accept, ConsecutiveSuccesses: 1, LastSuccess: last}
	}
	others := func(below int, s ...health.Standing) health.Decision {
		d := health.Decision{Below: below}
		for _, standing := range s {
			d.Verdicts = append(d.Verdicts, health.Verdict{Standing: standing})
		}
		return d
	}
	none := time.Time{}
	for _, c := range []struct {
		name string
		p    prospect
		want string
		at   time.Time
	}{
		{"up", prospect{verdict: standing(health.StandingSolid, health.In), row: answering(ago(second))}, "down after 3 failed probes in a row", none},
		{"silent", prospect{silent: true, verdict: standing(health.StandingSolid, health.In)}, "no change until probes are recorded again", none},
		{"stale", prospect{verdict: standing(health.StandingStale, health.Keep)}, "stays as it is until a probe says something about the server", none},
		{"unreadable", prospect{verdict: health.Verdict{Standing: health.StandingStale}}, "stays as it is until its row in table health is mended", none},

		{"1 of 3 rejected", prospect{verdict: standing(health.StandingInDoubt, health.In), row: failing(1, health.Reject, ago(0))}, "down after 2 more failures (about 2s)", in(2 * second)},
		{"1 of 3 timed out", prospect{verdict: standing(health.StandingInDoubt, health.In), row: failing(1, health.Timeout, ago(second))}, "down after 2 more failures (about 10s)", in(10 * second)},
		{"2 of 3", prospect{verdict: standing(health.StandingInDoubt, health.In), row: failing(2, health.Reject, ago(second))}, "down after 1 more failure (about 0s)", in(0)},
		{"3 of 3", prospect{verdict: standing(health.StandingInDoubt, health.In), row: failing(3, health.Reject, ago(0))}, "down as soon as the reconciler reads the last failure", none},
		{"unknown, failing", prospect{verdict: standing(health.StandingUnknown, health.Keep), row: failing(1, health.Reject, ago(0))}, "down after 2 more failures (about 2s), or up on the next success", in(2 * second)},
		{"unknown, answered", prospect{verdict: standing(health.StandingUnknown, health.Keep), row: answering(ago(0))}, "up as soon as the reconciler reads its success", none},

		{"hold-down", prospect{verdict: standing(health.StandingHoldDown, health.Out), row: answering(ago(second)), state: health.State{Since: ago(90 * second), HeldUntil: in(30 * second)}}, "up in 30s if it keeps answering", in(30 * second)},
		{"hold-down, a second before its end", prospect{verdict: standing(health.StandingHoldDown, health.Out), row: answering(ago(second)), state: health.State{Since: ago(90 * second), HeldUntil: in(second)}}, "up in 1s if it keeps answering", in(second)},
		{"hold-down at its end", prospect{verdict: standing(health.StandingHoldDown, health.Out), row: answering(ago(4 * second)), state: health.State{Since: ago(90 * second), HeldUntil: now}}, "up on the next success", in(0)},
		{"hold-down, in by fail-open", prospect{verdict: standing(health.StandingHoldDown, health.In), row: answering(ago(second)), state: health.State{Since: ago(90 * second), HeldUntil: in(65 * second)}}, "held in by fail-open; up in 1m05s if it keeps answering", in(65 * second)},
		{"hold-down, failed", prospect{verdict: standing(health.StandingHoldDown, health.Out), row: failing(1, health.Reject, ago(second)), state: health.State{Since: ago(9 * second), HeldUntil: in(second)}}, "down as soon as the reconciler reads the last failure", none},

		{"down", prospect{verdict: standing(health.StandingDown, health.Out), row: failing(7, health.Reject, ago(3*second)), state: health.State{HoldDown: time.Minute}}, "in hold-down on the next success, up 2m00s after that", in(0)},
		{"down, flapping", prospect{verdict: standing(health.StandingDown, health.Out), row: failing(7, health.Reject, ago(3*second)), state: health.State{HoldDown: 4 * time.Minute}}, "in hold-down on the next success, up 4m00s after that", in(0)},
		{"down, longest hold-down", prospect{verdict: standing(health.StandingDown, health.Out), row: failing(7, health.Reject, ago(3*second)), state: health.State{HoldDown: time.Hour}}, "in hold-down on the next success, up 15m00s after that", in(0)},
		{"down, kept", prospect{verdict: standing(health.StandingDown, health.Keep), row: failing(7, health.Reject, ago(3*second))}, "kept until the servers that are up stop failing; in hold-down on the next success", in(0)},
		{"down, in by fail-open", prospect{verdict: standing(health.StandingDown, health.In), row: failing(7, health.Reject, ago(3*second)), decision: others(1, health.StandingDown, health.StandingDown)}, "held in by fail-open until 1 more server is well again; in hold-down on the next success", in(0)},
		{"down, two are missing", prospect{verdict: standing(health.StandingDown, health.In), row: failing(7, health.Reject, ago(3*second)), decision: others(3, health.StandingDown, health.StandingSolid)}, "held in by fail-open until 2 more servers are well again; in hold-down on the next success", in(0)},

		{"drained by the file", prospect{verdict: health.Verdict{Standing: health.StandingDrained}}, "stays out until admin: out leaves fleet.yaml", none},
		{"drained", prospect{silent: true, verdict: health.Verdict{Standing: health.StandingDrained}, drain: &store.Drain{Until: in(90 * time.Minute)}}, "the drain ends in 1h30m; then its state counts again", in(90 * time.Minute)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.now = now
			c.p.policy = health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute}
			c.p.check = fleet.Probe{Interval: 10 * second, FastInterval: second, Attempts: 3, AttemptTimeout: second}
			text, at := c.p.next()
			if text != c.want || !at.Equal(c.at) {
				t.Errorf("%q at %v, want %q at %v", text, at, c.want, c.at)
			}
		})
	}
}

func TestTickIsNotInThePast(t *testing.T) {
	now := time.Date(2026, 11, 30, 14, 0, 7, 0, time.UTC)
	for _, c := range []struct {
		name  string
		round time.Time
		want  time.Time
	}{
		{"the last tick", now.Add(-7 * time.Second), now.Add(3 * time.Second)},
		{"a fast probe since", now.Add(-2 * time.Second), now.Add(3 * time.Second)},
		{"a tick is due that no row shows yet", now.Add(-17 * time.Second), time.Time{}},
	} {
		p := prospect{now: now, check: fleet.Probe{Interval: 10 * time.Second}, row: store.ProbeRow{Round: c.round}}
		if got := p.tick(); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 499 * time.Millisecond: "0s", 59 * time.Second: "59s", 59500 * time.Millisecond: "1m00s", time.Minute: "1m00s",
		65 * time.Second: "1m05s", time.Hour - 500*time.Millisecond: "1h00m", time.Hour: "1h00m", 90 * time.Minute: "1h30m", 24*time.Hour - time.Second: "23h59m", 24 * time.Hour: "1d00h", 49 * time.Hour: "2d01h",
	} {
		if got := Short(d); got != want {
			t.Errorf("Short(%v) = %q, want %q", d, got, want)
		}
	}
}
