package reconciler

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"radwitness/pkg/announce"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// Record is a probe result that came through the stream.
type Record struct {
	Sequence string // what Lambda knows the record by
	Row      store.ProbeRow
}

// Batch works on one batch of stream records. It returns the records that are
// to be delivered again: those of the groups that failed, and no others.
func (r *Reconciler) Batch(ctx context.Context, raw []json.RawMessage) events.DynamoDBEventResponse {
	records := make([]Record, 0, len(raw))
	var bad []func() // buried last: many of them take time that the good ones need
	for _, one := range raw {
		rec, err := decode(one)
		switch {
		case err != nil:
			bad = append(bad, func() { r.bury(ctx, rec, one, err) })
		case rec != (Record{}):
			records = append(records, rec)
		}
	}
	response := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	for _, rec := range r.Reconcile(ctx, records) {
		response.BatchItemFailures = append(response.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: rec.Sequence})
	}
	for _, bury := range bad {
		bury()
	}
	return response
}

// Reconcile works on the records of a batch that could be read. It returns
// those of the groups that failed, in their order.
func (r *Reconciler) Reconcile(ctx context.Context, records []Record) (again []Record) {
	byGroup := map[string][]Record{}
	for _, rec := range records {
		byGroup[rec.Row.Group] = append(byGroup[rec.Row.Group], rec)
	}
	var mu sync.Mutex
	failed := map[string]bool{}
	var work errgroup.Group
	work.SetLimit(maxGroups)
	for _, name := range r.inTurn(byGroup) {
		g, known := r.Fleet.Group(name)
		list := byGroup[name]
		if !known {
			r.Log.Warn("records skipped: the group is not in the fleet", "group", name, "records", len(list))
			continue
		}
		work.Go(func() error {
			if err := r.group(ctx, g, list); err != nil {
				r.Log.Error("group failed, its records will be delivered again", "group", name, "records", len(list), "error", err)
				mu.Lock()
				failed[name] = true
				mu.Unlock()
			}
			return nil
		})
	}
	_ = work.Wait() // none of them returns an error: one group's must not end the others' work
	for _, rec := range records {
		if failed[rec.Row.Group] {
			again = append(again, rec)
		}
	}
	return again
}

// inTurn orders groups: first those in which a server is about to be down, so
// that they need not wait for the many in which nothing happens.
func (r *Reconciler) inTurn(records map[string][]Record) []string {
	urgent := map[string]bool{}
	for name, list := range records {
		g, _ := r.Fleet.Group(name)
		urgent[name] = slices.ContainsFunc(list, func(rec Record) bool {
			failures := rec.Row.ConsecutiveFailures
			return failures > 0 && failures <= g.Health.FailureThreshold
		})
	}
	return slices.SortedFunc(maps.Keys(records), func(a, b string) int {
		if urgent[a] != urgent[b] {
			if urgent[a] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
}

// decode reads one record, which is valid JSON, by itself, so that a bad one
// spoils no other. The zero Record without an error is one that nothing follows
// from: a row expired.
func decode(raw json.RawMessage) (Record, error) {
	var name, sequence, image string
	gjson.ParseBytes(raw).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "eventName":
			name = v.Str
		case "dynamodb":
			v.ForEach(func(key, v gjson.Result) bool {
				switch key.Str {
				case "SequenceNumber":
					sequence = v.Str
				case "NewImage":
					image = v.Raw
				}
				return true
			})
		}
		return true
	})
	if name == string(events.DynamoDBOperationTypeRemove) {
		return Record{}, nil
	}
	row, err := store.ProbeRowFromStream(image)
	return Record{Sequence: sequence, Row: row}, err
}

// bury sets a record aside that can never be read. It is not delivered again:
// it would be as bad then, and the next record of the same row makes up for it.
func (r *Reconciler) bury(ctx context.Context, rec Record, raw json.RawMessage, reason error) {
	r.Log.Error("record skipped", "sequence", rec.Sequence, "error", reason)
	if r.DeadLetters == nil {
		return
	}
	if err := r.DeadLetters.Send(ctx, reason.Error(), raw); err != nil {
		r.Log.Error("skipped record not kept", "sequence", rec.Sequence, "error", err)
	}
}

// group moves the states of a group by its records, decides, and makes a pass
// if one is due.
func (r *Reconciler) group(ctx context.Context, g fleet.Group, records []Record) error {
	v, err := r.read(ctx, g)
	if err != nil {
		return err
	}
	defer func() { r.announce(ctx, v) }()
	newest, err := r.advance(ctx, v, records)
	if err != nil {
		return err
	}
	if lag := r.now().Sub(newest); lag > maxLag {
		r.Log.Info("catching up: states moved, target groups left alone", "group", g.Name, "lag_ms", lag.Milliseconds())
		return nil
	}
	d := v.decide()
	if !sameDecision(v.remember.Group, d) {
		if err := r.store(ctx, v, d); err != nil {
			return err
		}
	}
	if v.remember.Group.Pass != store.PassPending && r.now().Sub(r.lastPass(g.Name)) < g.ReconcileInterval {
		return nil
	}
	return r.pass(ctx, v, d)
}

// advance applies the records to the view's states and rows, and stores each
// state that changes. It returns the newest round among the records.
func (r *Reconciler) advance(ctx context.Context, v *view, records []Record) (newest time.Time, err error) {
	for _, rec := range records {
		row := rec.Row
		if fromFuture(row, r.now()) {
			r.Log.Error("record skipped: its round is in the future", "group", row.Group, "server", row.Server, "round", row.Round)
			continue
		}
		if row.Round.After(newest) {
			newest = row.Round
		}
		server, _, ok := v.group.Check(row.Server)
		if !ok || !probed(server, row) {
			r.Log.Info("record skipped: the server has no such check in the fleet, or not at this address", "group", row.Group, "server", row.Server, "address", row.Address)
			continue
		}
		if known, ok := v.rows[row.Server]; !ok || row.Round.After(known.Round) {
			v.rows[row.Server] = row
		}
		if v.remember.Unreadable[row.Server] != nil {
			continue // to go on from an unknown state would forget the one that cannot be read
		}
		state, t := health.Advance(v.group.Health, v.remember.States[row.Server], row.Observation())
		if t == nil {
			continue
		}
		err := r.Health.SaveState(ctx, row.Group, row.Server, state, store.Transition{
			Server: row.Server, Address: server.Address.String(), From: string(t.From), To: string(t.To), At: t.At, Rule: string(t.Rule),
			Outcome: t.Outcome, Reason: row.Reason, HeldUntil: t.HeldUntil, Version: r.Fleet.Version,
		})
		if err != nil {
			return newest, err
		}
		v.remember.States[row.Server] = state
		v.news = append(v.news, announce.ServerStateChange{
			Group: row.Group, Server: row.Server, From: t.From, To: t.To, Rule: t.Rule,
			Outcome: t.Outcome, Reason: row.Reason, Round: t.At, HeldUntil: present(t.HeldUntil), FleetVersion: r.Fleet.Version,
		})
		r.Log.Info("server state changed", "group", row.Group, "server", row.Server, "from", t.From, "to", t.To,
			"rule", t.Rule, "outcome", t.Outcome, "reason", row.Reason, "round", t.At, "held_until", t.HeldUntil)
	}
	return newest, nil
}

// store saves a new decision, and the beginning or end of fail-open with it.
func (r *Reconciler) store(ctx context.Context, v *view, d health.Decision) error {
	before := v.remember.Group
	row := v.groupRow(d, r.Fleet.Version)
	var t *store.Transition
	switch {
	case d.FailOpen && before.FailOpen:
		row.FailOpenSince = before.FailOpenSince
	case d.FailOpen:
		row.FailOpenSince = row.Decided
		t = &store.Transition{From: "closed", To: "open", At: row.Decided, Rule: string(d.Case), Version: r.Fleet.Version}
	case before.FailOpen:
		t = &store.Transition{From: "open", To: "closed", At: row.Decided, Rule: string(d.Case), Version: r.Fleet.Version}
	}
	if err := r.Health.SaveGroup(ctx, v.group.Name, row, t); err != nil {
		return err
	}
	v.remember.Group = row
	if t != nil {
		v.news = append(v.news, announce.FailOpenChange{
			Group: v.group.Name, From: t.From, To: t.To, Case: d.Case, Below: d.Below,
			Servers: row.Reasons, Round: t.At, FleetVersion: r.Fleet.Version,
		})
		r.Log.Warn("fail-open changed", "group", v.group.Name, "from", t.From, "to", t.To, "case", d.Case, "round", t.At)
	}
	return nil
}

// announce sends the news of a group. That it cannot is no reason to do its
// work again: the history is in the table.
func (r *Reconciler) announce(ctx context.Context, v *view) {
	if r.Announcer == nil || len(v.news) == 0 {
		return
	}
	if err := r.Announcer.Announce(ctx, r.now(), v.news); err != nil {
		r.Log.Error("changes not announced", "group", v.group.Name, "error", err)
	}
}

// sameDecision reports whether a stored decision asks for the same membership
// for the same reason.
func sameDecision(row store.GroupRow, d health.Decision) bool {
	members := make(map[string]health.Membership, len(d.Verdicts))
	for _, v := range d.Verdicts {
		members[v.Server] = v.Membership
	}
	return row.Case == d.Case && row.Below == d.Below && row.FailOpen == d.FailOpen && maps.Equal(row.Members, members)
}
