package simulation

import (
	"net/netip"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// machine is what runs at an address.
type machine struct {
	fails    health.Outcome // what it answers instead of accepting; empty if it is well
	instance string         // id of the EC2 instance
	stopped  bool           // so is the instance
}

// probing is what outlives the invocations of the prober.
type probing struct {
	offset time.Duration             // of its clock from the true time
	invoke func(scheduled time.Time) // instead of the model; nil means the model
}

// wall is the time on the prober's clock.
func (w *world) wall() time.Time { return w.now.Add(w.prober.offset) }

// minute is EventBridge: one event a minute, at least once, more or less.
func (w *world) minute() {
	scheduled := w.now
	w.after(time.Minute, w.minute)
	if w.strikes(EventLost) {
		return
	}
	var late time.Duration
	if w.strikes(EventLate) {
		late = w.between(time.Second, 150*time.Second)
	}
	probe := w.probeMinute
	if w.prober.invoke != nil {
		probe = w.prober.invoke
	}
	w.after(late, func() { probe(scheduled) })
	if w.strikes(EventDuplicate) {
		w.after(late+w.between(0, 20*time.Second), func() { probe(scheduled) })
	}
}

type serverKey struct{ group, server string }

// member is a server with its group.
type member struct {
	serverKey
	fleet.Server
	Probe     fleet.Probe // its only check
	threshold int
}

// invocation is one minute of the prober, as pkg/prober runs it.
type invocation struct {
	*world
	end      time.Time // on the wall clock
	members  []member
	probing  map[serverKey]bool
	tickSkew time.Duration // of the clock when the invocation began
	blind    bool
	dead     bool
}

func (w *world) probeMinute(scheduled time.Time) {
	if w.wall().Sub(scheduled) > 2*time.Minute {
		w.tracef("prober: event of %v dropped", scheduled.Sub(w.epoch))
		return
	}
	i := &invocation{
		world: w, end: w.wall().Add(time.Minute), probing: map[serverKey]bool{},
		tickSkew: w.prober.offset, blind: w.strikes(ProberBlind),
	}
	if w.strikes(ProberKilled) {
		w.after(w.between(0, time.Minute), func() { i.dead = true })
	}
	for _, g := range w.running().Groups {
		for _, s := range g.Servers {
			m := member{serverKey{g.Name, s.Name}, s, s.Checks[0], g.Health.FailureThreshold}
			i.members = append(i.members, m)
			if n := w.tables.rows[g.Name][s.Name].ConsecutiveFailures; n > 0 && n < m.threshold {
				i.probing[m.serverKey] = true
				i.confirm(m, 0)
			}
		}
	}
	i.planTick(w.wall().Add(-1))
}

// planTick plans the first tick after t, if it is within the minute.
func (i *invocation) planTick(t time.Time) {
	next := i.end
	for _, m := range i.members {
		if tick := t.Truncate(m.Probe.Interval).Add(m.Probe.Interval); tick.Before(next) {
			next = tick
		}
	}
	if !next.Before(i.end) {
		return
	}
	i.at(next.Add(-i.tickSkew), func() {
		if i.dead {
			return
		}
		for _, m := range i.members {
			if next.Truncate(m.Probe.Interval).Equal(next) && !i.probing[m.serverKey] {
				i.probing[m.serverKey] = true
				i.probe(m, next)
			}
		}
		i.planTick(next)
	})
}

// confirm probes a failing server again after a while, unless the minute is
// over by then.
func (i *invocation) confirm(m member, wait time.Duration) {
	if !i.wall().Add(wait).Before(i.end) {
		delete(i.probing, m.serverKey)
		return
	}
	i.after(wait, func() {
		if !i.dead {
			i.probe(m, i.wall().Truncate(time.Millisecond))
		}
	})
}

// probe makes one probe and records it when it ends.
func (i *invocation) probe(m member, round time.Time) {
	outcome, took := i.transact(m)
	i.after(took, func() {
		if i.dead {
			return
		}
		i.report.Probes++
		row, ok := i.record(m, round, outcome)
		if ok && row.ConsecutiveFailures > 0 && row.ConsecutiveFailures < m.threshold && m.Probe.Criteria.Evidence(outcome) == health.Failure {
			i.confirm(m, m.Probe.FastInterval)
			return
		}
		delete(i.probing, m.serverKey)
	})
}

// transact is a RADIUS transaction: its outcome and duration.
func (i *invocation) transact(m member) (health.Outcome, time.Duration) {
	at := i.machines[m.Address.String()]
	switch {
	case i.blind:
		return health.ProberError, 0
	case at == nil:
		return health.Timeout, m.Probe.Budget()
	case at.fails == "" && i.strikes(PacketLost):
		return health.Timeout, m.Probe.Budget()
	case at.fails == health.Timeout:
		return health.Timeout, m.Probe.Budget()
	case at.fails != "":
		return at.fails, i.between(time.Millisecond, 50*time.Millisecond)
	}
	return health.Accept, i.between(time.Millisecond, 50*time.Millisecond)
}

// record writes a result as store.Probes does. ok is false if the prober
// cannot know what the row is now.
func (i *invocation) record(m member, round time.Time, o health.Outcome) (row store.ProbeRow, ok bool) {
	if i.strikes(RecordThrottled) {
		return store.ProbeRow{}, false
	}
	row, newer := i.tables.record(m.group, m.Name, netip.AddrPortFrom(m.Address, m.Probe.Port), round, o, m.Probe.Criteria.Evidence(o))
	if !newer {
		return store.ProbeRow{}, false
	}
	i.tables.witness(m.serverKey, row)
	i.tracef("probe %s/%s round %.3f %s: %d failures, %d successes in a row", m.group, m.Name, round.Sub(i.epoch).Seconds(), o, row.ConsecutiveFailures, row.ConsecutiveSuccesses)
	i.shardOf(m.group).add(row)
	// The SDK repeats a write whose answer was lost, and the condition fails.
	return row, !i.strikes(RecordAnswerLost)
}

// lowestThreshold is the lowest that any version of the fleet gave a group: two
// versions may judge the same row.
func (w *world) lowestThreshold(group string) int {
	lowest := 0
	for _, f := range w.fleets {
		if g, ok := f.Group(group); ok && (lowest == 0 || g.Health.FailureThreshold < lowest) {
			lowest = g.Health.FailureThreshold
		}
	}
	return lowest
}
