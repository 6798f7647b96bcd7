package replay

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/nas"
	"radwitness/pkg/store"
)

const targetGroup = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/vpn/0123456789abcdef"

// at is a time in the night.
func at(after time.Duration) time.Time {
	return time.Date(2026, 1, 31, 2, 0, 0, 0, time.UTC).Add(after)
}

// group is three servers. A failing one is probed again after a second, and is
// down at its third failure; a silent probe takes three seconds.
func group() fleet.Group {
	g := fleet.Group{
		Name: "vpn", Mode: fleet.Enforce, TargetGroups: []fleet.TargetGroup{{ARN: targetGroup}}, Below: 1,
		Health: health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute},
	}
	for i, name := range []string{"ise-1", "ise-2", "ise-3"} {
		g.Servers = append(g.Servers, fleet.Server{
			Name: name, Address: netip.AddrFrom4([4]byte{10, 0, byte(i + 1), 10}),
			Checks: []fleet.Probe{{
				Row: name, Method: fleet.PAP, FastInterval: time.Second, AttemptTimeout: time.Second, Attempts: 3,
				Criteria: health.Criteria{HealthyOn: []health.Outcome{health.Accept}},
			}},
		})
	}
	return g
}

// turn is a transition of a server.
func turn(server string, after time.Duration, from, to health.Status, rule health.Rule, o health.Outcome) store.Transition {
	return store.Transition{Server: server, From: string(from), To: string(to), At: at(after), Rule: string(rule), Outcome: o}
}

// moved is a pass that registers or deregisters servers.
func moved(after time.Duration, in, out []string) store.Change {
	moves := func(names []string) []store.Move {
		var list []store.Move
		for _, n := range names {
			list = append(list, store.Move{Target: n, Server: n})
		}
		return list
	}
	return store.Change{At: at(after), TargetGroup: targetGroup, Registered: moves(in), Deregistered: moves(out)}
}

// night is an outage of the first server from 1 to 11 minutes, in silence. It is
// out of the target group ten seconds after its first failed probe, and back two
// minutes after it has recovered.
func night() Record {
	const minute = time.Minute
	return Record{Group: group(), History: store.History{
		Transitions: []store.Transition{
			turn("ise-1", minute+8*time.Second, health.Up, health.Down, health.RuleThreshold, health.Timeout),
			turn("ise-1", 11*minute, health.Down, health.HoldDown, health.RuleRecovered, health.Accept),
			turn("ise-1", 13*minute, health.HoldDown, health.Up, health.RuleProven, health.Accept),
		},
		Changes: []store.Change{
			moved(minute+10*time.Second, nil, []string{"ise-1"}),
			moved(13*minute, []string{"ise-1"}, nil),
		},
	}}
}

func past(t *testing.T, r Record, from, to time.Duration) *Past {
	t.Helper()
	p, err := New(r, at(from), at(to))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCourse(t *testing.T) {
	c := course[string]{begin: "a"}
	c.set(at(1), "b")
	c.set(at(5), "b") // no change
	c.set(at(7), "c")
	for after, want := range map[time.Duration]string{0: "a", 1: "b", 6: "b", 7: "c", 8: "c"} {
		if got := c.at(at(after)); got != want {
			t.Errorf("at %d: %s, want %s", after, got, want)
		}
	}
	c.set(at(3), "d")
	if got := []string{c.at(at(2)), c.at(at(3)), c.at(at(9))}; !slices.Equal(got, []string{"b", "d", "d"}) || len(c.changes) != 2 {
		t.Errorf("cut off: %v, %+v", got, c)
	}
}

func TestAnswers(t *testing.T) {
	const second = time.Second
	down := func(after time.Duration, rule health.Rule, o health.Outcome) store.Transition {
		return turn("ise-1", after, health.Up, health.Down, rule, o)
	}
	back := turn("ise-1", 60*second, health.Down, health.HoldDown, health.RuleRecovered, health.Accept)
	tests := []struct {
		name        string
		transitions []store.Transition
		row         store.ProbeRow
		status      health.Status
		want        map[time.Duration]health.Outcome
		note        string
	}{
		{name: "nothing recorded", want: map[time.Duration]health.Outcome{0: health.Accept, time.Hour: health.Accept}},
		{ // failed probes of three seconds at 42 s, 46 s, 50 s
			name: "silent since the first failed probe", transitions: []store.Transition{down(50*second, health.RuleThreshold, health.Timeout), back},
			want: map[time.Duration]health.Outcome{42*second - 1: health.Accept, 42 * second: health.Timeout, 60*second - 1: health.Timeout, 60 * second: health.Accept},
		},
		{ // at 48 s, 49 s, 50 s
			name: "rejecting", transitions: []store.Transition{down(50*second, health.RuleThreshold, health.Reject), back},
			want: map[time.Duration]health.Outcome{48*second - 1: health.Accept, 48 * second: health.Reject, 60 * second: health.Accept},
		},
		{
			name: "closed", transitions: []store.Transition{down(50*second, health.RuleThreshold, health.Refused)},
			want: map[time.Duration]health.Outcome{48*second - 1: health.Accept, 48 * second: health.Refused, time.Hour: health.Refused},
		},
		{
			name: "a relapse needs one failure", transitions: []store.Transition{
				turn("ise-1", 50*second, health.HoldDown, health.Down, health.RuleRelapsed, health.Timeout)},
			want: map[time.Duration]health.Outcome{50*second - 1: health.Accept, 50 * second: health.Timeout},
		},
		{
			name: "never before the last transition", transitions: []store.Transition{
				turn("ise-1", 45*second, health.HoldDown, health.Up, health.RuleProven, health.Accept), down(50*second, health.RuleThreshold, health.Timeout)},
			want: map[time.Duration]health.Outcome{45*second - 1: health.Accept, 45 * second: health.Timeout},
		},
		{
			name: "the row knows the running streak", transitions: []store.Transition{down(50*second, health.RuleThreshold, health.Timeout)},
			row:  store.ProbeRow{ConsecutiveFailures: 9, FailureSince: at(30 * second)},
			want: map[time.Duration]health.Outcome{30*second - 1: health.Accept, 30 * second: health.Timeout},
		},
		{
			name: "a later streak says nothing", transitions: []store.Transition{down(50*second, health.RuleThreshold, health.Reject), back},
			row:  store.ProbeRow{ConsecutiveFailures: 1, FailureSince: at(70 * second)},
			want: map[time.Duration]health.Outcome{48*second - 1: health.Accept, 48 * second: health.Reject, 60 * second: health.Accept},
		},
		{
			name: "down before the record", transitions: []store.Transition{back}, note: "taken to have been silent",
			want: map[time.Duration]health.Outcome{0: health.Timeout, 60 * second: health.Accept},
		},
		{
			name: "down for longer than the record", status: health.Down, note: "taken to have been silent",
			want: map[time.Duration]health.Outcome{0: health.Timeout, time.Hour: health.Timeout},
		},
		{
			name: "a drain tells nothing of its answers", transitions: []store.Transition{down(50*second, health.RuleThreshold, health.Reject),
				{Server: "ise-1", From: store.Undrained, To: store.Drained, At: at(55 * second), Rule: store.RuleOrder}},
			want: map[time.Duration]health.Outcome{56 * second: health.Reject},
		},
		{
			name: "others' lines", transitions: []store.Transition{
				turn("ise-2", 50*second, health.Up, health.Down, health.RuleThreshold, health.Reject),
				{From: "closed", To: "open", At: at(50 * second), Rule: "outage"},
				{Server: "ise-1", From: store.Undrained, To: store.Drained, At: at(50 * second), Rule: store.RuleOrder},
				{Server: "ise-1", Address: "10.9.9.9", From: "up", To: "down", At: at(50 * second), Rule: string(health.RuleThreshold), Outcome: health.Reject},
			},
			want: map[time.Duration]health.Outcome{0: health.Accept, 51 * second: health.Accept},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := past(t, Record{
				Group: group(), History: store.History{Transitions: tt.transitions}, Probes: map[string]store.ProbeRow{"ise-1": tt.row},
				Health: store.GroupHealth{States: map[string]health.State{"ise-1": {Status: tt.status}}},
			}, 0, 2*time.Hour)
			for after, want := range tt.want {
				if got := p.servers[0].answers.at(at(after)); got != want {
					t.Errorf("at %v: %s, want %s", after, got, want)
				}
			}
			if notes := strings.Join(p.Notes, "; "); (tt.note == "") != (notes == "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}

func TestBehind(t *testing.T) {
	r := night()
	r.History.Changes = append(r.History.Changes, moved(20*time.Minute, nil, []string{"ise-1", "ise-2", "ise-3"}), moved(21*time.Minute, []string{"ise-2"}, nil))
	r.History.Changes = append(r.History.Changes, store.Change{At: at(22 * time.Minute), TargetGroup: "another", Deregistered: []store.Move{{Server: "ise-2"}}})
	p := past(t, r, 0, time.Hour)
	for _, tt := range []struct {
		after time.Duration
		want  []int
	}{
		{0, []int{0, 1, 2}},
		{70*time.Second - 1, []int{0, 1, 2}},
		{70 * time.Second, []int{1, 2}},
		{13 * time.Minute, []int{1, 2}}, // registered, but the NLB has not checked it yet
		{13*time.Minute + initial - 1, []int{1, 2}},
		{13*time.Minute + initial, []int{0, 1, 2}},
		{20 * time.Minute, nil},
		{21 * time.Minute, []int{1}}, // new, but there is no other
		{50 * time.Minute, []int{1}},
	} {
		if got := p.behind(at(tt.after)); !slices.Equal(got, tt.want) {
			t.Errorf("at %v: %v, want %v", tt.after, got, tt.want)
		}
	}

	// Without a line about a server the newest decision says where it is.
	p = past(t, Record{Group: group(), Health: store.GroupHealth{Group: store.GroupRow{Members: map[string]health.Membership{
		"ise-1": health.Out, "ise-2": health.In, "ise-3": health.Keep,
	}}}}, 0, time.Hour)
	if got := p.behind(at(0)); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("by the decision: %v", got)
	}
}

func TestBeginning(t *testing.T) {
	first := turn("ise-1", time.Minute, health.Unknown, health.Up, health.RuleFirstSuccess, health.Accept)
	tests := []struct {
		name    string
		history store.History
		want    time.Duration
	}{
		{"older than the time", night().History, 0},
		{"targets that were there", store.History{Transitions: []store.Transition{first}}, time.Minute},
		{"targets that came", store.History{Transitions: []store.Transition{first}, Changes: []store.Change{moved(time.Minute+time.Second, []string{"ise-1", "ise-2", "ise-3"}, nil)}},
			time.Minute + time.Second},
		{"empty", store.History{}, 0},
	}
	for _, tt := range tests {
		p := past(t, Record{Group: group(), History: tt.history}, 0, time.Hour)
		if !p.From.Equal(at(tt.want)) || (len(p.Notes) > 0) != (tt.want > 0) {
			t.Errorf("%s: from %v, notes %q, want %v", tt.name, p.From, p.Notes, at(tt.want))
		}
	}
	if _, err := New(Record{Group: group(), History: tests[1].history}, at(0), at(time.Second)); err == nil || !strings.Contains(err.Error(), "nothing is recorded") {
		t.Errorf("a time before the record: %v", err)
	}
	g := group()
	g.Servers[1].Checks[0].Method = fleet.StatusServer
	if _, err := New(Record{Group: g}, at(0), at(1)); err == nil || err.Error() != "server ise-2 of group vpn has no check that authenticates a user" {
		t.Errorf("no user: %v", err)
	}
	g = group()
	g.Mode = fleet.Observe
	if p := past(t, Record{Group: g}, 0, time.Hour); len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "observe mode") {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestOutages(t *testing.T) {
	const second = time.Second
	p := past(t, Record{Group: group()}, 0, time.Hour)
	p.servers[0].answers.set(at(10*second), health.Timeout)
	p.servers[0].answers.set(at(20*second), health.Reject)
	p.servers[0].answers.set(at(30*second), health.Accept)
	p.servers[1].answers.set(at(25*second), health.Refused)
	p.servers[1].answers.set(at(40*second), health.Accept)
	p.servers[2].answers.set(at(50*second), health.Timeout)
	want := []outage{
		{at(10 * second), at(40 * second), []string{"ise-1 timeout", "ise-1 reject", "ise-2 refused"}},
		{at(50 * second), at(time.Hour), []string{"ise-3 timeout"}},
	}
	if diff := cmp.Diff(want, p.outages(), cmp.AllowUnexported(outage{})); diff != "" {
		t.Error(diff)
	}
	// One that began before the time begins with it.
	p.From = at(55 * second)
	if got := p.outages(); len(got) != 1 || !got[0].from.Equal(p.From) {
		t.Errorf("outages %v", got)
	}
}

// run lives through a past with one login a second.
func run(t *testing.T, p *Past, s nas.Strategy, change func(*Test)) ([]nas.View, []nas.Outage) {
	t.Helper()
	test := Test{
		Settings: nas.Settings{Strategy: s, Timeout: 2 * time.Second, Retries: 2, Batch: 5, DeadAfter: 3, DeadSilence: 3 * time.Second, DeadTime: 2 * time.Minute},
		Servers:  []int{0, 1, 2}, Logins: int(p.To.Sub(p.From).Seconds()),
	}
	if change != nil {
		change(&test)
	}
	views, outages, err := p.Run(test)
	if err != nil {
		t.Fatal(err)
	}
	return views, outages
}

func TestLastNight(t *testing.T) {
	views, outages := run(t, past(t, night(), 0, time.Hour), nas.Strict, nil)
	listed, behind := views[0], views[1]
	if listed.Name != Listed || behind.Name != Behind || listed.Logins != 3600 || behind.Logins != 3600 {
		t.Fatalf("%+v", views)
	}
	// For ten minutes every user waits for the first server in vain.
	if listed.Delayed != 600 || listed.FailedOver != 600 || listed.LetIn.Deny != 3600 || listed.Wait.MaxMS != 2000 {
		t.Errorf("listed: %+v", listed.Summary)
	}
	// For ten seconds a third of the flows are the first server's, and have no other.
	if behind.Delayed != 4 || behind.Unanswered != 4 || behind.LetIn.Deny != 3596 || behind.LetIn.Allow != 3600 || behind.Wait.MaxMS != 6000 {
		t.Errorf("behind: %+v", behind.Summary)
	}
	if len(outages) != 1 || !outages[0].From.Equal(at(time.Minute)) || !outages[0].To.Equal(at(11*time.Minute)) || outages[0].Failing[0] != "ise-1 timeout" {
		t.Fatalf("%+v", outages)
	}
	if a, b := outages[0].Views[0], outages[0].Views[1]; a.Logins != 600 || a.Wait.P50MS != 2000 || b.Logins != 600 || b.Wait.P50MS != 0 || b.Unanswered != 4 {
		t.Errorf("during the outage: %+v, %+v", a, b)
	}
}

// A server that rejects everybody keeps out those that ask it, as long as it is asked.
func TestANightOfRejects(t *testing.T) {
	r := night()
	r.History.Transitions[0].Outcome = health.Reject // since 1 min 6 s, as those probes are quick
	for strategy, kept := range map[nas.Strategy]int{nas.Strict: 594, nas.RoundRobin: 198, nas.LeastOutstanding: 195} {
		views, _ := run(t, past(t, r, 0, time.Hour), strategy, nil)
		if got := 3600 - views[0].LetIn.Deny; got != kept || views[0].LetIn.Allow != views[0].LetIn.Deny || views[0].Delayed != 0 {
			t.Errorf("%s, listed: %d kept out, want %d; %+v", strategy, got, kept, views[0].Summary)
		}
		if got := 3600 - views[1].LetIn.Deny; got > 4 {
			t.Errorf("%s, behind: %d kept out in four seconds", strategy, got)
		}
	}
}

// Cisco's dead time spares users most of the waits, and its tester those after.
func TestANightWithDeadServers(t *testing.T) {
	p := past(t, night(), 0, time.Hour)
	views, _ := run(t, p, nas.LeastOutstanding, nil)
	never, _ := run(t, p, nas.LeastOutstanding, func(t *Test) { t.Settings.DeadTime = 0 })
	if dead := views[0].Servers[0].Dead; dead != 5 || views[0].Delayed >= never[0].Delayed/10 || never[0].Servers[0].Dead != 0 {
		t.Errorf("dead %d times, %d delayed, without dead time %d", dead, views[0].Delayed, never[0].Delayed)
	}
	if views[0].LetIn.Deny != 3600 {
		t.Errorf("%+v", views[0].Summary)
	}
}

func TestTheNASsOwnList(t *testing.T) {
	views, _ := run(t, past(t, night(), 0, time.Hour), nas.Strict, func(t *Test) { t.Servers, t.Users, t.Trace = []int{2, 0}, 10, true })
	if v := views[0]; v.Servers[0].Name != "ise-3" || v.Servers[1].Name != "ise-1" || len(v.Servers) != 2 || v.Delayed != 0 || len(v.Trace) != 3600 {
		t.Errorf("%+v", v.Servers)
	}
}

// With nobody left in the target group the NLB has nowhere to send to.
func TestAnEmptyTargetGroup(t *testing.T) {
	r := night()
	r.History.Changes = []store.Change{moved(0, nil, []string{"ise-1", "ise-2", "ise-3"})}
	views, _ := run(t, past(t, r, 0, time.Minute), nas.Strict, nil)
	if v := views[1]; v.Unanswered != 60 || v.Wait.P50MS != 6000 {
		t.Errorf("%+v", v.Summary)
	}
}

func TestBadSettings(t *testing.T) {
	if _, _, err := past(t, night(), 0, time.Hour).Run(Test{Servers: []int{0}, Logins: 1}); err == nil {
		t.Error("a test without settings")
	}
}
