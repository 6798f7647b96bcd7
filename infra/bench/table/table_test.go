package table_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/infra/bench/table"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// The table does with results what DynamoDB does, as far as the prober can see.
func TestTable(t *testing.T) {
	rows := table.New()
	server := httptest.NewServer(rows)
	defer server.Close()
	probes := store.Probes{Table: "probes", DynamoDB: dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""),
	})}
	begin := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	record := func(round int, o health.Outcome, e health.Evidence) (store.ProbeRow, error) {
		return probes.Record(t.Context(), store.ProbeResult{
			Group: "vpn-auth", Server: "ise-1", Address: "10.0.1.10:1812", Method: "pap", Round: begin.Add(time.Duration(round) * time.Second),
			Outcome: o, Evidence: e, Latency: 1500 * time.Microsecond, Transactions: 1, Transmissions: 2,
		})
	}
	for round, o := range []health.Outcome{health.Accept, health.Timeout, health.Timeout} {
		evidence := health.Success
		if o == health.Timeout {
			evidence = health.Failure
		}
		if _, err := record(round, o, evidence); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := record(2, health.Accept, health.Success); !errors.Is(err, store.ErrNotNewer) {
		t.Errorf("the same round again: %v", err)
	}
	group, err := probes.Group(t.Context(), "vpn-auth")
	if err != nil {
		t.Fatal(err)
	}
	r := group["ise-1"]
	if len(group) != 1 || r.Outcome != health.Timeout || r.ConsecutiveFailures != 2 || r.ConsecutiveSuccesses != 0 ||
		!r.FailureSince.Equal(begin.Add(time.Second)) || !r.SuccessSince.IsZero() || r.Accepts != 1 || r.Timeouts != 2 ||
		r.Retransmits != 3 || r.LatencyMSSum != 4.5 {
		t.Errorf("got %+v", r)
	}
	rounds := rows.Rounds()
	if len(rounds) != 3 || !rounds[1].Round.Equal(begin.Add(time.Second)) || rounds[1].Rows != 1 || rounds[1].Outcomes["timeout"] != 1 ||
		time.Since(rounds[1].Last) > time.Hour {
		t.Errorf("rounds %+v", rounds)
	}
}
