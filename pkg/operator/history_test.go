package operator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

var (
	dawn = time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	dusk = at(100)
)

func at(minutes int) time.Time { return dawn.Add(time.Duration(minutes) * time.Minute) }

func transition(minute int, server, from, to string) store.Transition {
	return store.Transition{Server: server, From: from, To: to, At: at(minute), Rule: "rule"}
}

func order(minute int, to string, length int) store.Transition {
	from := map[string]string{store.Drained: store.Undrained, store.Undrained: store.Drained}[to]
	t := store.Transition{Server: "a", From: from, To: to, At: at(minute), Rule: store.RuleOrder}
	if to == store.Drained {
		t.HeldUntil = at(minute + length)
	}
	return t
}

func span(from, to int, status, rule string) Span {
	return Span{From: at(from), To: at(to), Status: status, Rule: rule}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		name  string
		past  []store.Transition
		state health.State
		want  []Span
	}{
		{"nothing is known", nil, health.State{}, []Span{span(0, 100, "unknown", "")}},
		{"no transition since before", nil, health.State{Status: health.Up, Since: at(-500)}, []Span{span(0, 100, "up", "")}},
		{"since the very beginning", nil, health.State{Status: health.Up, Since: at(0)}, []Span{span(0, 100, "up", "")}},
		{"a state whose transition is lost", nil, health.State{Status: health.Down, Since: at(40)}, []Span{span(0, 40, "unknown", ""), span(40, 100, "down", "")}},
		{
			"what it was before is in the first transition",
			[]store.Transition{transition(10, "a", "up", "down"), transition(30, "a", "down", "holddown"), transition(50, "a", "holddown", "up")},
			health.State{Status: health.Up, Since: at(50)},
			[]Span{span(0, 10, "up", ""), span(10, 30, "down", "rule"), span(30, 50, "holddown", "rule"), span(50, 100, "up", "rule")},
		},
		{"a new server", []store.Transition{transition(20, "a", "unknown", "up")}, health.State{Status: health.Up, Since: at(20)}, []Span{span(0, 20, "unknown", ""), span(20, 100, "up", "rule")}},
		{"a transition at the beginning", []store.Transition{transition(0, "a", "up", "down")}, health.State{Status: health.Down, Since: at(0)}, []Span{span(0, 100, "down", "rule")}},
		{
			"others' transitions, and orders, are not its own",
			[]store.Transition{transition(10, "b", "up", "down"), order(20, store.Drained, 5), {From: "closed", To: "open", At: at(30), Rule: "outage"}},
			health.State{Status: health.Up, Since: at(-1)}, []Span{span(0, 100, "up", "")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, spans(c.past, "a", c.state, dawn, dusk)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDrained(t *testing.T) {
	type times [][2]int
	for _, c := range []struct {
		name  string
		past  []store.Transition
		order *store.Drain
		want  times
	}{
		{"never", nil, nil, nil},
		{"to its end", []store.Transition{order(10, store.Drained, 20)}, nil, times{{10, 30}}},
		{"still", []store.Transition{order(90, store.Drained, 20)}, nil, times{{90, 100}}},
		{"taken back", []store.Transition{order(10, store.Drained, 50), order(15, store.Undrained, 0)}, nil, times{{10, 15}}},
		{"replaced by a longer one", []store.Transition{order(10, store.Drained, 20), order(20, store.Drained, 40)}, nil, times{{10, 20}, {20, 60}}},
		{"two", []store.Transition{order(10, store.Drained, 5), order(40, store.Drained, 5)}, nil, times{{10, 15}, {40, 45}}},
		{"taken back after its end", []store.Transition{order(10, store.Drained, 5), order(40, store.Undrained, 0)}, nil, times{{10, 15}}},
		{"since before, taken back", []store.Transition{order(40, store.Undrained, 0)}, nil, times{{0, 40}}},
		{"since before, in force", nil, &store.Drain{Since: at(-60), Until: at(200)}, times{{0, 100}}},
		{"since before, over", nil, &store.Drain{Since: at(-60), Until: at(30)}, times{{0, 30}}},
		{"since before, over before", nil, &store.Drain{Since: at(-60), Until: at(-30)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o store.Drain
			if c.order != nil {
				o = *c.order
			}
			var got times
			for _, i := range drained(c.past, "a", o, c.order != nil, dawn, dusk) {
				got = append(got, [2]int{int(i.from.Sub(dawn).Minutes()), int(i.to.Sub(dawn).Minutes())})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("drained (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlay(t *testing.T) {
	list := []Span{span(0, 40, "up", ""), span(40, 100, "down", "rule")}
	d := func(s Span) Span { s.Drained = true; return s }
	for _, c := range []struct {
		name     string
		from, to int
		want     []Span
	}{
		{"within one", 10, 20, []Span{span(0, 10, "up", ""), d(span(10, 20, "up", "")), span(20, 40, "up", ""), span(40, 100, "down", "rule")}},
		{"over two", 30, 50, []Span{span(0, 30, "up", ""), d(span(30, 40, "up", "")), d(span(40, 50, "down", "rule")), span(50, 100, "down", "rule")}},
		{"all", 0, 100, []Span{d(span(0, 40, "up", "")), d(span(40, 100, "down", "rule"))}},
		{"exactly one", 0, 40, []Span{d(span(0, 40, "up", "")), span(40, 100, "down", "rule")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, overlay(list, interval{at(c.from), at(c.to)})); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMarks(t *testing.T) {
	past := store.History{
		Transitions: []store.Transition{
			{Server: "a", From: "up", To: "down", At: at(10), Rule: "failure threshold reached", Outcome: health.Reject, Reason: "account locked"},
			{Server: "a", From: "down", To: "holddown", At: at(20), Rule: "success while down", Outcome: health.Accept, HeldUntil: at(22)},
			{From: "closed", To: "open", At: at(30), Rule: "outage"},
			{From: "open", To: "closed", At: at(40), Rule: "serving"},
			{Server: "a", From: store.Undrained, To: store.Drained, At: at(50), Rule: store.RuleOrder, Reason: "patching", HeldUntil: at(80)},
			{Server: "a", From: store.Drained, To: store.Undrained, At: at(60), Rule: store.RuleOrder},
			{Server: "a", From: store.Undrained, To: store.Drained, At: at(70), Rule: store.RuleOrder, Reason: "again", HeldUntil: at(75)},
		},
		Changes: []store.Change{{
			At: at(11), TargetGroup: "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/vpn/1",
			Registered:   []store.Move{{Target: "10.0.0.2:1812", Server: "b", Reason: "up"}},
			Deregistered: []store.Move{{Target: "10.0.0.1:1812", Server: "a", Reason: "down"}},
			Withheld:     []store.Move{{Target: "10.0.0.3:1812", Server: "c", Reason: "floor"}},
		}},
	}
	want := []Mark{
		{at(10), MarkTransition, "a", "up -> down: failure threshold reached (reject: account locked)"},
		{at(11), MarkRegister, "b", "10.0.0.2:1812 registered in vpn: up"},
		{at(11), MarkDeregister, "a", "10.0.0.1:1812 deregistered from vpn: down"},
		{at(11), MarkWithheld, "c", "10.0.0.3:1812 not deregistered from vpn: floor"},
		{at(20), MarkTransition, "a", "down -> holddown: success while down (accept), held for 2m00s"},
		{at(30), MarkFailOpenBegin, "", "fail-open begins: too few servers answer: bad ones stay in rather than leaving the load balancer empty"},
		{at(40), MarkFailOpenEnd, "", "fail-open ends: enough servers are up"},
		{at(50), MarkDrain, "a", "drained for 30m00s: patching"},
		{at(60), MarkUndrain, "a", "the drain was taken back"},
		{at(70), MarkDrain, "a", "drained for 5m00s: again"},
		{at(75), MarkUndrain, "a", "the drain ended by itself"},
	}
	if diff := cmp.Diff(want, marks(past, dawn, dusk)); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}
