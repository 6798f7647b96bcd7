// Package reconciler is the reconciler function: it turns the stream of probe
// results into states, the states of a group into a decision, and the decision
// into the membership of the NLB's target groups.
//
// State is stored before a target group is touched, and membership is always
// computed from state and observation, so a crash at any point is healed by the
// next pass. It never acts on what it cannot read: an unreadable row is an
// error, not an absent one.
package reconciler

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"radwitness/pkg/announce"
	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
	"radwitness/pkg/telemetry"
)

const (
	// reserve is kept of the function's time to say what went wrong.
	reserve = 2 * time.Second
	// maxLag is the age past which records are history: they move the states,
	// but what they say about membership is no longer true.
	maxLag = time.Minute
	// maxSkew is how far the prober's clock may be ahead of this one's.
	maxSkew = 5 * time.Minute
	// maxGroups is how many groups of a batch are worked on at once.
	maxGroups = 8
)

// Probes is what is read of table probes.
type Probes interface {
	Group(context.Context, string) (map[string]store.ProbeRow, error)
}

// Health is table health.
type Health interface {
	Group(context.Context, string) (store.GroupHealth, error)
	SaveState(ctx context.Context, group, server string, s health.State, t store.Transition) error
	SaveGroup(ctx context.Context, group string, row store.GroupRow, t *store.Transition) error
	SaveChange(ctx context.Context, group string, c store.Change) error
}

// Announcer tells others what has changed.
type Announcer interface {
	Announce(ctx context.Context, at time.Time, details []announce.Detail) error
}

// Balancer plans and applies the membership of a target group.
type Balancer interface {
	Plan(context.Context, fleet.Group, fleet.TargetGroup, health.Decision) (balancer.Plan, error)
	Apply(context.Context, balancer.Plan) (balancer.Result, error)
}

// DeadLetters keeps records that can never be worked on.
type DeadLetters interface {
	Send(ctx context.Context, reason string, record json.RawMessage) error
}

// Reconciler works on the groups of a fleet.
type Reconciler struct {
	Fleet       *fleet.Fleet
	Probes      Probes
	Health      Health
	Balancer    Balancer
	Announcer   Announcer   // nil tells nobody
	DeadLetters DeadLetters // nil keeps them in the log only
	Log         *slog.Logger
	Metrics     *telemetry.Metrics
	Now         func() time.Time // nil means time.Now

	mu     sync.Mutex
	passed map[string]time.Time // end of each group's last pass in this process that needs no repetition
}

func (r *Reconciler) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// lastPass is the end of the last such pass over a group; zero if there was none.
func (r *Reconciler) lastPass(group string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed[group]
}

func (r *Reconciler) setLastPass(group string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed == nil {
		r.passed = map[string]time.Time{}
	}
	r.passed[group] = at
}

// view is all that a decision about a group rests on.
type view struct {
	group    fleet.Group
	remember store.GroupHealth
	rows     map[string]store.ProbeRow
	unread   error             // rows of table probes that could not be read
	future   []string          // rows of table probes that were dropped for their round
	news     []announce.Detail // what has changed since it was read
}

// read gets both tables' rows of a group, at the same time.
func (r *Reconciler) read(ctx context.Context, g fleet.Group) (*view, error) {
	v := &view{group: g}
	var rowsErr error
	var wg sync.WaitGroup
	wg.Go(func() { v.rows, rowsErr = r.Probes.Group(ctx, g.Name) })
	var err error
	v.remember, err = r.Health.Group(ctx, g.Name)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	if rowsErr != nil {
		if v.rows == nil {
			return nil, rowsErr
		}
		// The server of a bad row is without a result, which keeps it where it is.
		v.unread = rowsErr
		r.Log.Error("row skipped", "group", g.Name, "error", rowsErr)
	}
	for server, err := range v.remember.Unreadable {
		r.Log.Error("row cannot be read: its server stays as it is until somebody mends it", "group", g.Name, "server", server, "error", err)
	}
	v.forgetMoved()
	v.forgetFuture(r.now())
	return v, nil
}

// forgetMoved drops what is known of servers that have another address now:
// it is about other machines, and must neither put the new ones into service
// nor keep them out.
func (v *view) forgetMoved() {
	for _, s := range v.group.Servers {
		for _, c := range s.Checks {
			if known, ok := v.remember.Addresses[c.Row]; ok && known != s.Address.String() {
				delete(v.remember.States, c.Row)
			}
			if row, ok := v.rows[c.Row]; ok && !probed(s, row) {
				v.rows[c.Row] = store.ProbeRow{Server: c.Row, Round: row.Round} // the time still counts, for drains
			}
		}
	}
}

// forgetFuture drops rows whose round has not come yet: somebody's clock or hand
// was wrong, and against such a round all others would be stale.
func (v *view) forgetFuture(now time.Time) {
	for server, row := range v.rows {
		if fromFuture(row, now) {
			delete(v.rows, server)
			v.future = append(v.future, server)
		}
	}
	slices.Sort(v.future)
}

// fromFuture reports whether a row's round is later than clocks can differ.
func fromFuture(row store.ProbeRow, now time.Time) bool { return row.Round.After(now.Add(maxSkew)) }

// unreadable says why nothing is known of a server, "" if all could be read.
func (v *view) unreadable(s fleet.Server) string {
	names := []string{s.Name} // drains go by the server, states by its checks
	for _, c := range s.Checks {
		names = append(names, c.Row)
	}
	for _, name := range names {
		if v.remember.Unreadable[name] != nil {
			return "its row in table health cannot be read"
		}
	}
	return ""
}

// probed reports whether a row is about the server at its present address. A
// row that names none is.
func probed(s fleet.Server, row store.ProbeRow) bool {
	at, err := netip.ParseAddrPort(row.Address)
	return err != nil || at.Addr().Unmap() == s.Address.Unmap()
}

// newest is the newest round of any server of the group.
func (v *view) newest() time.Time {
	var newest time.Time
	for _, row := range v.rows {
		if _, _, ok := v.group.Check(row.Server); ok && row.Round.After(newest) {
			newest = row.Round
		}
	}
	return newest
}

// decide makes the group decision.
func (v *view) decide() health.Decision { return health.Decide(v.group.Below, v.members()) }

// members are the group's servers as the decision sees them.
func (v *view) members() []health.Member {
	newest := v.newest()
	members := make([]health.Member, len(v.group.Servers))
	for i, s := range v.group.Servers {
		members[i] = health.Member{Server: s.Name, Drained: v.drained(s, newest), Unreadable: v.unreadable(s)}
		for _, c := range s.Checks {
			members[i].Checks = append(members[i].Checks, health.Check{
				Row:         c.Row,
				State:       v.remember.States[c.Row],
				Observation: v.rows[c.Row].Observation(),
				StaleAfter:  c.StaleAfter(),
			})
		}
	}
	return members
}

// drained says why an operator keeps a server out at the given round, "" if
// none does.
func (v *view) drained(s fleet.Server, round time.Time) string {
	if s.Admin == fleet.AdminOut {
		return "drained by admin: out in fleet.yaml"
	}
	if d, ok := v.remember.Drains[s.Name]; ok && round.Before(d.Until) {
		return "drained until " + d.Until.UTC().Format(time.RFC3339) + ": " + d.Reason
	}
	return ""
}

// groupRow is the stored form of a decision.
func (v *view) groupRow(d health.Decision, version string) store.GroupRow {
	row := store.GroupRow{
		Case: d.Case, Below: d.Below, FailOpen: d.FailOpen,
		Members: map[string]health.Membership{}, Reasons: map[string]string{},
		Decided: v.newest(), Version: version, Pass: store.PassPending,
	}
	for _, verdict := range d.Verdicts {
		row.Members[verdict.Server] = verdict.Membership
		row.Reasons[verdict.Server] = verdict.Reason
	}
	return row
}
