package screen

import (
	"fmt"
	"strings"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
)

// Plan draws what a pass would do as a diff.
func (s Screen) Plan(p reconciler.PlanReport) string {
	parts := make([]string, len(p.Groups))
	for i, g := range p.Groups {
		parts[i] = s.groupPlan(g)
	}
	return strings.Join(parts, "\n")
}

func (s Screen) groupPlan(g reconciler.GroupPlan) string {
	var b strings.Builder
	open := ""
	if g.FailOpen {
		open = ", " + s.bad("FAIL-OPEN")
	}
	fmt.Fprintf(&b, "%s (%s)  %s, floor %d%s\n", s.bold(g.Group), s.modeWord(string(g.Mode)), operator.CaseWord(g.Case, g.FailOpen), g.Below, open)
	todo := false
	for _, tg := range g.TargetGroups {
		fmt.Fprintf(&b, "  target group %s\n", operator.TargetGroupName(tg.TargetGroup))
		if tg.Error != "" {
			b.WriteString(s.bad("  ! cannot be looked at: "+tg.Error) + "\n")
			continue
		}
		todo = todo || !tg.Empty()
		b.WriteString(s.changes(tg.Plan))
	}
	if todo && g.Mode == fleet.Observe {
		b.WriteString(s.doubt("  ! observe mode: a pass does none of this") + "\n")
	}
	return b.String()
}

func (s Screen) changes(p balancer.Plan) string {
	var rows [][]string
	row := func(sign, verb, target, server, reason string) {
		rows = append(rows, []string{"  " + sign, verb, target, server, reason})
	}
	list := func(sign, verb string, changes []balancer.Change) {
		for _, c := range changes {
			row(sign, verb, c.Target.String(), c.Server, visible(c.Reason))
		}
	}
	list(s.good("+"), "register", p.Register)
	list(s.bad("-"), "deregister", p.Deregister)
	list(s.doubt("~"), "withheld", p.Withheld)
	for _, r := range p.Refused {
		row(s.doubt("~"), "refused", "", r.Server, r.Reason)
	}
	for _, t := range p.Unmanaged {
		row(s.doubt("~"), "unmanaged", t.String(), "", "no configured server owns it; it is left alone")
	}
	for _, zone := range p.EmptiedZones {
		row(s.bad("!"), "zone", zone, "", "loses its last target: without cross-zone balancing the load balancer's DNS name loses the zone")
	}
	text := ""
	if p.Empty() {
		text = "    nothing to do\n"
	}
	if len(rows) == 0 {
		return text
	}
	return s.columnsOnly(rows) + text
}

// columnsOnly is a table without headers.
func (s Screen) columnsOnly(rows [][]string) string {
	_, text, _ := strings.Cut(s.columns(make([]string, len(rows[0])), rows), "\n")
	return text
}
