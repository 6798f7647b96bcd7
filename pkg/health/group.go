package health

import (
	"slices"
	"strings"
	"time"
)

// Member is one server of a group as the group decision sees it.
type Member struct {
	Server     string
	Checks     []Check // at least one; the worst of them is the server's standing
	Drained    string  // why an operator has taken it out; empty if none did
	Unreadable string  // why nothing is known of it; empty if all could be read
}

// Check is one of a member's checks, with its own row and its own state.
type Check struct {
	Row         string
	State       State
	Observation Observation   // newest image of its row; zero if it was never probed
	StaleAfter  time.Duration // age of its newest conclusive result, against the group's newest round, past which it says nothing
}

// Membership is what the decision wants for a server.
type Membership string

// The three memberships.
const (
	In   Membership = "in"
	Out  Membership = "out"
	Keep Membership = "keep" // no evidence, no change: stay as it is
)

// Case is the row of the group decision's table that applies.
type Case string

// The cases, from all well to nobody answers.
const (
	CaseServing    Case = "serving"    // enough servers are solidly up
	CaseDoubt      Case = "doubt"      // enough are up, but some of them are failing right now
	CaseRecovering Case = "recovering" // too few are up; those in hold-down fill the gap
	CaseOutage     Case = "outage"     // too few answer at all
)

// Standing is the class of a server in the group decision.
type Standing string

// The standings. Solid and InDoubt both are up.
const (
	StandingDrained  Standing = "drained"
	StandingStale    Standing = "stale"
	StandingUnknown  Standing = "unknown"
	StandingSolid    Standing = "up"
	StandingInDoubt  Standing = "up, failing"
	StandingHoldDown Standing = "holddown"
	StandingDown     Standing = "down"
)

// Verdict is the decision for one server.
type Verdict struct {
	Server     string
	Membership Membership
	Standing   Standing
	Reason     string
	Row        string // of the check that the standing comes from; empty if it comes from none
}

// Decision is what a group should look like, and why.
type Decision struct {
	Case     Case
	Below    int  // the floor that was applied; 0 means fail closed
	FailOpen bool // a server is held in that would be out
	Verdicts []Verdict
}

// Count returns how many servers have one of the standings.
func (d Decision) Count(standings ...Standing) int {
	n := 0
	for _, v := range d.Verdicts {
		if slices.Contains(standings, v.Standing) {
			n++
		}
	}
	return n
}

// Verdict returns the verdict for a server; false if it is not in the decision.
func (d Decision) Verdict(server string) (Verdict, bool) {
	for _, v := range d.Verdicts {
		if v.Server == server {
			return v, true
		}
	}
	return Verdict{}, false
}

// Decide gives each member its place. below is the number of servers under
// which the group fails open; 0 fails closed. Staleness is measured against the
// newest round in the group, so a prober that stopped makes nobody stale. The
// verdicts are sorted by server.
func Decide(below int, members []Member) Decision {
	var newest time.Time
	for _, m := range members {
		for _, c := range m.Checks {
			if c.Observation.Round.After(newest) {
				newest = c.Observation.Round
			}
		}
	}
	d := Decision{Below: below, Verdicts: make([]Verdict, 0, len(members))}
	cause := map[string]string{} // the check that each server's standing comes from, where it has several
	held := 0
	for _, m := range members {
		standing, row := m.standing(newest)
		reason := m.Drained
		if reason == "" {
			reason = m.Unreadable
		}
		if standing == StandingHoldDown && m.answers(newest) {
			held++
		}
		d.Verdicts = append(d.Verdicts, Verdict{Server: m.Server, Standing: standing, Reason: reason, Row: row})
		if len(m.Checks) > 1 && row != "" && standing != StandingSolid {
			cause[m.Server] = " (" + row + ")"
		}
	}
	slices.SortFunc(d.Verdicts, func(a, b Verdict) int { return strings.Compare(a.Server, b.Server) })

	solid := d.Count(StandingSolid)
	up := solid + d.Count(StandingInDoubt)
	switch {
	case solid >= below:
		d.Case = CaseServing
	case up >= below:
		d.Case = CaseDoubt
	case up+held >= below:
		d.Case = CaseRecovering
	default:
		d.Case = CaseOutage
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		var reason string
		v.Membership, reason = place(d.Case, v.Standing, solid+held >= below)
		if v.Reason == "" {
			v.Reason = reason + cause[v.Server]
		}
		if v.Membership == In && (v.Standing == StandingHoldDown || v.Standing == StandingDown) {
			d.FailOpen = true
		}
	}
	return d
}

// severity orders the standings that a check can have, worst first.
func severity() []Standing {
	return []Standing{StandingDown, StandingHoldDown, StandingStale, StandingUnknown, StandingInDoubt, StandingSolid}
}

// standing classifies a member against the newest round of its group: by the
// worst of its checks, whose row it returns.
func (m Member) standing(newest time.Time) (Standing, string) {
	switch {
	case m.Drained != "":
		return StandingDrained, ""
	case m.Unreadable != "":
		return StandingStale, ""
	}
	worst, row := StandingUnknown, ""
	for i, c := range m.Checks {
		s := c.standing(newest)
		if i == 0 || slices.Index(severity(), s) < slices.Index(severity(), worst) {
			worst, row = s, c.Row
		}
	}
	return worst, row
}

// answers tells whether all checks of a member pass right now, be it in
// hold-down. Only then is a member in hold-down one to lean on.
func (m Member) answers(newest time.Time) bool {
	return !slices.ContainsFunc(m.Checks, func(c Check) bool {
		s := c.standing(newest)
		return s != StandingHoldDown && s != StandingSolid
	})
}

// standing classifies a check against the newest round of its group.
func (c Check) standing(newest time.Time) Standing {
	evidence, at := c.Observation.Evidence()
	if evidence == NoEvidence || newest.Sub(at) > c.StaleAfter {
		return StandingStale
	}
	switch c.State.Status {
	case Up:
		if evidence == Failure {
			return StandingInDoubt
		}
		return StandingSolid
	case HoldDown:
		return StandingHoldDown
	case Down:
		return StandingDown
	}
	return StandingUnknown
}

// place is the table of the group decision. firm says that enough servers are
// solidly up or in hold-down: those that are up but failing are nothing to lean
// on when a server that is down leaves.
func place(c Case, s Standing, firm bool) (Membership, string) {
	switch s {
	case StandingDrained:
		return Out, "drained"
	case StandingSolid, StandingInDoubt:
		return In, "up"
	case StandingUnknown:
		return Keep, "no verdict yet"
	case StandingStale:
		return Keep, "no conclusive result lately"
	}
	switch {
	case c == CaseDoubt, c == CaseRecovering && s == StandingDown && !firm:
		return Keep, "kept: servers that are up are failing right now, the cause may be a common one"
	case c == CaseOutage:
		return In, "fail-open: too few servers answer"
	case c == CaseRecovering && s == StandingHoldDown:
		return In, "fail-open: too few servers are up, this one answers again"
	case s == StandingHoldDown:
		return Out, "in hold-down"
	}
	return Out, "down"
}
