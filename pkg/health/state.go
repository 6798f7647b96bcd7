package health

import "time"

// Status is where a server stands.
type Status string

// The statuses of a server.
const (
	Unknown  Status = "unknown"  // no verdict yet
	Up       Status = "up"       // authenticates
	Down     Status = "down"     // failed FailureThreshold probes in a row
	HoldDown Status = "holddown" // answers again, must prove it until HeldUntil
)

// Policy holds the thresholds of the state machine.
type Policy struct {
	FailureThreshold int           // failed probes in a row that make a server down, at least 1
	HoldDown         time.Duration // unbroken success before a server that was down comes back
	HoldDownMax      time.Duration // longest hold-down of a flapping server
}

// Observation is the image of a row of table probes: the newest probe of a
// server and the streak that it belongs to.
type Observation struct {
	Round                time.Time // of the newest probe, conclusive or not
	Outcome              Outcome   // of the newest probe
	ConsecutiveFailures  int       // length of the running streak of failures, 0 if none
	ConsecutiveSuccesses int       // length of the running streak of successes, 0 if none
	FailureSince         time.Time // round that began the running streak of failures
	SuccessSince         time.Time // round that began the running streak of successes
	LastSuccess          time.Time // newest round that was a success, zero if none
	LastFailure          time.Time // newest round that was a failure, zero if none
}

// Evidence returns the newest conclusive result and its round. A probe that
// was no evidence leaves both as they were before it.
func (o Observation) Evidence() (Evidence, time.Time) {
	switch {
	case o.ConsecutiveFailures > 0:
		return Failure, o.LastFailure
	case o.ConsecutiveSuccesses > 0:
		return Success, o.LastSuccess
	}
	return NoEvidence, time.Time{}
}

// State is what is remembered of a server between records. It changes only by
// a transition. The zero State is Unknown.
type State struct {
	Status    Status        // empty means Unknown
	Since     time.Time     // round of the evidence that made the last transition
	HeldUntil time.Time     // end of the hold-down; zero unless Status is HoldDown
	HoldDown  time.Duration // length of the current or last hold-down; 0 if the server never fell
}

// Rule names the line of the state machine that made a transition.
type Rule string

// The rules of the state machine.
const (
	RuleFirstSuccess Rule = "first success"
	RuleThreshold    Rule = "failure threshold reached"
	RuleRecovered    Rule = "success while down"
	RuleRelapsed     Rule = "failure during hold-down"
	RuleRestarted    Rule = "hold-down restarted by a failure in between"
	RuleProven       Rule = "success after hold-down"
)

// Transition is one change of a server's status, with its cause.
type Transition struct {
	From, To  Status
	At        time.Time // round of the evidence
	Rule      Rule
	Outcome   Outcome   // outcome of the record's newest probe
	HeldUntil time.Time // end of the hold-down that begins, else zero
}

// Advance applies one observation to the state of a server. It returns the new
// state and the transition, or the state unchanged and nil. Evidence that is
// not newer than the state's Since changes nothing, so records may be replayed.
func Advance(p Policy, s State, o Observation) (State, *Transition) {
	if s.Status == "" {
		s.Status = Unknown
	}
	evidence, at := o.Evidence()
	if evidence == NoEvidence || !at.After(s.Since) {
		return s, nil
	}
	next, rule := p.step(s, o, evidence, at)
	if rule == "" {
		return s, nil
	}
	next.Since = at
	return next, &Transition{
		From: s.Status, To: next.Status, At: at, Rule: rule, Outcome: o.Outcome, HeldUntil: next.HeldUntil,
	}
}

// step returns the state after the evidence and the rule that fired, "" if none.
func (p Policy) step(s State, o Observation, evidence Evidence, at time.Time) (State, Rule) {
	fell := evidence == Failure && o.ConsecutiveFailures >= p.FailureThreshold
	switch s.Status {
	case Unknown, Up:
		switch {
		case fell:
			return State{Status: Down, HoldDown: p.afterFall(s, at)}, RuleThreshold
		case evidence == Success && s.Status == Unknown:
			return State{Status: Up, HoldDown: s.HoldDown}, RuleFirstSuccess
		}
	case Down:
		if evidence == Success {
			return p.hold(s, o), RuleRecovered
		}
	case HoldDown:
		switch {
		case evidence == Failure:
			return State{Status: Down, HoldDown: s.HoldDown}, RuleRelapsed
		case o.SuccessSince.After(s.Since):
			// The streak is younger than the hold-down: the record of the failure
			// that broke it was lost.
			return p.hold(s, o), RuleRestarted
		case !at.Before(s.HeldUntil):
			return State{Status: Up, HoldDown: s.HoldDown}, RuleProven
		}
	}
	return s, ""
}

// hold begins a hold-down that counts from the start of the success streak.
func (p Policy) hold(s State, o Observation) State {
	d := p.clamp(s.HoldDown)
	return State{Status: HoldDown, HoldDown: d, HeldUntil: o.SuccessSince.Add(d)}
}

// afterFall is the hold-down that a server earns by falling at the given round:
// doubled when it falls again within HoldDownMax of coming up.
func (p Policy) afterFall(s State, at time.Time) time.Duration {
	if s.Status == Up && s.HoldDown > 0 && at.Sub(s.Since) <= p.HoldDownMax {
		return p.clamp(2 * s.HoldDown)
	}
	return p.HoldDown
}

// clamp keeps a remembered hold-down within a policy that may have changed.
func (p Policy) clamp(d time.Duration) time.Duration {
	return max(p.HoldDown, min(d, p.HoldDownMax))
}
