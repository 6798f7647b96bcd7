package reconciler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// idle stands for target groups that are as they should be.
type idle struct{}

func (idle) Plan(context.Context, fleet.Group, fleet.TargetGroup, health.Decision) (balancer.Plan, error) {
	return balancer.Plan{}, nil
}
func (idle) Apply(context.Context, balancer.Plan) (balancer.Result, error) {
	return balancer.Result{}, nil
}

// BenchmarkBatch is one round of 1,000 servers in 50 groups, from the event's
// JSON to the decisions, with tables in memory. cpu-ms/op is the time of all
// threads, the collector's among them.
func BenchmarkBatch(b *testing.B) {
	const groups, perGroup = 50, 20
	round := time.Now().UTC().Truncate(time.Millisecond)
	w := newWorld(1)
	f := &fleet.Fleet{Version: "v1"}
	var records []json.RawMessage
	for i := range groups {
		g := *w.group
		g.Name = fmt.Sprintf("group-%02d", i)
		w.rows[g.Name] = map[string]store.ProbeRow{}
		for j := range perGroup {
			name := fmt.Sprintf("server-%02d", j)
			address := netip.AddrFrom4([4]byte{10, 0, byte(i), byte(j)})
			g.Servers = append(g.Servers, fleet.Server{
				Name: name, Address: address, Admin: fleet.AdminAuto, Checks: []fleet.Probe{{Row: name, Interval: 10 * time.Second}},
			})
			row := storetest.Row(g.Name, name, address, round)
			w.rows[g.Name][name] = row
			record, err := storetest.Record(len(records)+1, storetest.Row(g.Name, name, address, round.Add(-10*time.Second)), row)
			if err != nil {
				b.Fatal(err)
			}
			records = append(records, record)
		}
		f.Groups = append(f.Groups, g)
	}
	event, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		b.Fatal(err)
	}
	r := &reconciler.Reconciler{
		Fleet: f, Probes: probesTable{w.tables}, Health: w.tables, Balancer: idle{}, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return round.Add(time.Second) },
	}
	b.SetBytes(int64(len(event)))
	before := processTime(b)
	for b.Loop() {
		answer, err := r.Handle(b.Context(), event)
		if err != nil {
			b.Fatal(err)
		}
		if failed := answer.(events.DynamoDBEventResponse).BatchItemFailures; len(failed) > 0 {
			b.Fatalf("%d records failed", len(failed))
		}
	}
	b.ReportMetric(float64((processTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.StopTimer()
	if d := w.groups["group-00"]; len(d.Members) != perGroup {
		b.Fatalf("no decision was made: %+v", d)
	}
}

// processTime is the processor time that this process has used.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
