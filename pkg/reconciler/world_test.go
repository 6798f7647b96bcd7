package reconciler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
	"radwitness/pkg/telemetry"
)

const arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/vpn/0123456789abcdef"

// firstChecks is how long a target is initial.
const firstChecks = 2 * time.Minute

// tables are both tables in memory, with the conditions of the real ones.
type tables struct {
	mu          sync.Mutex
	rows        map[string]map[string]store.ProbeRow // by group, server
	states      map[string]map[string]health.State
	addresses   map[string]string      // by server
	drains      map[string]store.Drain // by server
	groups      map[string]store.GroupRow
	transitions map[string]store.Transition // by key, as the table has them
	changed     []store.Change
	writes      int
	unreadable  map[string]error
	err         error
}

type probesTable struct{ *tables }

func (t probesTable) Group(_ context.Context, group string) (map[string]store.ProbeRow, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := maps.Clone(t.rows[group])
	if rows == nil {
		rows = map[string]store.ProbeRow{}
	}
	return rows, t.err
}

func (t *tables) Group(_ context.Context, group string) (store.GroupHealth, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	states := maps.Clone(t.states[group])
	if states == nil {
		states = map[string]health.State{}
	}
	return store.GroupHealth{States: states, Addresses: maps.Clone(t.addresses), Drains: maps.Clone(t.drains), Group: t.groups[group], Unreadable: t.unreadable}, t.err
}

func (t *tables) SaveState(_ context.Context, group, server string, s health.State, tr store.Transition) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if s.Since.Before(t.states[group][server].Since) {
		return fmt.Errorf("saving state of %s/%s: %w", group, server, store.ErrNotNewer)
	}
	t.writes += 2
	if t.states[group] == nil {
		t.states[group] = map[string]health.State{}
	}
	t.states[group][server], t.addresses[server] = s, tr.Address
	t.transitions[tr.At.Format(time.RFC3339Nano)+"#"+server] = tr
	return nil
}

func (t *tables) SaveChange(_ context.Context, _ string, c store.Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	t.writes++
	t.changed = append(t.changed, c)
	return nil
}

func (t *tables) SaveGroup(_ context.Context, group string, row store.GroupRow, tr *store.Transition) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	t.writes++
	if tr != nil {
		t.writes++
		t.transitions[tr.At.Format(time.RFC3339Nano)+"#"+tr.To] = *tr
	}
	t.groups[group] = row
	return nil
}

// world is a reconciler with everything around it.
type world struct {
	*reconciler.Reconciler
	*tables
	aws      *balancertest.AWS
	log      *bytes.Buffer
	metrics  *bytes.Buffer
	group    *fleet.Group
	sequence int
}

// newWorld has one group with the given servers, all on an ip target group.
func newWorld(below int, servers ...string) *world {
	g := fleet.Group{
		Name: "vpn", Mode: fleet.Enforce, Below: below, ReconcileInterval: 30 * time.Second,
		TargetGroups: []fleet.TargetGroup{{ARN: arn}},
		Health:       health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute},
	}
	for i, name := range servers {
		g.Servers = append(g.Servers, fleet.Server{
			Name: name, Address: netip.AddrFrom4([4]byte{10, 0, 1, byte(10 + i)}),
			Admin: fleet.AdminAuto, Checks: []fleet.Probe{{Row: name, Interval: 10 * time.Second}},
		})
	}
	f := &fleet.Fleet{Version: "v1", Groups: []fleet.Group{g}}
	w := &world{
		tables: &tables{
			rows: map[string]map[string]store.ProbeRow{}, states: map[string]map[string]health.State{},
			addresses: map[string]string{},
			groups:    map[string]store.GroupRow{}, transitions: map[string]store.Transition{},
		},
		aws: balancertest.New(time.Now), log: &bytes.Buffer{}, metrics: &bytes.Buffer{}, group: &f.Groups[0],
	}
	w.addTargetGroup(0)
	w.Reconciler = w.reconciler(f)
	return w
}

// addTargetGroup makes the target group, whose targets are initial for a time.
func (w *world) addTargetGroup(checks time.Duration) {
	w.aws.AddTargetGroup(balancertest.TargetGroup{
		ARN: arn, Port: 1812, Protocol: "UDP", VPCID: "vpc-1", DeregistrationDelay: 5 * time.Minute, InitialDelay: checks,
	})
}

// reconciler makes another one in the same world, as a cold start does.
func (w *world) reconciler(f *fleet.Fleet) *reconciler.Reconciler {
	return &reconciler.Reconciler{
		Fleet: f, Probes: probesTable{w.tables}, Health: w.tables,
		Balancer: &balancer.Client{ELBv2: w.aws, EC2: w.aws},
		Log:      slog.New(slog.NewJSONHandler(w.log, nil)), Metrics: &telemetry.Metrics{Out: w.metrics},
	}
}

// probe records the result of a probe now, as the prober would, and returns the
// stream record of it.
func (w *world) probe(server string, o health.Outcome) json.RawMessage {
	return w.probeAt(server, o, time.Now().UTC())
}

func (w *world) probeAt(server string, o health.Outcome, round time.Time) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	group := w.group.Name
	if w.rows[group] == nil {
		w.rows[group] = map[string]store.ProbeRow{}
	}
	row := w.rows[group][server]
	row.Group, row.Server, row.Round, row.Outcome = group, server, round, o
	if s, ok := w.group.Server(server); ok {
		if address := netip.AddrPortFrom(s.Address, 1812).String(); row.Address != address {
			row = store.ProbeRow{Group: group, Server: server, Round: round, Outcome: o}
		}
		row.Address = netip.AddrPortFrom(s.Address, 1812).String()
	}
	switch o {
	case health.Accept:
		row.ConsecutiveSuccesses, row.ConsecutiveFailures, row.FailureSince = row.ConsecutiveSuccesses+1, 0, time.Time{}
		row.LastSuccess = round
		if row.ConsecutiveSuccesses == 1 {
			row.SuccessSince = round
		}
	case health.Reject:
		row.ConsecutiveFailures, row.ConsecutiveSuccesses, row.SuccessSince = row.ConsecutiveFailures+1, 0, time.Time{}
		row.LastFailure = round
		if row.ConsecutiveFailures == 1 {
			row.FailureSince = round
		}
	}
	w.rows[group][server] = row
	return w.record(row)
}

// record is the stream record of a row.
func (w *world) record(row store.ProbeRow) json.RawMessage {
	w.sequence++
	image := map[string]events.DynamoDBAttributeValue{
		"group": events.NewStringAttribute(row.Group), "server": events.NewStringAttribute(row.Server),
		"address":               events.NewStringAttribute(row.Address),
		"outcome":               events.NewStringAttribute(string(row.Outcome)),
		"consecutive_failures":  events.NewNumberAttribute(strconv.Itoa(row.ConsecutiveFailures)),
		"consecutive_successes": events.NewNumberAttribute(strconv.Itoa(row.ConsecutiveSuccesses)),
	}
	for name, t := range map[string]time.Time{
		"round": row.Round, "failure_since": row.FailureSince, "success_since": row.SuccessSince,
		"last_success": row.LastSuccess, "last_failure": row.LastFailure,
	} {
		if !t.IsZero() {
			image[name] = events.NewStringAttribute(t.Format("2006-01-02T15:04:05.000Z"))
		}
	}
	b, err := json.Marshal(events.DynamoDBEventRecord{
		EventID: fmt.Sprintf("event-%d", w.sequence), EventName: "MODIFY",
		Change: events.DynamoDBStreamRecord{SequenceNumber: strconv.Itoa(w.sequence), NewImage: image},
	})
	if err != nil {
		panic(err)
	}
	return b
}

// deliver gives records to the handler as Lambda would, and returns the
// sequence numbers that it reports as failed.
func (w *world) deliver(t fataler, records ...json.RawMessage) []string {
	t.Helper()
	event, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := w.Handle(context.Background(), event)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range answer.(events.DynamoDBEventResponse).BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	return failed
}

type fataler interface {
	Helper()
	Fatal(...any)
}

// addCheck gives a server a second check, with a row of its own.
func (w *world) addCheck(server int) {
	s := &w.group.Servers[server]
	s.Checks[0].Row = s.Name + "/pap"
	s.Checks = append(s.Checks, fleet.Probe{Row: s.Name + "/accounting", Interval: s.Checks[0].Interval})
}

// checks lists the rows of all servers, in the fleet's order.
func (w *world) checks() []string {
	var list []string
	for _, s := range w.group.Servers {
		for _, c := range s.Checks {
			list = append(list, c.Row)
		}
	}
	return list
}

// round makes all checks now and delivers the records in one batch. The
// outcomes are one letter a check, which is one a server unless it has more: a(ccept), r(eject), e(rror of the prober),
// - not probed.
func (w *world) round(t fataler, outcomes string) []string {
	t.Helper()
	letters := map[rune]health.Outcome{'a': health.Accept, 'r': health.Reject, 'e': health.ProberError}
	records := []json.RawMessage{}
	for i, letter := range outcomes {
		if o, ok := letters[letter]; ok {
			records = append(records, w.probe(w.checks()[i], o))
		}
	}
	return w.deliver(t, records...)
}

// registered lists the servers whose target is registered, joined.
func (w *world) registered() string {
	var names []string
	for _, target := range w.aws.Targets(arn) {
		if target.State == "draining" {
			continue
		}
		name := target.ID
		for _, s := range w.group.Servers {
			if s.Address.String() == target.ID {
				name = s.Name
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (w *world) changes() int {
	return w.aws.Count(balancertest.RegisterTargets, balancertest.DeregisterTargets)
}

// lines decodes the log lines with the given message.
func (w *world) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(w.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if m["msg"] == msg {
			list = append(list, m)
		}
	}
	return list
}
