package screen

import (
	"fmt"

	"radwitness/pkg/health"
	"radwitness/pkg/operator"
)

// Carried draws what became of an order.
func (s Screen) Carried(c operator.Carried) string {
	name := s.bold(c.Group + "/" + c.Server)
	text := name + " is drained no more\n"
	if c.Drained {
		text = fmt.Sprintf("%s is drained until %s: %s\n", name, c.Until.In(s.Location).Format("2006-01-02 15:04:05 MST"), visible(c.Reason))
	}
	groups := fmt.Sprintf("%d target groups", c.TargetGroups)
	if c.TargetGroups == 1 {
		groups = "its target group"
	}
	switch {
	case !c.Done:
		text += s.doubt(fmt.Sprintf("not done after %.1f s (in %d of %d target groups): %s", c.TookSeconds, c.Registered, c.TargetGroups, visible(c.Note))) + "\n"
	case c.Drained:
		text += s.good(fmt.Sprintf("out of %s after %.1f s", groups, c.TookSeconds)) + "\n"
	case c.Membership == health.In:
		text += s.good(fmt.Sprintf("in %s after %.1f s", groups, c.TookSeconds)) + "\n"
	default:
		text += s.doubt(fmt.Sprintf("in %d of %d target groups: %s", c.Registered, c.TargetGroups, visible(c.Note))) + "\n"
	}
	return text
}
