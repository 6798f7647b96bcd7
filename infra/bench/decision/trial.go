package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"radwitness/infra/bench/estate"
	"radwitness/pkg/balancer"
	"radwitness/pkg/bootstrap"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// trial is a reconciler that is given rounds.
type trial struct {
	estate     *estate.Estate
	meter      *meter
	reconciler *reconciler.Reconciler
	down       map[[2]int]bool // group, server
}

// newTrial wires a reconciler as the function does, and has all servers well.
func newTrial(ctx context.Context, e *estate.Estate, log *slog.Logger) (*trial, error) {
	own, err := bootstrap.AWS(ctx)
	if err != nil {
		return nil, err
	}
	cfg := e.AWS()
	t := &trial{estate: e, meter: &meter{next: own.HTTPClient}, down: map[[2]int]bool{}}
	cfg.HTTPClient, cfg.Retryer = t.meter, own.Retryer
	db := dynamodb.NewFromConfig(cfg)
	t.reconciler = &reconciler.Reconciler{
		Fleet:  e.Fleet,
		Probes: &store.Probes{DynamoDB: db, Table: estate.ProbesTable}, Health: &store.Health{DynamoDB: db, Table: estate.HealthTable},
		Balancer: &balancer.Client{ELBv2: elbv2.NewFromConfig(cfg)}, Log: log,
	}
	return t, t.play(ctx, nil)
}

// round is what one batch took.
type round struct {
	calls      []call
	start, end time.Time
	// What this process had used.
	processorAtStart, processorAtEnd time.Duration
}

// play records a round and has the reconciler work on it.
func (t *trial) play(ctx context.Context, measured *rounds) error {
	event, err := t.estate.Round(ctx, func(group, server int) health.Outcome {
		if t.down[[2]int{group, server}] {
			return health.Reject
		}
		return health.Accept
	})
	if err != nil {
		return err
	}
	r := round{start: time.Now(), processorAtStart: processTime()}
	if err := t.deliver(ctx, event); err != nil {
		return err
	}
	r.end, r.processorAtEnd = time.Now(), processTime()
	r.calls = t.meter.take()
	if measured != nil {
		measured.add(r)
	}
	return nil
}

func (t *trial) deliver(ctx context.Context, event json.RawMessage) error {
	answer, err := t.reconciler.Handle(ctx, event)
	if err != nil {
		return err
	}
	if failed := answer.(events.DynamoDBEventResponse).BatchItemFailures; len(failed) > 0 {
		return fmt.Errorf("%d records failed", len(failed))
	}
	return nil
}

// fall has servers fail until the next round is the one that takes them out.
func (t *trial) fall(ctx context.Context, servers ...[2]int) error {
	for _, s := range servers {
		t.down[s] = true
	}
	for range t.estate.Fleet.Groups[0].Health.FailureThreshold - 1 {
		_, err := t.estate.Round(ctx, func(group, server int) health.Outcome {
			if slices.Contains(servers, [2]int{group, server}) {
				return health.Reject
			}
			return ""
		})
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond) // rounds of a server are a millisecond apart at least
	}
	return nil
}

// atRest plays rounds in which nothing happens.
func (t *trial) atRest(ctx context.Context, n int) (*rounds, error) {
	var measured rounds
	for range n {
		if err := t.play(ctx, &measured); err != nil {
			return nil, err
		}
	}
	return &measured, nil
}

// oneFalls plays rounds in each of which one server of one group falls.
func (t *trial) oneFalls(ctx context.Context, n int) (*rounds, error) {
	var measured rounds
	groups := t.estate.Fleet.Groups
	for i := range n {
		group, server := i%len(groups), i/len(groups)
		if server >= len(groups[group].Servers)/2 {
			break // the other half is for the next measurement
		}
		if err := t.fall(ctx, [2]int{group, server}); err != nil {
			return nil, err
		}
		if err := t.play(ctx, &measured); err != nil {
			return nil, err
		}
	}
	return &measured, nil
}

// everyGroupFalls plays rounds in each of which one server of every group falls,
// until half of them are left.
func (t *trial) everyGroupFalls(ctx context.Context) (*rounds, error) {
	var measured rounds
	groups := t.estate.Fleet.Groups
	for server := range len(groups[0].Servers) / 2 {
		var falling [][2]int
		for group := range groups {
			falling = append(falling, [2]int{group, len(groups[group].Servers) - 1 - server})
		}
		if err := t.fall(ctx, falling...); err != nil {
			return nil, err
		}
		if err := t.play(ctx, &measured); err != nil {
			return nil, err
		}
	}
	return &measured, nil
}

// rounds are the figures of a scenario.
type rounds struct {
	n int
	// By call that deregisters, or by round if it has none.
	wall, inFlight, own, processor []time.Duration
	whole                          []time.Duration // processor time of a round
	fewest, most                   map[string]int  // calls by action
}

func (m *rounds) add(r round) {
	m.n++
	m.whole = append(m.whole, r.processorAtEnd-r.processorAtStart)
	count, dialed := map[string]int{}, 0
	var ends []call
	for _, c := range r.calls {
		count[c.action]++
		if c.dialed {
			dialed++
		}
		if c.action == "DeregisterTargets" {
			ends = append(ends, c)
		}
	}
	if len(ends) == 0 {
		ends = append(ends, call{start: r.end, processor: r.processorAtEnd})
	}
	for _, end := range ends {
		wall, waiting := end.start.Sub(r.start), inFlight(r.calls, end.start)
		m.wall, m.inFlight, m.own = append(m.wall, wall), append(m.inFlight, waiting), append(m.own, wall-waiting)
		m.processor = append(m.processor, end.processor-r.processorAtStart)
	}
	count["new connections"] = dialed
	if m.fewest == nil {
		m.fewest, m.most = maps.Clone(count), map[string]int{}
	}
	for action, n := range count {
		m.fewest[action], m.most[action] = min(m.fewest[action], n), max(m.most[action], n)
	}
}

// row is the line of the table.
func (m *rounds) row(name string) string {
	cells := []string{name, fmt.Sprint(m.n)}
	for _, list := range [][]time.Duration{m.wall, m.inFlight, m.own, m.processor, m.whole} {
		slices.Sort(list)
		for _, q := range []float64{0.5, 0.99} {
			d := list[min(int(q*float64(len(list))), len(list)-1)]
			cells = append(cells, fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000))
		}
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// callsOf is a line of what was called in a round.
func (m *rounds) callsOf(name string) string {
	var parts []string
	for _, action := range slices.Sorted(maps.Keys(m.most)) {
		if least, most := m.fewest[action], m.most[action]; least == most {
			parts = append(parts, fmt.Sprintf("%s %d", action, most))
		} else {
			parts = append(parts, fmt.Sprintf("%s %d to %d", action, least, most))
		}
	}
	return fmt.Sprintf("  %s: %s\n", name, strings.Join(parts, ", "))
}

// processTime is the processor time that this process has used.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for one's own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
