package simulation

import (
	"context"
	"slices"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// judgeDeregistration checks what a target that has just been deregistered
// says about P1, P3 and P6. It looks at the rows as the prober wrote them, and
// not at the reconciler's reasons.
func (c *cloud) judgeDeregistration(g fleet.Group, p place) {
	s, owned, running := c.owner(g, p.id)
	if g.Mode == fleet.Observe {
		c.violate("observe mode", "%s deregistered from %s", p.id, p.arn)
	}
	rows, remembered := c.group(g.Name)
	if owned && s.Admin == fleet.AdminOut {
		return
	}
	row := rows[s.Name]
	if d, ok := remembered.Drains[s.Name]; owned && ok && newest(g, rows).Before(d.Until) {
		return
	}
	names, reached := c.backing(g, p.arn, rows, remembered)
	if len(names) < g.Below {
		c.violate("P1", "%s (%s) deregistered from %s with only %v to lean on, the floor is %d", p.id, s.Name, p.arn, names, g.Below)
	}
	if g.Below > 0 && !reached {
		c.violate("P1", "%s (%s) deregistered from %s while %v are in their first checks", p.id, s.Name, p.arn, names)
	}
	if !owned {
		if !g.Prune {
			c.violate("ownership", "%s deregistered from %s, which no server owns", p.id, p.arn)
		}
		return
	}
	switch {
	case !running: // and so no loss
	case row.LastFailure.IsZero():
		c.violate("P3", "%s deregistered from %s, and it never failed a probe", s.Name, p.arn)
	case c.tables.worst[serverKey{g.Name, s.Name}] < c.lowestThreshold(g.Name):
		c.violate("P6", "%s deregistered from %s, and it never failed %d times in a row", s.Name, p.arn, c.lowestThreshold(g.Name))
	}
}

// judgeRegistration checks what a target that has just been registered says
// about P5, and that nobody is registered without evidence.
func (c *cloud) judgeRegistration(g fleet.Group, p place) {
	_, remembered := c.group(g.Name)
	s, owned, _ := c.owner(g, p.id)
	state, key := remembered.States[s.Name], machineKey{serverKey{g.Name, s.Name}, s.Address.String()}
	switch failOpen := remembered.Group.FailOpen; {
	case g.Mode == fleet.Observe:
		c.violate("observe mode", "%s registered in %s", p.id, p.arn)
	case !owned:
		c.violate("ownership", "%s registered in %s, which no server owns", p.id, p.arn)
	case s.Admin == fleet.AdminOut:
		c.violate("drain", "%s registered in %s, and it is out in the fleet", s.Name, p.arn)
	case failOpen:
	case state.Status != health.Up:
		c.violate("P5", "%s registered in %s while %s until %v", s.Name, p.arn, state.Status, state.HeldUntil)
	case !c.tables.proved[s.Address.String()]:
		c.violate("evidence", "%s registered in %s, and %v has never answered", s.Name, p.arn, s.Address)
	case !c.tables.hasServed(key, g.Health.HoldDown):
		c.violate("P5", "%s registered in %s without %v of success since it was down", s.Name, p.arn, g.Health.HoldDown)
	}
}

// group reads both tables without chance.
func (w *world) group(name string) (map[string]store.ProbeRow, store.GroupHealth) {
	if w.store.mirror != nil {
		w.store.mirror(name)
	}
	a := &access{tables: w.tables, lucks: map[string]*luck{name: {callsLeft: -1}}}
	remembered, _ := a.Group(context.Background(), name) // never fails with such luck
	rows, _ := probesAccess{a}.Group(context.Background(), name)
	return rows, remembered
}

func newest(g fleet.Group, rows map[string]store.ProbeRow) time.Time {
	var t time.Time
	for _, s := range g.Servers {
		if row := rows[s.Name]; row.Round.After(t) {
			t = row.Round
		}
	}
	return t
}

// backing lists the servers that a group can lean on: registered in the target
// group, and solidly up or held down. reached says that users reach one of them.
func (c *cloud) backing(g fleet.Group, arn string, rows map[string]store.ProbeRow, remembered store.GroupHealth) (names []string, reached bool) {
	latest := newest(g, rows)
	for _, t := range c.Targets(arn) {
		s, _, running := c.owner(g, t.ID)
		if !running || !registered(c.Targets(arn), t.ID, t.Port) {
			continue
		}
		row, state := rows[s.Name], remembered.States[s.Name]
		_, at := row.Observation().Evidence()
		fresh := latest.Sub(at) <= s.Checks[0].StaleAfter()
		solid := state.Status == health.Up && row.ConsecutiveFailures == 0
		if fresh && (solid || state.Status == health.HoldDown) && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
			reached = reached || t.State != elbv2types.TargetHealthStateEnumInitial
		}
	}
	return names, reached
}

// makePeace ends all faults. What is broken mends within minutes.
func (w *world) makePeace() {
	w.tracef("peace")
	w.weather = weather{}
	w.prober.offset = 0
	w.rolling = w.now
}

// peaceTime is how long the last faults go on after the peace: a clock that was
// ahead, a shard that was stalled, an instance that was stopped, and then the
// first checks of what has come back.
const peaceTime = 3*time.Minute + firstChecks

// checkConvergence is P7: what the tables hold gives the stored decision, and
// the target groups are as it says.
func (w *world) checkConvergence() {
	w.run(peaceTime)
	for _, g := range w.current().Groups {
		w.run(2 * g.ReconcileInterval)
	}
	w.quiesce()
	if w.violated != nil {
		return
	}
	for _, g := range w.current().Groups {
		_, remembered := w.group(g.Name)
		row := remembered.Group
		if row.Pass != store.PassDone {
			w.violate("P7", "group %s: the pass is %s: %s", g.Name, row.Pass, row.PassError)
		}
		if g.Mode == fleet.Observe {
			continue
		}
		for _, tg := range g.TargetGroups {
			for _, s := range g.Servers {
				p, known := w.cloud.targetOf(tg, s)
				if !known {
					continue
				}
				if m, has := row.Members[s.Name], w.cloud.has(p); m == health.In && !has || m == health.Out && has {
					w.violate("P7", "group %s: %s should be %s (%s), registered in %s: %v", g.Name, s.Name, m, row.Reasons[s.Name], tg.ARN, has)
				}
			}
		}
	}
}

// quiesce runs until no record is on its way.
func (w *world) quiesce() {
	for range 100 {
		if !slices.ContainsFunc(w.shards, func(s *shard) bool { return len(s.pending) > 0 }) {
			return
		}
		w.run(pollDelay)
	}
}

// checkReplay is P2 for one history: delivering any suffix of the stream again
// changes no state and no membership.
func (w *world) checkReplay() {
	for _, s := range w.shards {
		if len(s.applied) == 0 || w.violated != nil || w.policyChanged {
			continue
		}
		type memory struct {
			states map[string]map[string]health.State
			in     map[place]bool
		}
		remember := func() memory {
			m := memory{map[string]map[string]health.State{}, w.membership()}
			for _, g := range s.groups {
				_, remembered := w.group(g)
				m.states[g] = remembered.States
			}
			return m
		}
		before := remember()
		from := w.rng.IntN(len(s.applied))
		for rest := s.applied[from:]; len(rest) > 0; {
			n := 1 + w.rng.IntN(len(rest))
			w.reconcile(rest[:n])
			rest = rest[n:]
		}
		after := remember()
		for g, states := range before.states {
			for server, state := range states {
				if now := after.states[g][server]; now != state {
					w.violate("P2", "replay from record %d: %s/%s went from %+v to %+v", from, g, server, state, now)
				}
			}
		}
		for p, in := range before.in {
			if after.in[p] != in {
				w.violate("P2", "replay from record %d: %v registered %v, then %v", from, p, in, after.in[p])
			}
		}
	}
}

// membership says of every server's targets whether they are registered.
func (w *world) membership() map[place]bool {
	in := map[place]bool{}
	for _, g := range w.current().Groups {
		for _, tg := range g.TargetGroups {
			for _, s := range g.Servers {
				if p, known := w.cloud.targetOf(tg, s); known {
					in[p] = w.cloud.has(p)
				}
			}
		}
	}
	return in
}

// checkRecovery lets every server answer: all must be back when the longest
// hold-down is over.
func (w *world) checkRecovery() {
	var longest time.Duration
	for _, m := range w.machines {
		m.fails = ""
	}
	for _, g := range w.current().Groups {
		for server := range w.tables.of(g.Name).Drains {
			w.setDrain(g.Name, server, nil)
		}
		longest = max(longest, g.Health.HoldDownMax, g.Health.HoldDown)
	}
	w.run(longest + 90*time.Second)
	w.quiesce()
	if w.violated != nil {
		return
	}
	for _, g := range w.current().Groups {
		for _, s := range g.Servers {
			for _, tg := range g.TargetGroups {
				p, known := w.cloud.targetOf(tg, s)
				if has := w.cloud.has(p); known && g.Mode == fleet.Enforce && has == (s.Admin == fleet.AdminOut) {
					_, remembered := w.group(g.Name)
					w.violate("P7", "all servers answer: %s/%s registered in %s: %v; state %+v", g.Name, s.Name, tg.ARN, has, remembered.States[s.Name])
				}
			}
		}
	}
}

// checkRest is P8.
func (w *world) checkRest() {
	writes, changes := w.tables.writes, w.report.Changes
	w.run(70 * time.Second)
	if w.tables.writes != writes || w.report.Changes != changes {
		w.violate("P8", "at rest %d writes and %d changes", w.tables.writes-writes, w.report.Changes-changes)
	}
}

// checkRemoval is P4: one server stops answering in a world without faults.
func (w *world) checkRemoval() {
	if w.violated != nil {
		return
	}
	g := pick(w.rng, w.current().Groups...)
	s := pick(w.rng, g.Servers...)
	others := 0
	for _, other := range g.Servers {
		if other.Name != s.Name && other.Admin != fleet.AdminOut {
			others++
		}
	}
	if g.Mode == fleet.Observe || s.Admin == fleet.AdminOut || others < g.Below {
		return
	}
	healthy, outcome := w.now, pick(w.rng, health.Reject, health.Timeout)
	w.machines[s.Address.String()].fails = outcome
	w.tracef("%s/%s fails for good: %s", g.Name, s.Name, outcome)
	for w.tables.rows[g.Name][s.Name].ConsecutiveFailures == 0 && w.violated == nil {
		if w.now.Sub(healthy) > 2*time.Minute {
			w.violate("P4", "%s fails, and no row says so", s.Name)
		}
		w.run(10 * time.Millisecond)
	}
	first := w.now
	limit := time.Duration(g.Health.FailureThreshold-1)*(s.Checks[0].FastInterval+s.Checks[0].Budget()) + 2*pollDelay
	w.run(limit)
	for _, tg := range g.TargetGroups {
		if p, known := w.cloud.targetOf(tg, s); known && w.cloud.has(p) {
			w.violate("P4", "%s still registered in %s %v after its first failed probe", s.Name, tg.ARN, w.now.Sub(first))
		}
	}
}
