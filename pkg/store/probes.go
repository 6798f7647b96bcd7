package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/tidwall/gjson"

	"radwitness/pkg/health"
)

// probesRetention is how long a row of table probes outlives its last probe.
const probesRetention = 7 * 24 * time.Hour

// Probes is table probes: one row per group and server, or check of a server
// that has several, with the newest result and counters that only grow.
type Probes struct {
	DynamoDB DynamoDB
	Table    string
}

// ProbeResult is the result of one probe, to be recorded.
type ProbeResult struct {
	Group, Server        string // Server is the check's row: the server's name, or NAME/METHOD
	Address              string // address:port
	Method               string
	Round                time.Time
	Outcome              health.Outcome
	Evidence             health.Evidence // what the outcome proves under the server's criteria
	Reason               string
	Latency              time.Duration // 0 without a valid answer
	Recent               string        // ProbeRow.RecentLatencyMS as it was before
	Transactions         int
	Transmissions        int // of all transactions
	ReplyMessage         string
	MessageAuthenticator bool   // the answer carried a valid one
	Moved                bool   // the row is about another address: its streaks end here
	Gap                  bool   // the row's streak is too old to go on: it begins anew
	CredentialStage      string // of the credentials that worked, empty if none did
	Certificate          Certificate
}

// Certificate is what a server showed in its TLS handshake. The zero
// Certificate is none, and leaves what the row has of an earlier one.
type Certificate struct {
	Subject, Issuer string
	NotAfter        time.Time
	Chain           string // "valid", "not checked", or what is wrong with it
}

// ProbeRow is a row of table probes.
type ProbeRow struct {
	Group                    string         `dynamodbav:"group"`
	Server                   string         `dynamodbav:"server"`
	Address                  string         `dynamodbav:"address"`
	Method                   string         `dynamodbav:"method"`
	Round                    time.Time      `dynamodbav:"round"`
	Outcome                  health.Outcome `dynamodbav:"outcome"`
	Reason                   string         `dynamodbav:"reason"`
	ReplyMessage             string         `dynamodbav:"reply_message"`
	LatencyMS                float64        `dynamodbav:"latency_ms"`
	RecentLatencyMS          string         `dynamodbav:"recent_latency_ms"` // of the newest conclusive probes: see RecentLatencies
	Transmissions            int            `dynamodbav:"transmissions"`
	ConsecutiveFailures      int            `dynamodbav:"consecutive_failures"`
	ConsecutiveSuccesses     int            `dynamodbav:"consecutive_successes"`
	FailureSince             time.Time      `dynamodbav:"failure_since"`
	SuccessSince             time.Time      `dynamodbav:"success_since"`
	LastSuccess              time.Time      `dynamodbav:"last_success"`
	LastFailure              time.Time      `dynamodbav:"last_failure"`
	LastFailureOutcome       health.Outcome `dynamodbav:"last_failure_outcome"`
	MessageAuthenticatorSeen bool           `dynamodbav:"message_authenticator_seen"`
	CredentialStage          string         `dynamodbav:"credential_stage"` // that worked last
	CertSubject              string         `dynamodbav:"cert_subject"`
	CertIssuer               string         `dynamodbav:"cert_issuer"`
	CertExpiresAt            time.Time      `dynamodbav:"cert_expires_at"`
	CertChain                string         `dynamodbav:"cert_chain"`

	Requests          int64   `dynamodbav:"requests"` // transactions; retransmissions are counted apart
	Retransmits       int64   `dynamodbav:"retransmits"`
	Accepts           int64   `dynamodbav:"accepts"`
	Rejects           int64   `dynamodbav:"rejects"`
	Challenges        int64   `dynamodbav:"challenges"`
	Alives            int64   `dynamodbav:"alives"`
	Timeouts          int64   `dynamodbav:"timeouts"`
	Refused           int64   `dynamodbav:"refused"`
	BadAuthenticators int64   `dynamodbav:"bad_authenticators"`
	Malformed         int64   `dynamodbav:"malformed"`
	BadCertificates   int64   `dynamodbav:"bad_certificates"`
	ProberErrors      int64   `dynamodbav:"prober_errors"`
	LatencyMSSum      float64 `dynamodbav:"latency_ms_sum"` // of the transactions that were answered
}

// counter maps an outcome to the attribute that counts it.
func counter(o health.Outcome) string {
	switch o {
	case health.Accept, health.Reject, health.Challenge, health.Alive, health.Timeout,
		health.BadAuthenticator, health.BadCertificate, health.ProberError:
		return string(o) + "s"
	}
	return string(o) // refused, malformed
}

// Observation returns the part of the row that the state machine uses.
func (r ProbeRow) Observation() health.Observation {
	return health.Observation{
		Round: r.Round, Outcome: r.Outcome,
		ConsecutiveFailures: r.ConsecutiveFailures, ConsecutiveSuccesses: r.ConsecutiveSuccesses,
		FailureSince: r.FailureSince, SuccessSince: r.SuccessSince,
		LastSuccess: r.LastSuccess, LastFailure: r.LastFailure,
	}
}

// Record writes one result and returns the row as it is after it. A result
// whose round is not newer than the row's changes nothing and gives
// ErrNotNewer, so a duplicated event does no harm.
func (p *Probes) Record(ctx context.Context, r ProbeResult) (ProbeRow, error) {
	in := p.recordInput(r)
	out, err := p.DynamoDB.UpdateItem(ctx, in)
	switch {
	case conditionFailed(err):
		return ProbeRow{}, fmt.Errorf("recording probe of %s/%s: %w", r.Group, r.Server, ErrNotNewer)
	case err != nil:
		return ProbeRow{}, fmt.Errorf("recording probe of %s/%s: %w", r.Group, r.Server, err)
	}
	return decodeProbeRow(out.Attributes)
}

func (p *Probes) recordInput(r ProbeResult) *dynamodb.UpdateItemInput {
	u := newUpdate()
	outcome := stringValue(string(r.Outcome))
	u.Set("outcome", outcome)
	u.Set("round", timeValue(r.Round))
	u.Set("address", stringValue(r.Address))
	u.Set("method", stringValue(r.Method))
	u.Set("transmissions", &types.AttributeValueMemberN{Value: strconv.Itoa(r.Transmissions)})
	u.Set("expires_at", &types.AttributeValueMemberN{Value: strconv.FormatInt(r.Round.Add(probesRetention).Unix(), 10)})
	setOrRemove(u, "reason", r.Reason)
	setOrRemove(u, "reply_message", r.ReplyMessage)
	if r.Latency > 0 {
		ms := milliseconds(r.Latency)
		u.Set("latency_ms", &types.AttributeValueMemberN{Value: ms})
		u.Add("latency_ms_sum", ms)
	} else {
		u.Remove("latency_ms")
	}
	if r.MessageAuthenticator {
		u.Set("message_authenticator_seen", &types.AttributeValueMemberBOOL{Value: true})
	} else if r.Moved {
		u.Remove("message_authenticator_seen")
	}
	if r.CredentialStage != "" {
		u.Set("credential_stage", stringValue(r.CredentialStage))
	}
	if c := r.Certificate; !c.NotAfter.IsZero() {
		u.Set("cert_subject", stringValue(c.Subject))
		u.Set("cert_issuer", stringValue(c.Issuer))
		u.Set("cert_expires_at", timeValue(c.NotAfter))
		u.Set("cert_chain", stringValue(c.Chain))
	}
	if r.Evidence != health.NoEvidence {
		u.Set("recent_latency_ms", stringValue(appendLatency(r.Recent, r.Latency)))
	} else if r.Moved {
		u.Remove("recent_latency_ms")
	}
	switch r.Evidence {
	case health.Success:
		streak(u, r, "success", "consecutive_successes", "failure", "consecutive_failures")
	case health.Failure:
		streak(u, r, "failure", "consecutive_failures", "success", "consecutive_successes")
		u.Set("last_failure_outcome", outcome)
	case health.NoEvidence:
		if r.Moved {
			for _, kind := range []string{"success", "failure"} {
				u.Remove(kind + "_since")
			}
			for _, count := range []string{"consecutive_successes", "consecutive_failures"} {
				u.Set(count, &types.AttributeValueMemberN{Value: "0"})
			}
		}
	}
	u.Add(counter(r.Outcome), "1")
	if r.Transmissions > 0 {
		u.Add("requests", strconv.Itoa(r.Transactions))
		u.Add("retransmits", strconv.Itoa(r.Transmissions-r.Transactions))
	}
	return u.Input(p.Table, map[string]types.AttributeValue{
		"group": stringValue(r.Group), "server": stringValue(r.Server),
	}, "attribute_not_exists(#round) OR #round < :round")
}

// streak lengthens the running streak of one kind and ends that of the other.
func streak(u *update, r ProbeResult, kind, count, otherKind, otherCount string) {
	if r.Moved || r.Gap {
		u.Set(count, &types.AttributeValueMemberN{Value: "1"})
		u.Set(kind+"_since", timeValue(r.Round))
	} else {
		u.Add(count, "1")
		u.SetOnce(kind+"_since", timeValue(r.Round))
	}
	u.Set("last_"+kind, timeValue(r.Round))
	u.Set(otherCount, &types.AttributeValueMemberN{Value: "0"})
	u.Remove(otherKind + "_since")
}

func setOrRemove(u *update, attribute, s string) {
	if s == "" {
		u.Remove(attribute)
		return
	}
	u.Set(attribute, stringValue(s))
}

// milliseconds writes a duration as decimal milliseconds down to the
// microsecond, exactly: sums of binary fractions would drift.
func milliseconds(d time.Duration) string {
	us := max(d.Microseconds(), 1)
	return fmt.Sprintf("%d.%03d", us/1000, us%1000)
}

// Group reads the rows of a group, by server. A row that cannot be read is
// reported in the error; the others are returned with it.
func (p *Probes) Group(ctx context.Context, group string) (map[string]ProbeRow, error) {
	items, err := query(ctx, p.DynamoDB, &dynamodb.QueryInput{
		TableName:                 &p.Table,
		KeyConditionExpression:    aws.String("#group = :group"),
		ExpressionAttributeNames:  map[string]string{"#group": "group"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":group": stringValue(group)},
	})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]ProbeRow, len(items))
	var bad []error
	for _, item := range items {
		row, err := decodeProbeRow(item)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		rows[row.Server] = row
	}
	return rows, errors.Join(bad...)
}

// ProbeRowFromStream reads the new image of a stream record, which is valid JSON
// in DynamoDB's form. Records come a thousand at a time, so this goes through
// the text once; the types of package events go through it a dozen times.
func ProbeRowFromStream(image string) (ProbeRow, error) {
	item := make(map[string]types.AttributeValue, 32)
	var bad error
	gjson.Parse(image).ForEach(func(name, attribute gjson.Result) bool {
		attribute.ForEach(func(kind, v gjson.Result) bool {
			switch {
			case kind.Str == "S" && v.Type == gjson.String:
				item[name.String()] = stringValue(v.String())
			case kind.Str == "N" && v.Type == gjson.String:
				item[name.String()] = &types.AttributeValueMemberN{Value: v.String()}
			case kind.Str == "BOOL" && v.IsBool():
				item[name.String()] = &types.AttributeValueMemberBOOL{Value: v.Bool()}
			case kind.Str == "S", kind.Str == "N", kind.Str == "BOOL":
				bad = fmt.Errorf("attribute %s has a %s that is a JSON %s", name, kind, v.Type)
			}
			// No attribute of ours has another type; one that does is taken as missing.
			return false
		})
		return bad == nil
	})
	if bad != nil {
		return ProbeRow{}, fmt.Errorf("reading probes row %s: %w", rowName(item, "server"), bad)
	}
	return decodeProbeRow(item)
}

func decodeProbeRow(item map[string]types.AttributeValue) (ProbeRow, error) {
	var row ProbeRow
	if err := attributevalue.UnmarshalMap(item, &row); err != nil {
		return ProbeRow{}, fmt.Errorf("reading probes row %s: %w", rowName(item, "server"), err)
	}
	if err := row.validate(); err != nil {
		return ProbeRow{}, fmt.Errorf("reading probes row %s: %w", rowName(item, "server"), err)
	}
	return row, nil
}

// rowName names an item by its key as far as it has one.
func rowName(item map[string]types.AttributeValue, sortKey string) string {
	part := func(attribute string) string {
		if s, ok := item[attribute].(*types.AttributeValueMemberS); ok {
			return s.Value
		}
		return "(no " + attribute + ")"
	}
	return part("group") + "/" + part(sortKey)
}

// validate refuses a row that the state machine could misread.
func (r ProbeRow) validate() error {
	switch {
	case r.Group == "":
		return errors.New("group is missing")
	case r.Server == "":
		return errors.New("server is missing")
	case r.Round.IsZero():
		return errors.New("round is missing")
	case !slices.Contains(health.Outcomes(), r.Outcome):
		return fmt.Errorf("outcome %q is not a known one", r.Outcome)
	case r.ConsecutiveFailures < 0 || r.ConsecutiveSuccesses < 0:
		return errors.New("a streak is negative")
	case r.ConsecutiveFailures > 0 && r.ConsecutiveSuccesses > 0:
		return errors.New("consecutive_failures and consecutive_successes are both above 0")
	case r.ConsecutiveFailures > 0 && (r.LastFailure.IsZero() || r.FailureSince.IsZero()):
		return errors.New("a streak of failures has no last_failure or failure_since")
	case r.ConsecutiveSuccesses > 0 && (r.LastSuccess.IsZero() || r.SuccessSince.IsZero()):
		return errors.New("a streak of successes has no last_success or success_since")
	}
	for name, t := range map[string]time.Time{
		"last_success": r.LastSuccess, "last_failure": r.LastFailure, "success_since": r.SuccessSince, "failure_since": r.FailureSince,
	} {
		if t.After(r.Round) {
			return fmt.Errorf("%s is after round", name)
		}
	}
	return nil
}
