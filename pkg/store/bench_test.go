package store

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/pkg/health"
)

// answering is an HTTP client whose every request has the same answer.
type answering string

func (a answering) Do(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader([]byte(a))),
	}, nil
}

// BenchmarkRecord is what it costs to record a result, but for the network.
func BenchmarkRecord(b *testing.B) {
	const row = `{"Attributes":{"group":{"S":"vpn-auth"},"server":{"S":"ise-1"},"address":{"S":"10.0.1.10:1812"},"method":{"S":"pap"},
		"round":{"S":"2026-11-30T10:00:00.000Z"},"outcome":{"S":"accept"},"latency_ms":{"N":"5.123"},"latency_ms_sum":{"N":"123456.789"},
		"transmissions":{"N":"1"},"requests":{"N":"10000"},"retransmits":{"N":"3"},"accepts":{"N":"9990"},"timeouts":{"N":"3"},
		"consecutive_successes":{"N":"4711"},"consecutive_failures":{"N":"0"},"success_since":{"S":"2026-11-29T10:00:00.000Z"},
		"last_success":{"S":"2026-11-30T10:00:00.000Z"},"last_failure":{"S":"2026-11-29T09:59:50.000Z"},"last_failure_outcome":{"S":"timeout"},
		"message_authenticator_seen":{"BOOL":true},"credential_stage":{"S":"AWSCURRENT"},"expires_at":{"N":"1796000000"}}}`
	rows := Probes{Table: "probes", DynamoDB: dynamodb.NewFromConfig(aws.Config{
		Region: "eu-central-1", HTTPClient: answering(row), Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""),
	})}
	result := ProbeResult{
		Group: "vpn-auth", Server: "ise-1", Address: "10.0.1.10:1812", Method: "pap", Round: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
		Outcome: health.Accept, Evidence: health.Success, Latency: 5123 * time.Microsecond, Transactions: 1, Transmissions: 1,
		MessageAuthenticator: true, CredentialStage: "AWSCURRENT",
	}
	for b.Loop() {
		if _, err := rows.Record(b.Context(), result); err != nil {
			b.Fatal(err)
		}
	}
}
