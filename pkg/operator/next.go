package operator

import (
	"fmt"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// prospect is what the next change of a server depends on.
type prospect struct {
	now      time.Time
	silent   bool // no server of the group is being probed
	policy   health.Policy
	check    fleet.Probe // that the standing comes from
	row      store.ProbeRow
	state    health.State
	verdict  health.Verdict
	decision health.Decision
	drain    *store.Drain // nil without an order
}

// next says which change of a server can come next, and when at the earliest;
// the zero time where nothing can be said of that.
func (p prospect) next() (text string, at time.Time) {
	switch {
	case p.verdict.Standing == health.StandingDrained && p.drain == nil:
		return "stays out until admin: out leaves fleet.yaml", time.Time{}
	case p.verdict.Standing == health.StandingDrained:
		return "the drain ends in " + Short(p.drain.Until.Sub(p.now)) + "; then its state counts again", p.drain.Until
	case p.verdict.Row == "":
		return "stays as it is until its row in table health is mended", time.Time{}
	case p.silent:
		return "no change until probes are recorded again", time.Time{}
	}
	switch p.verdict.Standing {
	case health.StandingStale:
		return "stays as it is until a probe says something about the server", time.Time{}
	case health.StandingSolid:
		return fmt.Sprintf("down after %s in a row", count(p.policy.FailureThreshold, "failed probe", "failed probes")), time.Time{}
	case health.StandingInDoubt:
		return p.falls()
	case health.StandingUnknown:
		if p.row.ConsecutiveFailures > 0 {
			text, at = p.falls()
			return text + ", or up on the next success", at
		}
		return "up as soon as the reconciler reads its success", time.Time{}
	case health.StandingHoldDown:
		return p.proves()
	}
	return p.recovers()
}

// falls is the way of a server that fails and is not down yet.
func (p prospect) falls() (string, time.Time) {
	left := p.policy.FailureThreshold - p.row.ConsecutiveFailures
	if left <= 0 {
		return "down as soon as the reconciler reads the last failure", time.Time{}
	}
	// The end of each failed probe is followed by a fast one.
	took := time.Duration(0)
	if p.row.Outcome == health.Timeout {
		took = p.check.Budget()
	}
	at := p.row.LastFailure.Add(took + time.Duration(left)*(p.check.FastInterval+took))
	return fmt.Sprintf("down after %s (about %s)", count(left, "more failure", "more failures"), Short(at.Sub(p.now))), at
}

// proves is the way of a server in hold-down.
func (p prospect) proves() (string, time.Time) {
	held := ""
	if p.verdict.Membership == health.In {
		held = "held in by fail-open; "
	}
	switch {
	case p.row.ConsecutiveFailures > 0 && p.row.LastFailure.After(p.state.Since):
		return held + "down as soon as the reconciler reads the last failure", time.Time{}
	case !p.now.Before(p.state.HeldUntil):
		return held + "up on the next success", p.tick()
	}
	return held + "up in " + Short(p.state.HeldUntil.Sub(p.now)) + " if it keeps answering", p.state.HeldUntil
}

// recovers is the way of a server that is down.
func (p prospect) recovers() (string, time.Time) {
	own := "in hold-down on the next success"
	hold := max(p.policy.HoldDown, min(p.state.HoldDown, p.policy.HoldDownMax))
	switch p.verdict.Membership {
	case health.In:
		need := max(1, p.decision.Below-p.decision.Count(health.StandingSolid, health.StandingHoldDown))
		return fmt.Sprintf("held in by fail-open until %s well again; %s", count(need, "more server is", "more servers are"), own), p.tick()
	case health.Keep:
		return "kept until the servers that are up stop failing; " + own, p.tick()
	}
	return fmt.Sprintf("%s, up %s after that", own, Short(hold)), p.tick()
}

// tick is when the check is made next; zero if that is past.
func (p prospect) tick() time.Time {
	if p.check.Interval <= 0 {
		return time.Time{}
	}
	at := p.row.Round.Truncate(p.check.Interval).Add(p.check.Interval)
	if at.Before(p.now) {
		return time.Time{}
	}
	return at
}
