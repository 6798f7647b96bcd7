package operator_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

func TestDrain(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa", "aa")
	given := w.now
	c, err := w.Drain(t.Context(), operator.Order{Server: "b", For: time.Hour, Reason: " patching, see Änderung\u00a04 \n"})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Drained || c.Done || c.Registered != 1 || c.TargetGroups != 1 || !c.Until.Equal(given.Add(time.Hour)) || c.Reason != "patching, see Änderung\u00a04" || c.Note != "the reconciler obeys with its next pass" {
		t.Errorf("an order that nobody waits for: %+v", c)
	}
	w.rounds(t, "aa")
	b := w.report(t).Servers[1]
	if b.Registered != 0 || b.Drain == nil || b.Drain.Reason != "patching, see Änderung\u00a04" || !b.Since.Equal(given) || b.Checks[0].Outcome != health.Accept {
		t.Errorf("a pass later: %+v", b)
	}

	w.now = given.Add(time.Hour - interval)
	w.rounds(t, "aa") // the round at its end is the first in which it counts no more
	if b = w.report(t).Servers[1]; b.Registered != 1 || b.Drain != nil {
		t.Errorf("at its end it is not back by itself: %+v", b)
	}
	lines, err := w.Timelines(t.Context(), "vpn", begin)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range lines.Groups[0].Marks {
		if m.Server == "b" && m.Kind != operator.MarkTransition {
			got = append(got, string(m.Kind))
		}
	}
	if want := []string{"register", "drain", "deregister", "undrain", "register"}; !slices.Equal(got, want) {
		t.Errorf("marks of the timeline %v, want %v", got, want)
	}
}

func TestDrainIsRefused(t *testing.T) {
	order := func(server string) operator.Order {
		return operator.Order{Server: server, For: time.Hour, Reason: "patching"}
	}
	for _, c := range []struct {
		name    string
		below   int
		rounds  []string
		arrange func(*testing.T, *world)
		order   operator.Order
		want    string // empty if it is given
	}{
		{name: "enough are left", below: 1, rounds: []string{"aa"}, order: order("b")},
		{name: "just too few", below: 2, rounds: []string{"aa"}, order: order("b"), want: "without b, group vpn has 1 server surely up and needs 2; -force"},
		{name: "the other one is in doubt", below: 1, rounds: []string{"aa", "ra"}, order: order("b"), want: "without b, group vpn has 0 servers surely up and needs 1 (a is up, failing); -force"},
		{name: "the other one is down", below: 1, rounds: []string{"ra", "ra", "ra"}, order: order("b"), want: "needs 1 (a is down); -force"},
		{name: "the one that is down itself", below: 1, rounds: []string{"ra", "ra", "ra"}, order: order("a")},
		{name: "fails closed, another is up", below: 0, rounds: []string{"aa"}, order: order("b")},
		{name: "fails closed, the last one", below: 0, rounds: []string{"ra", "ra", "ra"}, order: order("b"), want: "needs 1 (a is down)"},
		{
			name: "drained already", below: 1, rounds: []string{"aa"}, order: order("b"), want: "b is drained for another 59m50s (patching); -force puts this order in its place",
			arrange: func(t *testing.T, w *world) { drain(t, w, time.Hour) },
		},
		{
			name: "out by the file", below: 1, rounds: []string{"aa"}, order: order("b"), want: "b is out already, by admin: out in fleet.yaml",
			arrange: func(_ *testing.T, w *world) { w.group.Servers[1].Admin = fleet.AdminOut },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.below, "a", "b")
			w.rounds(t, c.rounds...)
			if c.arrange != nil {
				c.arrange(t, w)
			}
			_, err := w.Drain(t.Context(), c.order)
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, operator.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want a refusal with %q", err, c.want)
			}
			before := drains(t, w)
			c.order.Force, c.order.For = true, 2*time.Hour
			_, err = w.Drain(t.Context(), c.order)
			if out := w.group.Servers[1].Admin == fleet.AdminOut; out != (err != nil) {
				t.Errorf("with force: %v", err)
			} else if after := drains(t, w)[c.order.Server]; !out && !after.Until.Equal(w.now.Add(2*time.Hour)) {
				t.Errorf("with force: drains %v, before %v", after, before)
			}
		})
	}
}

// One server after the other is patched. The first is up as soon as it is undrained,
// but for minutes users reach the second alone.
func TestDrainsInTurn(t *testing.T) {
	const firstChecks = 3 * time.Minute
	w := newWorld(t, 1, "a", "b")
	w.aws.AddTargetGroup(balancertest.TargetGroup{
		ARN: arn, Port: 1812, Protocol: "UDP", VPCID: "vpc-1", DeregistrationDelay: time.Minute, InitialDelay: firstChecks,
	})
	order := func(server string) error {
		_, err := w.Drain(t.Context(), operator.Order{Server: server, For: time.Hour, Reason: "patching"})
		return err
	}
	w.rounds(t, "aa")
	w.now = w.now.Add(firstChecks)
	w.rounds(t, "aa")
	if err := order("a"); err != nil {
		t.Fatal(err)
	}
	w.rounds(t, "aa")
	w.now = w.now.Add(2 * time.Minute) // the deregistration delay is over
	w.rounds(t, "aa")
	if _, err := w.Undrain(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	w.rounds(t, "aa")
	if a := w.report(t).Servers[0]; a.Standing != health.StandingSolid || a.Registered != 1 {
		t.Fatalf("a is not back: %+v", a)
	}
	const want = "refused: without b, users of target group vpn would reach nobody: of those that are surely up none is past the load balancer's first checks"
	if err := order("b"); !errors.Is(err, operator.ErrRefused) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("in the first checks of a: %v", err)
	}
	w.now = w.now.Add(firstChecks)
	w.rounds(t, "aa")
	if err := order("b"); err != nil {
		t.Errorf("after the first checks of a: %v", err)
	}
}

// meanwhile is a Viewer after whose first look something happens.
type meanwhile struct {
	operator.Viewer
	happens func()
}

func (m *meanwhile) View(ctx context.Context, g fleet.Group) (*reconciler.View, error) {
	v, err := m.Viewer.View(ctx, g)
	if m.happens != nil {
		m.happens()
		m.happens = nil
	}
	return v, err
}

func TestTwoDrainsAtOnce(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa")
	w.Viewer = &meanwhile{w.Viewer, func() {
		if err := w.Drains.Save(t.Context(), "vpn", "b", store.Drain{Since: w.now, Until: w.now.Add(time.Hour), Reason: "another terminal"}); err != nil {
			t.Error(err)
		}
	}}
	_, err := w.Drain(t.Context(), operator.Order{Server: "a", For: time.Hour, Reason: "patching"})
	if !errors.Is(err, operator.ErrRefused) || !strings.Contains(err.Error(), "b is drained") {
		t.Errorf("error %v, want it refused because b is drained", err)
	}
	if left := drains(t, w); len(left) != 1 || left["b"].Reason != "another terminal" {
		t.Errorf("orders %+v, want the other one alone", left)
	}
}

func drains(t *testing.T, w *world) map[string]store.Drain {
	t.Helper()
	g, err := w.health.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	return g.Drains
}

func TestOrdersThatMakeNoSense(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.Fleet.Groups = append(w.Fleet.Groups, fleet.Group{Name: "wifi", Servers: []fleet.Server{{Name: "b"}}})
	good := operator.Order{Server: "a", For: time.Hour, Reason: "patching"}
	for _, c := range []struct {
		name string
		edit func(*operator.Order)
		want string
	}{
		{"too short", func(o *operator.Order) { o.For = operator.MinDrain - 1 }, "a drain takes from 1m to 30d"},
		{"too long", func(o *operator.Order) { o.For = operator.MaxDrain + 1 }, "a drain takes from 1m to 30d"},
		{"without a reason", func(o *operator.Order) { o.Reason = " " }, "a drain needs a reason"},
		{"with an escape in the reason", func(o *operator.Order) { o.Reason = "patch \x1b[31m4" }, "one line of printable text"},
		{"with lines in the reason", func(o *operator.Order) { o.Reason = "patch 4\nb  up" }, "one line of printable text"},
		{"with a reason that is not UTF-8", func(o *operator.Order) { o.Reason = "patch \xff" }, "one line of printable text"},
		{"with a reason without end", func(o *operator.Order) { o.Reason = strings.Repeat("ä", 201) }, "200 characters at most"},
		{"unknown", func(o *operator.Order) { o.Server = "c" }, `server "c" is not in the fleet; it has a, vpn/b, wifi/b`},
		{"ambiguous", func(o *operator.Order) { o.Server = "b" }, `several groups have a server "b": name one of vpn/b, wifi/b`},
	} {
		o := good
		c.edit(&o)
		if _, err := w.Drain(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, operator.ErrRefused) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := w.Undrain(t.Context(), "vpn/b", 0); !errors.Is(err, operator.ErrRefused) || !strings.Contains(err.Error(), "b is not drained") {
		t.Errorf("taking back what is not there: %v", err)
	}
	w.group.Servers[0].Admin = fleet.AdminOut
	if _, err := w.Undrain(t.Context(), "a", 0); !errors.Is(err, operator.ErrRefused) || !strings.Contains(err.Error(), "admin: out") {
		t.Errorf("taking back what is in the file: %v", err)
	}
}

func TestUndrain(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa")
	drain(t, w, time.Hour)
	w.rounds(t, "ar", "ar", "ar")
	c, err := w.Undrain(t.Context(), "b", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Done || c.Drained || c.Registered != 0 || c.Membership != health.Out || !strings.HasPrefix(c.Note, "b is down: in hold-down on the next success") {
		t.Errorf("taking back the drain of a server that is down: %+v", c)
	}
	if len(drains(t, w)) > 0 {
		t.Error("the drain is still there")
	}
}

// watched is a group whose only server leaves its target group after a time.
type watched struct {
	leaves  time.Time
	silent  time.Time // from when on no probe is recorded; zero for never
	drained bool
}

func (w *watched) Save(context.Context, string, string, store.Drain) error {
	w.drained = true
	return nil
}

func (w *watched) Delete(context.Context, string, string, time.Time) error {
	w.drained = false
	return nil
}

func (w *watched) View(_ context.Context, g fleet.Group) (*reconciler.View, error) {
	now := time.Now()
	newest := now
	if !w.silent.IsZero() && now.After(w.silent) {
		newest = w.silent
	}
	up := health.Verdict{Server: "b", Standing: health.StandingSolid, Membership: health.In, Row: "b"}
	a := health.Verdict{Server: "a", Row: "a", Standing: health.StandingSolid, Membership: health.In}
	if w.drained {
		a = health.Verdict{Server: "a", Standing: health.StandingDrained, Membership: health.Out}
	}
	p := balancer.Plan{TargetGroup: arn, Registered: []string{"a", "b"}, Observed: []balancer.Listed{
		{Server: "b", TargetState: balancer.TargetState{State: elbv2types.TargetHealthStateEnumHealthy}},
	}}
	if !now.Before(w.leaves) {
		p.Registered = []string{"b"}
	}
	members := []health.Member{}
	for _, s := range []string{"a", "b"} {
		members = append(members, health.Member{Server: s, Checks: []health.Check{{
			Row: s, State: health.State{Status: health.Up}, StaleAfter: time.Minute,
			Observation: health.Observation{Round: newest, ConsecutiveSuccesses: 1, LastSuccess: newest},
		}}})
	}
	return &reconciler.View{
		Group: g, Newest: newest, Members: members,
		Decision:     health.Decision{Case: health.CaseServing, Below: 1, Verdicts: []health.Verdict{a, up}},
		TargetGroups: []reconciler.TargetGroupPlan{{Plan: p}},
	}, nil
}

func TestDrainWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration // the server leaves
		silent time.Duration // the prober stops; 0 for never
		mode   fleet.Mode
		wait   time.Duration
		done   bool
		took   float64
		note   string
	}{
		{name: "until it is out", after: 4200 * time.Millisecond, wait: 30 * time.Second, done: true, took: 4.5},
		{name: "no longer than it should", after: time.Hour, wait: 30 * time.Second, took: 30, note: "the reconciler obeys with its next pass"},
		{name: "not at all", after: time.Hour, took: 0, note: "the reconciler obeys with its next pass"},
		{name: "not in observe mode", after: time.Hour, mode: fleet.Observe, wait: 30 * time.Second, took: 0, note: "the group is in observe mode, in which nothing is changed"},
		{name: "not for a silent prober", after: time.Hour, silent: time.Second, wait: time.Hour, took: 34.5, note: "the prober is silent, and without its results the reconciler does nothing; it obeys with the next one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := func(name string) fleet.Server {
					return fleet.Server{
						Name: name, Address: netip.MustParseAddr("10.0.0.1"),
						Checks: []fleet.Probe{{Row: name, Interval: interval, Attempts: 3, AttemptTimeout: time.Second}},
					}
				}
				g := fleet.Group{
					Name: "vpn", Mode: c.mode, Below: 1, TargetGroups: []fleet.TargetGroup{{ARN: arn}}, Servers: []fleet.Server{server("a"), server("b")},
				}
				w := &watched{leaves: time.Now().Add(c.after)}
				if c.silent > 0 {
					w.silent = time.Now().Add(c.silent)
				}
				o := &operator.Operator{Fleet: &fleet.Fleet{Groups: []fleet.Group{g}}, Viewer: w, Drains: w}
				got, err := o.Drain(t.Context(), operator.Order{Server: "a", For: time.Hour, Reason: "patching", Wait: c.wait})
				if err != nil || got.Done != c.done || got.TookSeconds != c.took || got.Note != c.note {
					t.Errorf("%+v, error %v; want done %v after %v s, note %q", got, err, c.done, c.took, c.note)
				}
			})
		})
	}
}
