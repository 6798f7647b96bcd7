package reconciler_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/sivchari/kumo"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// wire counts the API calls that go over HTTP, by action.
type wire struct {
	mu    sync.Mutex
	calls map[string]int
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	// The JSON protocols name the action in a header, the query protocol in the body.
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if action == "" && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, err
		}
		action = form.Get("Action")
	}
	w.mu.Lock()
	w.calls[action]++
	w.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// take returns the calls so far and begins anew.
func (w *wire) take() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = map[string]int{}
	return calls
}

func TestCallsOnTheWire(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	counted := &wire{calls: map[string]int{}}
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &srv.URL, HTTPClient: counted,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	db, elb := dynamodb.NewFromConfig(cfg), elbv2.NewFromConfig(cfg)
	if _, err := storetest.CreateTables(t.Context(), db, "wire-probes", "wire-health"); err != nil {
		t.Fatal(err)
	}
	created, err := elb.CreateTargetGroup(t.Context(), &elbv2.CreateTargetGroupInput{
		Name: aws.String("wire"), Protocol: elbv2types.ProtocolEnumUdp, Port: aws.Int32(1812), TargetType: elbv2types.TargetTypeEnumIp, VpcId: aws.String("vpc-1"),
	})
	if err != nil {
		t.Fatal(err)
	}

	w := newWorld(1, "a", "b")
	w.group.TargetGroups[0].ARN = *created.TargetGroups[0].TargetGroupArn
	w.group.ReconcileInterval = time.Nanosecond // every batch makes a pass
	probes := &store.Probes{DynamoDB: db, Table: "wire-probes"}
	w.Reconciler = &reconciler.Reconciler{
		Fleet: &fleet.Fleet{Groups: []fleet.Group{*w.group}}, Probes: probes, Health: &store.Health{DynamoDB: db, Table: "wire-health"},
		Balancer: &balancer.Client{ELBv2: elb}, Log: slog.New(slog.DiscardHandler),
	}
	round := time.Now()
	deliver := func() {
		t.Helper()
		round = round.Add(time.Second)
		var records []json.RawMessage
		for _, server := range []string{"a", "b"} {
			row, err := probes.Record(t.Context(), store.ProbeResult{
				Group: "vpn", Server: server, Round: round, Outcome: health.Accept, Evidence: health.Success, Transmissions: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, w.record(row))
		}
		counted.take()
		if failed := w.deliver(t, records...); failed != nil {
			t.Fatalf("records %v failed", failed)
		}
	}

	deliver()
	// Two states with their transitions, the decision, what was changed, and that it is carried out.
	want := map[string]int{"Query": 2, "PutItem": 7, "DescribeTargetGroups": 1, "DescribeTargetHealth": 1, "RegisterTargets": 1}
	if got := counted.take(); !maps.Equal(got, want) {
		t.Errorf("first batch: %v, want %v", got, want)
	}
	want = map[string]int{"Query": 2, "DescribeTargetHealth": 1}
	for range 10 {
		deliver()
		if got := counted.take(); !maps.Equal(got, want) {
			t.Fatalf("a pass on a group at rest: %v, want %v", got, want)
		}
	}
}
