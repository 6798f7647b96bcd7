package operator_test

import (
	"crypto/rand"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sivchari/kumo"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

const (
	arn      = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/vpn/0123456789abcdef"
	interval = 10 * time.Second
)

// begin is when the first round of a world is.
var begin = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)

// world is an operator's deployment: both tables, a target group, a prober whose
// outcomes the test says, and a reconciler. Its clock stands still but for
// advance.
type world struct {
	*operator.Operator
	now        time.Time
	group      *fleet.Group
	aws        *balancertest.AWS
	probes     *store.Probes
	health     *store.Health
	reconciler *reconciler.Reconciler
	recent     map[string]string // latencies that the prober goes on from, by row
}

// newWorld has a group vpn with a server for each name.
func newWorld(t *testing.T, below int, servers ...string) *world {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	db := dynamodb.NewFromConfig(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &srv.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	tables := rand.Text() // kumo's servers share their state within a process
	if _, err := storetest.CreateTables(t.Context(), db, tables+"-probes", tables+"-health"); err != nil {
		t.Fatal(err)
	}
	g := fleet.Group{
		Name: "vpn", Mode: fleet.Enforce, Below: below, ReconcileInterval: 30 * time.Second, TargetGroups: []fleet.TargetGroup{{ARN: arn}},
		Health: health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute},
	}
	for i, name := range servers {
		g.Servers = append(g.Servers, fleet.Server{
			Name: name, Address: netip.AddrFrom4([4]byte{10, 0, 1, byte(10 + i)}), Admin: fleet.AdminAuto,
			Checks: []fleet.Probe{{
				Row: name, Method: fleet.PAP, Port: 1812, Interval: interval, FastInterval: time.Second, Attempts: 3, AttemptTimeout: time.Second,
				Criteria: health.Criteria{HealthyOn: []health.Outcome{health.Accept}, FailureOn: []health.Outcome{health.Reject, health.Timeout}},
			}},
		})
	}
	w := &world{now: begin, probes: &store.Probes{DynamoDB: db, Table: tables + "-probes"}, health: &store.Health{DynamoDB: db, Table: tables + "-health"}, recent: map[string]string{}}
	clock := func() time.Time { return w.now }
	w.aws = balancertest.New(clock)
	w.aws.AddTargetGroup(balancertest.TargetGroup{ARN: arn, Port: 1812, Protocol: "UDP", VPCID: "vpc-1", DeregistrationDelay: time.Minute})
	f := &fleet.Fleet{Version: "v1", Groups: []fleet.Group{g}}
	w.group = &f.Groups[0]
	w.reconciler = &reconciler.Reconciler{
		Fleet: f, Probes: w.probes, Health: w.health, Balancer: &balancer.Client{ELBv2: w.aws, EC2: w.aws, Now: clock},
		Log: slog.New(slog.DiscardHandler), Now: clock,
	}
	w.Operator = &operator.Operator{
		Fleet: f, Viewer: w.reconciler, History: w.health, Drains: &store.Drains{DynamoDB: db, Table: w.health.Table}, Now: clock,
	}
	return w
}

// round makes all checks now, lets the reconciler work on the results, and a
// second pass. The outcomes are one letter a check: a(ccept), r(eject),
// t(imeout), e(rror of the prober), - not probed.
func (w *world) round(t *testing.T, outcomes string) {
	t.Helper()
	letters := map[byte]health.Outcome{'a': health.Accept, 'r': health.Reject, 't': health.Timeout, 'e': health.ProberError}
	var records []reconciler.Record
	i := 0
	for _, s := range w.group.Servers {
		for _, c := range s.Checks {
			outcome, probed := letters[outcomes[i]]
			i++
			if !probed {
				continue
			}
			result := store.ProbeResult{
				Group: w.group.Name, Server: c.Row, Address: netip.AddrPortFrom(s.Address, c.Port).String(), Method: string(c.Method),
				Round: w.now, Outcome: outcome, Evidence: c.Criteria.Evidence(outcome), Transactions: 1, Transmissions: 1, Recent: w.recent[c.Row],
			}
			switch outcome {
			case health.Accept:
				result.Latency = 2 * time.Millisecond
			case health.Reject:
				result.Latency, result.ReplyMessage = 3*time.Millisecond, "no directory"
			}
			row, err := w.probes.Record(t.Context(), result)
			if err != nil {
				t.Fatal(err)
			}
			w.recent[c.Row] = row.RecentLatencyMS
			records = append(records, reconciler.Record{Sequence: c.Row, Row: row})
		}
	}
	if again := w.reconciler.Reconcile(t.Context(), records); again != nil {
		t.Fatalf("records %v failed", again)
	}
}

// rounds makes several rounds, each an interval after the one before, and ends
// at the last of them.
func (w *world) rounds(t *testing.T, outcomes ...string) {
	t.Helper()
	for _, o := range outcomes {
		w.now = w.now.Add(interval)
		w.round(t, o)
	}
}

// report is the group's report.
func (w *world) report(t *testing.T) operator.Group {
	t.Helper()
	r, err := w.Report(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return r.Groups[0]
}
