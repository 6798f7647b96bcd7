// Package replay lets a NAS live through what is recorded of a group: how long
// users waited, and who was not let in, if the NAS lists all servers itself, and
// if it stands behind the NLB whose target groups followed the decisions.
package replay

import (
	"fmt"
	"slices"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/nas"
	"radwitness/pkg/store"
)

// initial is how long the NLB does not send anything to a new target, for which
// it makes its own first checks. AWS says minutes; it is measured as about 2 to 3.
const initial = 150 * time.Second

// Record is what is recorded of a group.
type Record struct {
	Group   fleet.Group
	History store.History             // since long before the time to replay: what was before its first line is guessed
	Health  store.GroupHealth         // as it is now
	Probes  map[string]store.ProbeRow // as they are now, by row; nil if they are not known
}

// Past is what happened to a group in a time.
type Past struct {
	From, To time.Time
	Notes    []string // what limits the evidence

	group   fleet.Group
	servers []server // as in the group
}

// server is the past of a server.
type server struct {
	fleet.Server
	check    fleet.Probe            // that stands for its users
	answers  course[health.Outcome] // to users
	target   course[bool]           // it is registered
	receives course[bool]           // and gets new flows
}

// healthy is what the server answers when it is well.
func (s server) healthy() health.Outcome {
	if len(s.check.Criteria.HealthyOn) > 0 {
		return s.check.Criteria.HealthyOn[0]
	}
	return health.Accept
}

// New reads the past out of a record. The time begins later where the record
// does: before the first target of the group was registered there is nothing to
// replay.
func New(r Record, from, to time.Time) (*Past, error) {
	p := &Past{From: from, To: to, group: r.Group, servers: make([]server, len(r.Group.Servers))}
	for i, s := range r.Group.Servers {
		check, ok := s.UserCheck()
		if !ok {
			return nil, fmt.Errorf("server %s of group %s has no check that authenticates a user", s.Name, r.Group.Name)
		}
		p.servers[i] = server{Server: s, check: check}
		p.readAnswers(&p.servers[i], r)
	}
	p.readTargets(r)
	if begin, ok := p.beginning(r.History); ok && begin.After(p.From) {
		p.From = begin
		p.Notes = append(p.Notes, "the record begins at "+begin.UTC().Format(time.RFC3339))
	}
	if !p.From.Before(p.To) {
		return nil, fmt.Errorf("nothing is recorded of group %s before %s", r.Group.Name, to.UTC().Format(time.RFC3339))
	}
	if r.Group.Mode == fleet.Observe {
		p.Notes = append(p.Notes, "the group is in observe mode: its target groups do not follow the decisions")
	}
	return p, nil
}

// beginning is when the group began to be watched; false if that was before all
// records.
func (p *Past) beginning(h store.History) (time.Time, bool) {
	if len(h.Transitions) == 0 || h.Transitions[0].From != string(health.Unknown) {
		return time.Time{}, false
	}
	begin := h.Transitions[0].At
	if slices.ContainsFunc(p.servers, func(s server) bool { return s.target.at(begin) }) {
		return begin, true
	}
	for _, c := range h.Changes {
		if len(c.Registered) > 0 {
			return c.At, true
		}
	}
	return begin, true
}

// readAnswers reads how a server answered users. It is taken to be failing from
// the first failed probe on, not from the one that made it down.
func (p *Past) readAnswers(s *server, r Record) {
	s.answers.begin = s.healthy()
	seen, latest := false, time.Time{}
	for _, t := range r.History.Transitions {
		if t.Server != s.check.Row || t.Rule == store.RuleOrder || t.Address != "" && t.Address != s.Address.String() {
			continue
		}
		if !seen && t.From == string(health.Down) {
			p.guess(s)
		}
		if t.To == string(health.Down) {
			began := p.began(s, t, r.Probes[s.check.Row])
			if began.Before(latest) {
				began = latest
			}
			s.answers.set(began, t.Outcome)
		} else {
			s.answers.set(t.At, s.healthy())
		}
		seen, latest = true, t.At
	}
	if !seen && r.Health.States[s.check.Row].Status == health.Down {
		p.guess(s)
	}
}

// guess takes a server for silent whose fall is older than the history.
func (p *Past) guess(s *server) {
	s.answers.begin = health.Timeout
	p.Notes = append(p.Notes, fmt.Sprintf("server %s was down before the record begins: it is taken to have been silent", s.Name))
}

// began is the round of the first of the failed probes that made the server
// down. The row knows it of the running streak; else it follows from the pace
// of the probes.
func (p *Past) began(s *server, t store.Transition, row store.ProbeRow) time.Time {
	if row.ConsecutiveFailures > 0 && !row.FailureSince.After(t.At) {
		return row.FailureSince
	}
	if t.Rule != string(health.RuleThreshold) {
		return t.At // one failure was enough
	}
	pace := s.check.FastInterval
	if nas.Hears(t.Outcome) == nas.Silence {
		pace += s.check.Budget()
	}
	return t.At.Add(-time.Duration(p.group.Health.FailureThreshold-1) * pace)
}

// readTargets reads which servers were registered, in the first of the group's
// target groups: all of them follow the same decisions.
func (p *Past) readTargets(r Record) {
	for i := range p.servers {
		s := &p.servers[i]
		moved := func(moves []store.Move) bool {
			return slices.ContainsFunc(moves, func(m store.Move) bool { return m.Server == s.Name })
		}
		seen := false
		for _, c := range r.History.Changes {
			in, out := moved(c.Registered), moved(c.Deregistered)
			if c.TargetGroup != p.group.TargetGroups[0].ARN || in == out {
				continue
			}
			if !seen {
				s.target.begin, s.receives.begin, seen = out, out, true
			}
			s.target.set(c.At, in)
			if in {
				s.receives.set(c.At.Add(initial), true)
			} else {
				s.receives.set(c.At, false)
			}
		}
		if !seen {
			in := r.Health.Group.Members[s.Name] != health.Out
			s.target.begin, s.receives.begin = in, in
		}
	}
}

// behind lists the servers to which the NLB sends new flows: registered, and not
// new; with none of those all that are registered.
func (p *Past) behind(t time.Time) []int {
	var receiving, registered []int
	for i := range p.servers {
		if p.servers[i].receives.at(t) {
			receiving = append(receiving, i)
		}
		if p.servers[i].target.at(t) {
			registered = append(registered, i)
		}
	}
	if len(receiving) > 0 {
		return receiving
	}
	return registered
}

// outage is a time in which a server did not answer as it should.
type outage struct {
	from, to time.Time
	failing  []string
}

// outages lists the outages, those that overlap as one.
func (p *Past) outages() []outage {
	var all []outage
	for i := range p.servers {
		s := &p.servers[i]
		begin, how := p.From, s.answers.at(p.From)
		end := func(at time.Time) {
			if how != s.healthy() && begin.Before(at) {
				all = append(all, outage{begin, at, []string{s.Name + " " + string(how)}})
			}
		}
		for _, c := range s.answers.changes {
			if c.at.After(p.From) && c.at.Before(p.To) {
				end(c.at)
				begin, how = c.at, c.value
			}
		}
		end(p.To)
	}
	slices.SortStableFunc(all, func(a, b outage) int { return a.from.Compare(b.from) })
	var merged []outage
	for _, o := range all {
		if n := len(merged); n == 0 || o.from.After(merged[n-1].to) {
			merged = append(merged, o)
			continue
		}
		last := &merged[len(merged)-1]
		if o.to.After(last.to) {
			last.to = o.to
		}
		if !slices.Contains(last.failing, o.failing[0]) {
			last.failing = append(last.failing, o.failing[0])
		}
	}
	return merged
}
