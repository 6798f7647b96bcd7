package doctor

import (
	"slices"
	"strings"
	"time"

	"radwitness/pkg/health"
)

const (
	// silence is how old a group's newest round may get: the alarm no-fresh-probe
	// rings after as long.
	silence = 3 * time.Minute
	// maxSkew is how far in the future a round may be before the reconciler skips it.
	maxSkew = 5 * time.Minute
)

const pageDeploy = "docs/deploy.md"

func probeChecks() []Check {
	return []Check{
		{
			Name:     "probes",
			Looks:    "The newest probe of the group is less than 3 minutes old.",
			Why:      "Membership stays as it is, and nobody notices an outage.",
			Mend:     "Look at the prober's log: aws logs tail /aws/lambda/{STACK}-prober --since 10m",
			Source:   pageDeploy,
			subjects: ofGroups(checkProbes),
		},
		{
			Name:  "future-rounds",
			Looks: "No probe is from the future.",
			Why:   "The reconciler skips a record that is more than 5 minutes ahead of its clock.",
			Mend: "Somebody probes with a wrong clock, or has changed the row by hand: delete it, and the next round writes it anew: aws " +
				"dynamodb delete-item --table-name {TABLE} --key with group and server",
			Source:   pageDeploy,
			subjects: ofGroups(checkFuture),
		},
		{
			Name:     "never-probed",
			Looks:    "Every check of every server has been probed.",
			Why:      "A server without a verdict stays where it is.",
			Mend:     "Wait a minute after a deployment, or deploy this fleet file: make deploy",
			Source:   pageDeploy,
			subjects: ofGroups(checkNeverProbed),
		},
		{
			Name:     "prober-error",
			Looks:    "The prober could make its newest probes.",
			Why:      "A probe that could not be made (secret, route, socket) is no evidence: the server stays where it is.",
			Mend:     "Mend what the reason names: the prober's permissions, endpoints or security group",
			Source:   pageDeploy,
			subjects: ofGroups(checkProberError),
		},
		{
			Name:     "unreadable-rows",
			Looks:    "All rows of table health can be read.",
			Why:      "A server whose row cannot be read stays where it is until somebody mends it.",
			Mend:     "Mend the row in the DynamoDB console, or delete it: the server then begins anew as unknown",
			Source:   "README.md",
			subjects: ofGroups(checkUnreadable),
		},
		{
			Name:     "passes",
			Looks:    "The reconciler has passed over the group's target groups within five times reconcile_interval, at least 5 minutes.",
			Why:      "Membership stays as it is, whatever the probes say.",
			Mend:     "Look at the reconciler's log: aws logs tail /aws/lambda/{STACK}-reconciler --since 10m",
			Source:   pageDeploy,
			subjects: ofGroups(checkPasses),
		},
		{
			Name:     "pass-failed",
			Looks:    "The newest pass over the target groups succeeded.",
			Why:      "A target group is not as the decision wants it.",
			Mend:     "Mend what the error names, and see what plan would do: radwitness plan -group {GROUP}",
			Source:   pageDeploy,
			subjects: ofGroups(checkPassFailed),
		},
	}
}

func checkProbes(f *Facts, g *Group) []verdict {
	if g.Rows == nil || f.silenced() {
		return nil
	}
	newest := g.newest(f.At)
	switch age := f.At.Sub(newest); {
	case newest.IsZero():
		return []verdict{fail("no server was ever probed")}
	case age > silence:
		return []verdict{fail("the newest probe is %v old", age.Round(time.Second))}
	default:
		return []verdict{ok("the newest probe is less than %v old", silence)}
	}
}

func checkFuture(f *Facts, g *Group) []verdict {
	if g.Rows == nil {
		return nil
	}
	var ahead []string
	for name, row := range g.Rows {
		if row.Round.After(f.At.Add(maxSkew)) {
			ahead = append(ahead, name+" at "+row.Round.UTC().Format(time.RFC3339))
		}
	}
	slices.Sort(ahead)
	if ahead != nil {
		return []verdict{fail("from the future: %s", strings.Join(ahead, ", "))}
	}
	return []verdict{ok("none")}
}

// rows lists the rows that the checks of a group should have and that fit.
func (g *Group) rows(fits func(row string) bool) []string {
	var rows []string
	for _, s := range g.Servers {
		for _, c := range s.Checks {
			if fits(c.Row) {
				rows = append(rows, c.Row)
			}
		}
	}
	return rows
}

func checkNeverProbed(_ *Facts, g *Group) []verdict {
	if len(g.Rows) == 0 {
		return nil // not read, or probes says so
	}
	never := g.rows(func(row string) bool { _, probed := g.Rows[row]; return !probed })
	if never != nil {
		return []verdict{warn("never probed: %s", strings.Join(never, ", "))}
	}
	return []verdict{ok("all have been probed")}
}

func checkProberError(_ *Facts, g *Group) []verdict {
	if len(g.Rows) == 0 {
		return nil
	}
	var list []verdict
	for _, row := range g.rows(func(row string) bool { return g.Rows[row].Outcome == health.ProberError }) {
		list = append(list, fail("%s: %s", row, g.Rows[row].Reason))
	}
	if list == nil {
		list = append(list, ok("none"))
	}
	return list
}

func checkUnreadable(_ *Facts, g *Group) []verdict {
	if g.Remembered == nil {
		return nil
	}
	var list []verdict
	for _, s := range g.Servers {
		for _, name := range append([]string{s.Name}, g.rows(func(row string) bool { return strings.HasPrefix(row, s.Name+"/") })...) {
			if err := g.Remembered.Unreadable[name]; err != nil {
				list = append(list, fail("%v", err))
			}
		}
	}
	if list == nil {
		list = append(list, ok("all can be read"))
	}
	return list
}

func checkPasses(f *Facts, g *Group) []verdict {
	if g.Passes == nil || f.idle() || f.silenced() || f.At.Sub(g.newest(f.At)) > silence {
		return nil // without records there are no passes
	}
	if *g.Passes == 0 {
		return []verdict{fail("none in the last %v", passesAge(g.Group))}
	}
	return []verdict{ok("%.0f in the last %v", *g.Passes, passesAge(g.Group))}
}

func checkPassFailed(_ *Facts, g *Group) []verdict {
	if g.Remembered == nil || g.Remembered.Group.Pass == "" {
		return nil
	}
	if reason := g.Remembered.Group.PassError; reason != "" {
		return []verdict{fail("%s", reason)}
	}
	return []verdict{ok("it did")}
}
