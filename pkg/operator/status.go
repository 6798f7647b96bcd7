package operator

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// drainWarning is how long before its end a drain is warned of.
const drainWarning = 15 * time.Minute

// Report says where a group stands, or all groups if the name is empty.
func (o *Operator) Report(ctx context.Context, group string) (Report, error) {
	groups, err := o.groups(group)
	if err != nil {
		return Report{}, err
	}
	r := Report{FleetVersion: o.Fleet.Version}
	for _, g := range groups {
		v, err := o.Viewer.View(ctx, g)
		if err != nil {
			return Report{}, fmt.Errorf("looking at group %s: %w", g.Name, err)
		}
		r.At = o.now().UTC() // after the newest row has been read
		r.Groups = append(r.Groups, newGroup(v, r.At))
	}
	return r, nil
}

// CaseWord is a case in a word. Where nobody is held in, an outage is only that too
// few servers have a verdict yet.
func CaseWord(c health.Case, failOpen bool) string {
	if c == health.CaseOutage && !failOpen {
		return "undecided"
	}
	return string(c)
}

// meaning says what a case means.
func meaning(c health.Case, failOpen bool) string {
	switch c {
	case health.CaseServing:
		return "enough servers are up"
	case health.CaseDoubt:
		return "servers that are up are failing right now: nobody is taken out until it is clear who is down"
	case health.CaseRecovering:
		return "too few servers are up: those in hold-down fill the gap"
	}
	if !failOpen {
		return "too few servers have a verdict: those without one stay as they are"
	}
	return "too few servers answer: bad ones stay in rather than leaving the load balancer empty"
}

func newGroup(v *reconciler.View, now time.Time) Group {
	d, remembered := v.Decision, v.Remembered.Group
	g := Group{
		Name: v.Group.Name, Mode: v.Group.Mode, Case: d.Case, Meaning: meaning(d.Case, d.FailOpen), Below: d.Below, FailOpen: d.FailOpen,
		NewestRound: present(v.Newest), Decided: present(remembered.Decided), Pass: remembered.Pass, PassError: remembered.PassError,
	}
	if d.FailOpen {
		g.FailOpenSince = present(remembered.FailOpenSince)
	}
	for _, plan := range v.TargetGroups {
		g.TargetGroups = append(g.TargetGroups, newTargetGroup(plan))
	}
	quiet := silent(v, now)
	for _, s := range v.Group.Servers {
		server := newServer(v, s, now, quiet)
		in := server.Registered == len(v.TargetGroups)
		if in {
			g.Registered++
		}
		if server.Membership == health.In || server.Membership == health.Keep && in {
			g.Desired++
		}
		g.Servers = append(g.Servers, server)
	}
	g.Warnings = warnings(v, g, now, quiet)
	return g
}

func newTargetGroup(plan reconciler.TargetGroupPlan) TargetGroup {
	t := TargetGroup{ARN: plan.TargetGroup, Name: TargetGroupName(plan.TargetGroup), Registered: len(plan.Registered), Error: plan.Error}
	for _, target := range plan.Unmanaged {
		t.Unmanaged = append(t.Unmanaged, target.String())
	}
	for _, l := range plan.Observed {
		if l.Server != "" && l.State == elbv2types.TargetHealthStateEnumDraining {
			t.Draining++
		}
	}
	return t
}

// TargetGroupName is the name in a target group's ARN
// (arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID).
func TargetGroupName(arn string) string {
	if parts := strings.Split(arn, "/"); len(parts) == 3 {
		return parts[1]
	}
	return arn
}

func newServer(v *reconciler.View, s fleet.Server, now time.Time, quiet bool) Server {
	verdict, _ := v.Decision.Verdict(s.Name)
	server := Server{
		Name: s.Name, Address: s.Address.String(), Standing: verdict.Standing, Row: verdict.Row, Membership: verdict.Membership, Reason: verdict.Reason,
	}
	for _, plan := range v.TargetGroups {
		if slices.Contains(plan.Registered, s.Name) {
			server.Registered++
		}
		for _, l := range plan.Observed {
			if l.Server == s.Name && l.State == elbv2types.TargetHealthStateEnumDraining {
				server.Draining++
			}
		}
	}
	for _, c := range s.Checks {
		server.Checks = append(server.Checks, newCheck(v, s, c))
	}
	p := prospect{now: now, silent: quiet, policy: v.Group.Health, verdict: verdict, decision: v.Decision}
	switch order, ordered := v.Remembered.Drains[s.Name]; {
	case verdict.Standing != health.StandingDrained:
		state := v.State(verdict.Row)
		server.Since, server.HeldUntil = present(state.Since), present(state.HeldUntil)
		_, p.check, _ = v.Group.Check(verdict.Row)
		p.row, p.state = v.Rows[verdict.Row], state
	case s.Admin == fleet.AdminOut:
		server.Drain = &Drain{Reason: "admin: out in fleet.yaml"}
	case ordered:
		server.Drain, p.drain = &Drain{Until: &order.Until, Reason: order.Reason}, &order
		server.Since = present(order.Since)
	}
	text, at := p.next()
	server.Next, server.NextAt = text, present(at)
	return server
}

func newCheck(v *reconciler.View, s fleet.Server, c fleet.Probe) Check {
	state, row := v.State(c.Row), v.Rows[c.Row]
	check := Check{
		Row: c.Row, Method: c.Method, Address: netip.AddrPortFrom(s.Address, c.Port).String(),
		Status: state.Status, Since: present(state.Since), HeldUntil: present(state.HeldUntil),
		Outcome: row.Outcome, Round: present(row.Round), Reason: row.Reason, ReplyMessage: row.ReplyMessage,
		ConsecutiveFailures: row.ConsecutiveFailures, ConsecutiveSuccesses: row.ConsecutiveSuccesses,
		LatencyMS: row.LatencyMS,
	}
	switch {
	case row.ConsecutiveFailures > 0:
		check.StreakSince = present(row.FailureSince)
	case row.ConsecutiveSuccesses > 0:
		check.StreakSince = present(row.SuccessSince)
	}
	var answered []float64
	for _, latency := range row.RecentLatencies() {
		ms := float64(latency) / float64(time.Millisecond)
		check.Recent = append(check.Recent, ms)
		if ms > 0 {
			answered = append(answered, ms)
		}
	}
	slices.Sort(answered)
	check.LatencyP50MS, check.LatencyP99MS = percentile(answered, 50), percentile(answered, 99)
	return check
}

// percentile is the nearest-rank percentile of sorted values; 0 of none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(p/100*float64(len(sorted))))-1]
}

// silent reports whether rows have stopped coming: none for three intervals and
// the time that a probe takes.
func silent(v *reconciler.View, now time.Time) bool {
	shortest := time.Duration(math.MaxInt64)
	for _, s := range v.Group.Servers {
		for _, c := range s.Checks {
			shortest = min(shortest, 3*c.Interval+c.Budget())
		}
	}
	return now.Sub(v.Newest) > shortest
}

// warnings are what an operator should know of a group beyond its servers.
func warnings(v *reconciler.View, g Group, now time.Time, quiet bool) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if g.Mode == fleet.Observe {
		add("observe mode: it decides and records, and changes nothing")
	}
	switch {
	case v.Newest.IsZero() && v.Unreadable == nil && len(v.Future) == 0:
		add("no probe of this group is recorded: does the prober run, and with this fleet.yaml?")
	case quiet && !v.Newest.IsZero():
		add("the prober is silent: the newest probe is %s old; nobody is moved meanwhile", Short(now.Sub(v.Newest)))
	}
	switch {
	case g.PassError != "":
		add("the last pass over the target groups failed: %s", g.PassError)
	case g.Pass == store.PassPending:
		add("the newest decision is not carried out yet")
	}
	list = append(list, unusable(v)...)
	for _, plan := range v.TargetGroups {
		name := TargetGroupName(plan.TargetGroup)
		if plan.Error != "" {
			add("target group %s cannot be looked at: %s", name, plan.Error)
		}
		for _, c := range plan.Withheld {
			add("%v stays in %s: %s", c.Target, name, c.Reason)
		}
		for _, r := range plan.Refused {
			add("%s cannot be registered in %s: %s", r.Server, name, r.Reason)
		}
	}
	for _, s := range g.Servers {
		if s.Drain != nil && s.Drain.Until != nil && s.Drain.Until.Sub(now) <= drainWarning {
			add("the drain of %s ends in %s", s.Name, Short(s.Drain.Until.Sub(now)))
		}
	}
	return list
}

// unusable tells of the rows that nothing can be made of.
func unusable(v *reconciler.View) []string {
	var list []string
	if v.Unreadable != nil {
		list = append(list, "rows of table probes cannot be read: "+oneLine(v.Unreadable))
	}
	for _, row := range v.Future {
		list = append(list, "the round of row "+row+" in table probes is in the future, so that no newer one is taken: delete the row")
	}
	for _, server := range slices.Sorted(maps.Keys(v.Remembered.Unreadable)) {
		list = append(list, "a row of table health cannot be read, its server stays as it is: "+oneLine(v.Remembered.Unreadable[server]))
	}
	return list
}

// oneLine is an error's text without line breaks, which joined errors have.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Well reports whether nothing needs attention: every server is up or drained,
// and where it should be, and there is no warning.
func (r Report) Well() bool {
	for _, g := range r.Groups {
		for _, s := range g.Servers {
			in := s.Registered == len(g.TargetGroups)
			well := s.Standing == health.StandingSolid && in || s.Standing == health.StandingDrained && s.Registered == 0
			if !well || len(g.Warnings) > 0 {
				return false
			}
		}
	}
	return true
}

// Plan is what a pass over a group would do now, or over all if the name is
// empty.
func (o *Operator) Plan(ctx context.Context, group string) (reconciler.PlanReport, error) {
	groups, err := o.groups(group)
	if err != nil {
		return reconciler.PlanReport{}, err
	}
	plan := reconciler.PlanReport{FleetVersion: o.Fleet.Version}
	for _, g := range groups {
		v, err := o.Viewer.View(ctx, g)
		if err != nil {
			return reconciler.PlanReport{}, fmt.Errorf("looking at group %s: %w", g.Name, err)
		}
		plan.Groups = append(plan.Groups, v.Plan())
	}
	return plan, nil
}
