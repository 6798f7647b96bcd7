package simulation

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

const (
	pollDelay   = 250 * time.Millisecond // four polls a second
	retryDelay  = time.Second
	maxAttempts = 8  // then the records go to the failure queue
	remembered  = 40 // records of a shard that may be delivered again
)

// shard is a stream shard and the function's reader of it.
type shard struct {
	*world
	groups   []string
	pending  []reconciler.Record
	done     []reconciler.Record // the last that were delivered, oldest first
	planned  bool                // a delivery is
	attempts int                 // at the batch in front
	most     int                 // records in the next batch, if bisected; else 0
	behind   *shard              // the parent after a split; it is read to its end first
	applied  []reconciler.Record // all that were delivered to a version of the fleet that has their server at their address
}

// add appends the record of a row that was written.
func (s *shard) add(row store.ProbeRow) {
	if s.strikes(RecordsExpired) {
		return
	}
	s.records++
	s.pending = append(s.pending, reconciler.Record{Sequence: strconv.Itoa(s.records), Row: row})
	s.plan(pollDelay)
}

func (s *shard) plan(d time.Duration) {
	if s.planned || len(s.pending) == 0 {
		return
	}
	if s.strikes(ShardStalled) {
		d += s.between(time.Second, 90*time.Second)
	}
	s.planned = true
	s.after(d, s.deliver)
}

// deliver gives the next batch to the reconciler and acts on its answer as an
// event source mapping does.
func (s *shard) deliver() {
	s.planned = false
	if s.behind != nil && len(s.behind.pending) > 0 {
		s.plan(pollDelay)
		return
	}
	if s.strikes(RecordsReplayed) {
		n := s.rng.IntN(len(s.done) + 1)
		s.pending = append(append([]reconciler.Record{}, s.done[len(s.done)-n:]...), s.pending...)
		s.done = s.done[:len(s.done)-n]
	}
	n := len(s.pending)
	switch {
	case s.most > 0:
		n = min(n, s.most)
	case s.weather[RecordsBisected] > 0:
		n = 1 + s.rng.IntN(n)
	}
	batch := s.pending[:n]
	again, ok := s.reconcile(batch)
	accepted := n
	switch {
	case !ok:
		accepted = 0
	case len(again) > 0:
		for i, r := range batch {
			if r.Sequence == again[0].Sequence {
				accepted = i
				break
			}
		}
	}
	if accepted == n {
		s.attempts, s.most = 0, 0
	} else if s.attempts++; s.attempts >= maxAttempts {
		s.inject(RecordsExpired, "after the last attempt")
		s.pending, s.attempts, s.most = s.pending[n:], 0, 0
		s.plan(pollDelay)
		return
	} else if n > 1 && s.strikes(RecordsBisected) {
		s.most = (n + 1) / 2
	}
	s.done = append(s.done, s.pending[:accepted]...)
	for _, r := range s.pending[:accepted] {
		g, _ := s.cloud.fleet.Group(r.Row.Group)
		if server, known := g.Server(r.Row.Server); known && server.Address.String() == address(r.Row) {
			s.applied = append(s.applied, r)
		}
	}
	s.done = s.done[max(0, len(s.done)-remembered):]
	s.pending = s.pending[accepted:]
	if accepted == n {
		s.plan(pollDelay)
	} else {
		s.plan(retryDelay)
	}
}

// worker is a warm reconciler.
type worker struct {
	*reconciler.Reconciler
	tables *access
}

// worker returns the reconciler of a version of the fleet, made anew after a
// cold start.
func (w *world) worker(f *fleet.Fleet) *worker {
	if known := w.workers[f.Version]; known != nil && !w.strikes(ColdStart) {
		return known
	}
	a := &access{tables: w.tables}
	var probes reconciler.Probes = probesAccess{a}
	var remembered reconciler.Health = a
	if w.store.open != nil {
		probes, remembered = w.store.open(a)
	}
	k := &worker{tables: a, Reconciler: &reconciler.Reconciler{
		Fleet: f, Probes: probes, Health: remembered, Announcer: a, Log: slog.New(slog.DiscardHandler),
		Balancer: &balancer.Client{ELBv2: w.cloud, EC2: w.cloud, Now: func() time.Time { return w.now }},
		Now:      func() time.Time { return w.now },
	}}
	w.workers[f.Version] = k
	return k
}

// reconcile is one invocation of the reconciler. ok is false if it was killed.
func (w *world) reconcile(batch []reconciler.Record) (again []reconciler.Record, ok bool) {
	f := w.running()
	k := w.worker(f)
	k.tables.lucks, k.tables.blind = map[string]*luck{}, map[string]bool{}
	for _, r := range batch {
		group := r.Row.Group
		if k.tables.lucks[group] != nil {
			continue
		}
		l := &luck{rng: rand.New(rand.NewPCG(w.rng.Uint64(), 1)), weather: w.weather, faults: Tally{}, callsLeft: -1}
		if p := w.weather[ReconcilerKilled]; p > 0 && w.rng.Float64() < p {
			l.callsLeft = 1 + w.rng.IntN(8)
		}
		k.tables.lucks[group] = l
		k.tables.blind[group] = w.strikes(ReadFailed)
	}
	w.cloud.begin(f, k.tables.lucks)
	w.report.Deliveries++
	if w.strikes(RecordPoisoned) || w.store.open != nil {
		again = w.deliverEncoded(k, batch)
	} else {
		again = k.Reconcile(context.Background(), batch)
	}
	ok = true
	for group, l := range k.tables.lucks {
		for fault, n := range l.faults {
			w.report.Faults[fault] += n
			w.tracef("reconciler %s: %s", group, fault)
		}
		ok = ok && !l.dead()
	}
	if !ok {
		delete(w.workers, f.Version)
	}
	if w.store.mirror != nil {
		for group := range k.tables.lucks {
			w.store.mirror(group)
		}
	}
	if w.trace != nil {
		w.traceDelivery(f, batch, again, ok)
	}
	return again, ok
}

func (w *world) traceDelivery(f *fleet.Fleet, batch, again []reconciler.Record, ok bool) {
	w.tracef("delivered %d records with fleet %s: %d again, alive %v", len(batch), f.Version, len(again), ok)
	for _, g := range f.Groups {
		row := w.tables.of(g.Name).Group
		w.tracef("  %s: %s %v pass %s %s", g.Name, row.Case, row.Members, row.Pass, row.PassError)
	}
}

// deliverEncoded goes through the handler as Lambda does, with a record among
// the others that cannot be read.
func (w *world) deliverEncoded(k *worker, batch []reconciler.Record) (again []reconciler.Record) {
	poison := []string{
		`17`, `{"eventName":"MODIFY","dynamodb":{"SequenceNumber":"9"}}`,
		`{"eventName":"MODIFY","dynamodb":{"SequenceNumber":"9","NewImage":{"group":{"Q":"x"}}}}`,
		`{"eventName":"MODIFY","dynamodb":{"SequenceNumber":"9","NewImage":{"group":{"S":"g0"},"server":{"S":"a"},"round":{"S":"noon"}}}}`,
		`{"eventName":"REMOVE","dynamodb":{"SequenceNumber":"9","OldImage":{"group":{"S":"g0"}}}}`,
	}
	raw := make([]json.RawMessage, 0, len(batch)+1)
	at := w.rng.IntN(len(batch) + 1)
	for i, r := range batch {
		if i == at {
			raw = append(raw, json.RawMessage(pick(w.rng, poison...)))
		}
		if image, ok := w.store.images[r.Sequence]; ok {
			raw = append(raw, image)
			continue
		}
		raw = append(raw, encode(r))
	}
	bySequence := map[string]reconciler.Record{}
	for _, r := range batch {
		bySequence[r.Sequence] = r
	}
	for _, failure := range k.Batch(context.Background(), raw).BatchItemFailures {
		again = append(again, bySequence[failure.ItemIdentifier])
	}
	return again
}

// encode is the stream record of a row, as Lambda hands it over.
func encode(r reconciler.Record) json.RawMessage {
	row := r.Row
	image := map[string]events.DynamoDBAttributeValue{
		"group": events.NewStringAttribute(row.Group), "server": events.NewStringAttribute(row.Server),
		"address": events.NewStringAttribute(row.Address), "outcome": events.NewStringAttribute(string(row.Outcome)),
		"consecutive_failures":  events.NewNumberAttribute(strconv.Itoa(row.ConsecutiveFailures)),
		"consecutive_successes": events.NewNumberAttribute(strconv.Itoa(row.ConsecutiveSuccesses)),
	}
	for name, t := range map[string]time.Time{
		"round": row.Round, "failure_since": row.FailureSince, "success_since": row.SuccessSince,
		"last_success": row.LastSuccess, "last_failure": row.LastFailure,
	} {
		if !t.IsZero() {
			image[name] = events.NewStringAttribute(t.UTC().Format("2006-01-02T15:04:05.000Z"))
		}
	}
	b, err := json.Marshal(events.DynamoDBEventRecord{
		EventName: "MODIFY", Change: events.DynamoDBStreamRecord{SequenceNumber: r.Sequence, NewImage: image},
	})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return b
}
