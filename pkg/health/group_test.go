package health_test

import (
	"fmt"
	"testing"
	"time"

	"radwitness/pkg/health"
)

// member makes a member of the named standing whose evidence is at t0.
func member(server string, standing health.Standing) health.Member {
	m := health.Member{Server: server}
	if standing == health.StandingDrained {
		standing, m.Drained = health.StandingSolid, "patching"
	}
	m.Checks = []health.Check{check(server, standing)}
	return m
}

// check makes a check of the named standing whose evidence is at t0.
func check(row string, standing health.Standing) health.Check {
	c := health.Check{Row: row, StaleAfter: time.Minute, Observation: succeeding(t0, t0)}
	switch standing {
	case health.StandingSolid:
		c.State.Status = health.Up
	case health.StandingInDoubt:
		c.State.Status, c.Observation = health.Up, failing(1, t0)
	case health.StandingHoldDown:
		c.State.Status = health.HoldDown
	case health.StandingDown:
		c.State.Status, c.Observation = health.Down, failing(3, t0)
	case health.StandingUnknown:
		c.Observation = failing(1, t0)
	case health.StandingStale:
		c.State.Status = health.Down
		c.Observation = health.Observation{Round: t0, Outcome: health.ProberError}
	}
	return c
}

func members(standings string) []health.Member {
	letters := map[rune]health.Standing{
		'S': health.StandingSolid, 'f': health.StandingInDoubt, 'H': health.StandingHoldDown, 'D': health.StandingDown,
		'u': health.StandingUnknown, 's': health.StandingStale, 'x': health.StandingDrained,
	}
	var list []health.Member
	for i, letter := range standings {
		list = append(list, member(fmt.Sprintf("s%02d", i), letters[letter]))
	}
	return list
}

// The standings of the servers, one letter each: Solid, f(ailing while up),
// Holddown, Down, u(nknown), s(tale), x(drained). The wanted memberships: i(n),
// o(ut), k(eep).
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		standings string
		below     int
		want      health.Case
		members   string
		failOpen  bool
	}{
		{"SSS", 1, health.CaseServing, "iii", false},
		{"SfHDusx", 1, health.CaseServing, "iiookko", false},
		{"SfHDusx", 2, health.CaseDoubt, "iikkkko", false},
		{"SfHDusx", 3, health.CaseRecovering, "iiikkko", true}, // one of the three is failing
		{"SSHDusx", 3, health.CaseRecovering, "iiiokko", true},
		{"SfHDusx", 4, health.CaseOutage, "iiiikko", true},
		{"fff", 1, health.CaseDoubt, "iii", false},
		{"ffD", 1, health.CaseDoubt, "iik", false},
		{"SD", 1, health.CaseServing, "io", false},
		{"SDDD", 2, health.CaseOutage, "iiii", true},
		{"HDD", 1, health.CaseRecovering, "ioo", true},
		{"HHD", 2, health.CaseRecovering, "iio", true},
		{"HHD", 3, health.CaseOutage, "iii", true},
		{"DDD", 1, health.CaseOutage, "iii", true},
		{"uuu", 1, health.CaseOutage, "kkk", false},
		{"sss", 1, health.CaseOutage, "kkk", false},
		{"ssD", 1, health.CaseOutage, "kki", true},
		{"xx", 1, health.CaseOutage, "oo", false},
		{"xD", 1, health.CaseOutage, "oi", true},
		{"", 1, health.CaseOutage, "", false},
		// Fail closed: every case is the first row.
		{"DDD", 0, health.CaseServing, "ooo", false},
		{"fHDusx", 0, health.CaseServing, "iookko", false},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.standings, c.below), func(t *testing.T) {
			d := health.Decide(c.below, members(c.standings))
			var got string
			for _, v := range d.Verdicts {
				got += string(v.Membership[0])
				if v.Reason == "" {
					t.Errorf("%s is %s without a reason", v.Server, v.Membership)
				}
			}
			if d.Case != c.want || got != c.members || d.FailOpen != c.failOpen || d.Below != c.below {
				t.Errorf("case %s, members %s, fail-open %v; want %s, %s, %v", d.Case, got, d.FailOpen, c.want, c.members, c.failOpen)
			}
		})
	}
}

func TestDecideSortsAndExplains(t *testing.T) {
	d := health.Decide(1, []health.Member{member("b", health.StandingDrained), member("a", health.StandingSolid)})
	if d.Verdicts[0].Server != "a" || d.Verdicts[1].Reason != "patching" {
		t.Errorf("verdicts %+v", d.Verdicts)
	}
	if v, ok := d.Verdict("b"); !ok || v.Membership != health.Out {
		t.Errorf("verdict of b: %+v, %v", v, ok)
	}
	if _, ok := d.Verdict("c"); ok {
		t.Error("a verdict for a server that is no member")
	}
}

func TestStaleIsMeasuredAgainstTheNewestRound(t *testing.T) {
	old := member("old", health.StandingSolid)
	for _, c := range []struct {
		newest time.Duration
		want   health.Standing
	}{
		{time.Minute - time.Millisecond, health.StandingSolid},
		{time.Minute, health.StandingSolid},
		{time.Minute + time.Millisecond, health.StandingStale},
	} {
		// The group's newest round may be a probe that proved nothing.
		other := health.Member{Server: "other", Checks: []health.Check{{
			StaleAfter: time.Minute, Observation: health.Observation{Round: at(c.newest), Outcome: health.ProberError},
		}}}
		v, _ := health.Decide(1, []health.Member{old, other}).Verdict("old")
		if v.Standing != c.want {
			t.Errorf("newest round %v after: %s, want %s", c.newest, v.Standing, c.want)
		}
	}
	if v, _ := health.Decide(1, []health.Member{old}).Verdict("old"); v.Standing != health.StandingSolid {
		t.Errorf("the prober stopped: %s, want it to stay %s", v.Standing, health.StandingSolid)
	}
}

// A group whose rows are all gone has states and no evidence: nobody is counted
// on, and nobody is moved.
func TestStatesWithoutRowsProveNothing(t *testing.T) {
	m := member("a", health.StandingSolid)
	m.Checks[0].Observation = health.Observation{}
	v, _ := health.Decide(1, []health.Member{m}).Verdict("a")
	if v.Standing != health.StandingStale || v.Membership != health.Keep {
		t.Errorf("%s and %s, want %s and %s", v.Standing, v.Membership, health.StandingStale, health.Keep)
	}
}

// A server with several checks stands where the worst of them does.
func TestWorstCheckCounts(t *testing.T) {
	order := []health.Standing{
		health.StandingSolid, health.StandingInDoubt, health.StandingUnknown,
		health.StandingStale, health.StandingHoldDown, health.StandingDown,
	}
	for i, better := range order {
		for j := i; j < len(order); j++ {
			worse := order[j]
			a, b := check("s/pap", better), check("s/accounting", worse)
			for _, checks := range [][]health.Check{{a, b}, {b, a}} {
				d := health.Decide(0, []health.Member{{Server: "s", Checks: checks}})
				v, alone := d.Verdicts[0], health.Decide(0, []health.Member{{Server: "s", Checks: []health.Check{b}}}).Verdicts[0]
				if v.Standing != worse || v.Membership != alone.Membership {
					t.Errorf("%s and %s: %s, %s", better, worse, v.Standing, v.Membership)
				}
				if want := alone.Reason + " (s/accounting)"; better != worse && v.Reason != want {
					t.Errorf("%s and %s: reason %q, want %q", better, worse, v.Reason, want)
				}
			}
		}
	}
}

// A server in hold-down whose other check does not pass is none to lean on: a
// server that is down stays in until there are enough of the others.
func TestHoldDownWithAFailingCheckIsNoSupport(t *testing.T) {
	for other, want := range map[health.Standing]health.Membership{
		health.StandingSolid:    health.Out,
		health.StandingHoldDown: health.Out,
		health.StandingInDoubt:  health.In,
		health.StandingUnknown:  health.In,
		health.StandingStale:    health.In,
	} {
		held := health.Member{Server: "held", Checks: []health.Check{check("held/pap", health.StandingHoldDown), check("held/accounting", other)}}
		v, _ := health.Decide(1, []health.Member{held, member("down", health.StandingDown)}).Verdict("down")
		if v.Membership != want {
			t.Errorf("hold-down and %s: the other is %s, want %s", other, v.Membership, want)
		}
	}
}
