package simulation

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// recordDay lets the prober watch a day of failures and packet loss, and
// returns the world at its end and the batches in which the stream delivered it.
func recordDay(seed uint64) (w *world, batches [][]json.RawMessage) {
	w = newWorld(seed, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), nil)
	w.weather = weather{ServerFailed: 0.01, CommonCause: 0.002, PacketLost: 0.01, ProberBlind: 0.01, ShardStalled: 0.01}
	w.begin()
	var seen int
	for w.now.Sub(w.epoch) < 24*time.Hour {
		w.run(pollDelay)
		var batch []json.RawMessage
		applied := w.shards[0].applied
		for _, r := range applied[seen:] {
			batch = append(batch, encode(r))
		}
		if seen = len(applied); batch != nil {
			batches = append(batches, batch)
		}
	}
	return w, batches
}

// apply gives the batches of a day to a new reconciler, and returns table
// health without the history of the passes, which is not the records' alone,
// and the membership.
func (w *world) apply(t *testing.T, batches [][]json.RawMessage) (map[string]item, map[place]bool) {
	t.Helper()
	g := w.current().Groups[0]
	for _, tg := range g.TargetGroups {
		w.makeTargetGroup(tg.ARN)
	}
	db := newDynamo()
	r := &reconciler.Reconciler{
		Fleet: w.current(), Probes: probesAccess{&access{tables: w.tables}}, Health: &store.Health{DynamoDB: db, Table: healthTable},
		Balancer: &balancer.Client{ELBv2: w.cloud.AWS, EC2: w.cloud.AWS}, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return w.now },
	}
	for _, batch := range batches {
		if again := r.Batch(context.Background(), batch).BatchItemFailures; len(again) > 0 {
			t.Fatalf("%d records are to be delivered again", len(again))
		}
	}
	maps.DeleteFunc(db.items, func(key string, _ item) bool { return strings.Contains(key, "\x00update#") })
	return db.items, w.membership()
}

// P2 on a day of records: whole, in its own batches, in batches of the reverse
// sizes, and each of them twice, it gives the same tables.
func TestRecordedDay(t *testing.T) {
	w, batches := recordDay(3)
	all := slices.Concat(batches...)
	var reversed [][]json.RawMessage
	rest := all
	for _, batch := range slices.Backward(batches) {
		reversed = append(reversed, rest[:len(batch)])
		rest = rest[len(batch):]
	}
	want, members := w.apply(t, [][]json.RawMessage{all})
	for _, c := range []struct {
		name    string
		batches [][]json.RawMessage
	}{
		{"in its own batches", batches},
		{"in one go, twice", [][]json.RawMessage{all, all}},
		{"in batches of the reverse sizes, twice", slices.Concat(reversed, reversed)},
	} {
		got, in := w.apply(t, c.batches)
		values := cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberBOOL{}, types.AttributeValueMemberM{})
		if diff := cmp.Diff(want, got, values); diff != "" {
			t.Errorf("%s: tables differ (-in one go +so):\n%s", c.name, diff)
		}
		if !maps.Equal(members, in) {
			t.Errorf("%s: members %v, want %v", c.name, in, members)
		}
	}
	t.Logf("%d servers, %d records in %d batches, %d rows in table health after them, %d transitions",
		len(w.current().Groups[0].Servers), len(all), len(batches), len(want), countKeys(want, "transition#"))
	if len(all) < 10_000 || countKeys(want, "transition#") < 50 {
		t.Error("the day is too quiet to prove anything")
	}
}

func countKeys(items map[string]item, part string) int {
	n := 0
	for key := range items {
		if strings.Contains(key, part) {
			n++
		}
	}
	return n
}
