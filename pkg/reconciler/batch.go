package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// record is a probe result that came through the stream.
type record struct {
	sequence string // what Lambda knows the record by
	row      store.ProbeRow
}

// Batch works on one batch of stream records. It returns the records that are
// to be delivered again: those of the groups that failed, and no others.
func (r *Reconciler) Batch(ctx context.Context, raw []json.RawMessage) events.DynamoDBEventResponse {
	var records []record
	byGroup := map[string][]record{}
	for _, one := range raw {
		if rec, ok := r.decode(one); ok {
			records = append(records, rec)
			byGroup[rec.row.Group] = append(byGroup[rec.row.Group], rec)
		}
	}
	var mu sync.Mutex
	failed := map[string]bool{}
	var work errgroup.Group
	work.SetLimit(maxGroups)
	for name, list := range byGroup {
		g, known := r.Fleet.Group(name)
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
	response := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	for _, rec := range records {
		if failed[rec.row.Group] {
			response.BatchItemFailures = append(response.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: rec.sequence})
		}
	}
	return response
}

// decode reads one record by itself, so that a bad one spoils no other. A bad
// record is logged and never delivered again: it would be as bad then, and the
// next record of the same row makes up for it.
func (r *Reconciler) decode(raw json.RawMessage) (record, bool) {
	var e events.DynamoDBEventRecord
	if err := json.Unmarshal(raw, &e); err != nil {
		r.Log.Error("record skipped", "error", fmt.Errorf("reading stream record: %w", err))
		return record{}, false
	}
	if e.EventName == string(events.DynamoDBOperationTypeRemove) {
		return record{}, false // the row expired; nothing follows from that
	}
	row, err := store.ProbeRowFromStream(e.Change.NewImage)
	if err != nil {
		r.Log.Error("record skipped", "event_id", e.EventID, "sequence", e.Change.SequenceNumber, "error", err)
		return record{}, false
	}
	return record{sequence: e.Change.SequenceNumber, row: row}, true
}

// group moves the states of a group by its records, decides, and makes a pass
// if one is due.
func (r *Reconciler) group(ctx context.Context, g fleet.Group, records []record) error {
	v, err := r.read(ctx, g)
	if err != nil {
		return err
	}
	newest, err := r.advance(ctx, v, records)
	if err != nil {
		return err
	}
	if lag := time.Since(newest); lag > maxLag {
		r.Log.Info("catching up: states moved, target groups left alone", "group", g.Name, "lag_ms", lag.Milliseconds())
		return nil
	}
	d := v.decide()
	if !sameDecision(v.remember.Group, d) {
		if err := r.store(ctx, &v, d); err != nil {
			return err
		}
	}
	if v.remember.Group.Pass != store.PassPending && time.Since(r.lastPass(g.Name)) < g.ReconcileInterval {
		return nil
	}
	return r.pass(ctx, v, d)
}

// advance applies the records to the view's states and rows, and stores each
// state that changes. It returns the newest round among the records.
func (r *Reconciler) advance(ctx context.Context, v view, records []record) (newest time.Time, err error) {
	for _, rec := range records {
		row := rec.row
		if row.Round.After(newest) {
			newest = row.Round
		}
		if _, _, ok := v.group.Check(row.Server); !ok {
			r.Log.Info("record skipped: the server has no such check in the fleet", "group", row.Group, "server", row.Server)
			continue
		}
		if known, ok := v.rows[row.Server]; !ok || row.Round.After(known.Round) {
			v.rows[row.Server] = row
		}
		state, t := health.Advance(v.group.Health, v.remember.States[row.Server], row.Observation())
		if t == nil {
			continue
		}
		if err := r.Health.SaveState(ctx, row.Group, row.Server, state, *t); err != nil {
			return newest, err
		}
		v.remember.States[row.Server] = state
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
		t = &store.Transition{From: "closed", To: "open", At: row.Decided, Rule: string(d.Case)}
	case before.FailOpen:
		t = &store.Transition{From: "open", To: "closed", At: row.Decided, Rule: string(d.Case)}
	}
	if err := r.Health.SaveGroup(ctx, v.group.Name, row, t); err != nil {
		return err
	}
	v.remember.Group = row
	if t != nil {
		r.Log.Warn("fail-open changed", "group", v.group.Name, "from", t.From, "to", t.To, "case", d.Case, "round", t.At)
	}
	return nil
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
