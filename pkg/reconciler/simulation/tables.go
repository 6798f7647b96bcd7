package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"radwitness/pkg/announce"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// Errors of the simulated calls.
var (
	errKilled    = errors.New("simulated: the function was killed")
	errThrottled = errors.New("simulated: throughput exceeded")
	errLost      = errors.New("simulated: no answer, though it was done")
)

// tables are both tables, with the conditions of the real ones.
type tables struct {
	mu     sync.Mutex                           // the reconciler works on groups at the same time
	rows   map[string]map[string]store.ProbeRow // by group, server
	health map[string]*store.GroupHealth        // by group
	worst  map[serverKey]int                    // most failures in a row
	downAt map[machineKey]time.Time             // since when, as the reconciler stored it last
	proved map[string]bool                      // answered at this address
	served map[machineKey][]streak              // every unbroken success
	writes int                                  // to table health
}

// storage is what stands between the functions and the tables in memory when
// they go through the real encoding.
type storage struct {
	// open gives a reconciler its tables; nil means those in memory.
	open func(*access) (reconciler.Probes, reconciler.Health)
	// mirror brings the tables in memory up to date with a group's real rows.
	mirror func(group string)
	// setDrain stores an operator's order; nil ends it.
	setDrain func(group, server string, d *store.Drain)
	images   map[string]json.RawMessage // stream records by sequence
}

// setDrain is an operator's order to drain a server; nil ends it.
func (w *world) setDrain(group, server string, d *store.Drain) {
	if w.store.setDrain != nil {
		w.store.setDrain(group, server, d)
	}
	if d == nil {
		delete(w.tables.of(group).Drains, server)
		return
	}
	w.tables.of(group).Drains[server] = *d
}

func newTables() *tables {
	return &tables{
		rows: map[string]map[string]store.ProbeRow{}, health: map[string]*store.GroupHealth{},
		worst: map[serverKey]int{}, downAt: map[machineKey]time.Time{}, served: map[machineKey][]streak{}, proved: map[string]bool{},
	}
}

// record does what store.Probes.Record makes DynamoDB do.
func (t *tables) record(group, server string, address netip.AddrPort, round time.Time, o health.Outcome, e health.Evidence) (store.ProbeRow, bool) {
	if t.rows[group] == nil {
		t.rows[group] = map[string]store.ProbeRow{}
	}
	row := t.rows[group][server]
	if !round.After(row.Round) {
		return row, false
	}
	if row.Address != "" && row.Address != address.String() {
		row = store.ProbeRow{LastSuccess: row.LastSuccess, LastFailure: row.LastFailure} // another machine
	}
	row.Group, row.Server, row.Address, row.Round, row.Outcome = group, server, address.String(), round, o
	switch e {
	case health.Success:
		if row.ConsecutiveSuccesses == 0 {
			row.SuccessSince = round
		}
		row.ConsecutiveSuccesses, row.ConsecutiveFailures, row.FailureSince = row.ConsecutiveSuccesses+1, 0, time.Time{}
		row.LastSuccess = round
	case health.Failure:
		if row.ConsecutiveFailures == 0 {
			row.FailureSince = round
		}
		row.ConsecutiveFailures, row.ConsecutiveSuccesses, row.SuccessSince = row.ConsecutiveFailures+1, 0, time.Time{}
		row.LastFailure, row.LastFailureOutcome = round, o
	}
	t.rows[group][server] = row
	return row, true
}

// streak is a time of unbroken success, in rounds.
type streak struct{ from, to time.Time }

// witness remembers of a row that was written what P5 and P6 rest on.
func (t *tables) witness(k serverKey, row store.ProbeRow) {
	if row.ConsecutiveSuccesses > 0 {
		t.proved[address(row)] = true
	}
	t.worst[k] = max(t.worst[k], row.ConsecutiveFailures)
	m := machineKey{k, address(row)}
	if row.ConsecutiveSuccesses == 1 && row.SuccessSince.Equal(row.Round) {
		t.served[m] = append(t.served[m], streak{row.Round, row.Round})
	} else if n := len(t.served[m]); n > 0 && row.ConsecutiveSuccesses > 0 {
		t.served[m][n-1].to = row.Round
	}
}

// machineKey is a server at an address: at another one it is another machine.
type machineKey struct {
	serverKey
	address string
}

func address(row store.ProbeRow) string {
	at, _ := netip.ParseAddrPort(row.Address) // the prober writes no other
	return at.Addr().String()
}

// hasServed reports whether a server has answered for a hold-down since it was
// last stored as down.
func (t *tables) hasServed(k machineKey, d time.Duration) bool {
	down, ever := t.downAt[k]
	return !ever || slices.ContainsFunc(t.served[k], func(s streak) bool { return s.from.After(down) && s.to.Sub(s.from) >= d })
}

// of is what table health holds of a group.
func (t *tables) of(group string) *store.GroupHealth {
	g := t.health[group]
	if g == nil {
		g = &store.GroupHealth{States: map[string]health.State{}, Addresses: map[string]string{}, Drains: map[string]store.Drain{}}
		t.health[group] = g
	}
	return g
}

// luck is what happens to one invocation's calls for one group. It has a chance
// of its own, so that a seed gives the same history whichever group is first.
type luck struct {
	rng       *rand.Rand
	weather   weather
	faults    Tally
	callsLeft int // until it is killed; negative: it is not
}

// call is made before each call. It says whether the call fails.
func (l *luck) call(throttled Fault) error {
	switch {
	case l.callsLeft == 0:
		return errKilled
	case l.callsLeft > 0:
		l.callsLeft--
		if l.callsLeft == 0 {
			l.faults[ReconcilerKilled]++
		}
	}
	if l.strikes(throttled) {
		return errThrottled
	}
	return nil
}

func (l *luck) strikes(f Fault) bool {
	if p := l.weather[f]; p == 0 || l.rng.Float64() >= p {
		return false
	}
	l.faults[f]++
	return true
}

// dead reports whether the invocation has been killed.
func (l *luck) dead() bool { return l.callsLeft == 0 }

// access is the tables as one reconciler reaches them.
type access struct {
	*tables
	lucks map[string]*luck // of the running invocation, by group
	blind map[string]bool  // groups whose read of table probes fails, drawn beforehand: it runs beside the other read
}

// probesAccess is the reconciler's view of table probes.
type probesAccess struct{ *access }

func (a probesAccess) Group(_ context.Context, group string) (map[string]store.ProbeRow, error) {
	if a.blind[group] {
		return nil, errThrottled
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.rows[group]), nil
}

func (a *access) Group(_ context.Context, group string) (store.GroupHealth, error) {
	if err := a.lucks[group].call(ReadFailed); err != nil {
		return store.GroupHealth{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.of(group)
	return store.GroupHealth{States: maps.Clone(g.States), Addresses: maps.Clone(g.Addresses), Drains: maps.Clone(g.Drains), Group: g.Group}, nil
}

func (a *access) SaveState(_ context.Context, group, server string, s health.State, tr store.Transition) error {
	l := a.lucks[group]
	// The transition is written first; without it the state is not written.
	if err := l.call(StateThrottled); err != nil {
		return err
	}
	a.wrote()
	if err := l.call(StateThrottled); err != nil {
		return err
	}
	a.mu.Lock()
	known := a.of(group).States[server]
	if s.Since.Before(known.Since) {
		a.mu.Unlock()
		return fmt.Errorf("saving state of %s/%s: %w", group, server, store.ErrNotNewer)
	}
	if before := a.of(group).Addresses[server]; before != "" && before != tr.Address {
		// Two versions of the fleet that give a server two addresses forget its
		// hold-down by turns. That lasts as long as the roll-out.
		maps.DeleteFunc(a.downAt, func(m machineKey, _ time.Time) bool { return m.serverKey == serverKey{group, server} })
	}
	a.of(group).States[server], a.of(group).Addresses[server] = s, tr.Address
	if s.Status == health.Down {
		a.downAt[machineKey{serverKey{group, server}, tr.Address}] = s.Since
	}
	a.mu.Unlock()
	a.wrote()
	if l.strikes(StateAnswerLost) {
		return errLost
	}
	return nil
}

func (a *access) SaveGroup(_ context.Context, group string, row store.GroupRow, tr *store.Transition) error {
	l := a.lucks[group]
	if tr != nil {
		if err := l.call(StateThrottled); err != nil {
			return err
		}
		a.wrote()
	}
	if err := l.call(StateThrottled); err != nil {
		return err
	}
	a.mu.Lock()
	a.of(group).Group = row
	a.mu.Unlock()
	a.wrote()
	if l.strikes(StateAnswerLost) {
		return errLost
	}
	return nil
}

func (a *access) SaveChange(_ context.Context, group string, _ store.Change) error {
	if err := a.lucks[group].call(StateThrottled); err != nil {
		return err
	}
	a.wrote()
	return nil
}

// Announce is EventBridge, which may not take a change.
func (a *access) Announce(_ context.Context, _ time.Time, details []announce.Detail) error {
	var group string
	switch d := details[0].(type) {
	case announce.ServerStateChange:
		group = d.Group
	case announce.TargetGroupChange:
		group = d.Group
	case announce.FailOpenChange:
		group = d.Group
	}
	return a.lucks[group].call(EventsFailed)
}

func (a *access) wrote() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes++
}
