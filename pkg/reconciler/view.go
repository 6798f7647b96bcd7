package reconciler

import (
	"context"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// View is all that a decision about a group rests on, the decision, and what a
// pass would do now.
type View struct {
	Group        fleet.Group
	Rows         map[string]store.ProbeRow // of the checks at their present addresses
	Unreadable   error                     // rows of table probes that cannot be read; nil if there are none
	Future       []string                  // rows of table probes whose round is in the future: they say nothing
	Remembered   store.GroupHealth
	Newest       time.Time       // round of any server; zero if none was probed
	Members      []health.Member // in the order of the fleet
	Decision     health.Decision
	TargetGroups []TargetGroupPlan // in the order of the fleet
}

// View looks at a group as a pass does. It changes nothing.
func (r *Reconciler) View(ctx context.Context, g fleet.Group) (*View, error) {
	v, err := r.read(ctx, g)
	if err != nil {
		return nil, err
	}
	out := &View{Group: g, Rows: v.rows, Unreadable: v.unread, Future: v.future, Remembered: v.remember, Newest: v.newest(), Members: v.members()}
	out.Decision = health.Decide(g.Below, out.Members)
	for _, tg := range g.TargetGroups {
		plan, err := r.Balancer.Plan(ctx, g, tg, out.Decision)
		t := TargetGroupPlan{Plan: plan}
		if err != nil {
			t.TargetGroup, t.Error = tg.ARN, err.Error()
		}
		out.TargetGroups = append(out.TargetGroups, t)
	}
	return out, nil
}

// State is where a check stands.
func (v *View) State(row string) health.State {
	state := v.Remembered.States[row]
	if state.Status == "" {
		state.Status = health.Unknown
	}
	return state
}

// Plan is what a pass would do, without what it rests on.
func (v *View) Plan() GroupPlan {
	d := v.Decision
	p := GroupPlan{Group: v.Group.Name, Mode: v.Group.Mode, Case: d.Case, Below: d.Below, FailOpen: d.FailOpen, TargetGroups: v.TargetGroups}
	for _, verdict := range d.Verdicts {
		s := ServerPlan{Server: verdict.Server, Membership: verdict.Membership, Reason: verdict.Reason}
		server, _ := v.Group.Server(verdict.Server)
		for _, c := range server.Checks {
			state, row := v.State(c.Row), v.Rows[c.Row]
			s.Checks = append(s.Checks, CheckState{
				Row: c.Row, Method: c.Method, Status: state.Status, Since: present(state.Since),
				HeldUntil: present(state.HeldUntil), Outcome: row.Outcome, Round: present(row.Round),
			})
		}
		p.Servers = append(p.Servers, s)
	}
	return p
}
