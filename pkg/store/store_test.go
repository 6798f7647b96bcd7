package store_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/sivchari/kumo"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

func newTables(t *testing.T) (*store.Probes, *store.Health, *dynamodb.Client) {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	db := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &srv.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	// kumo's servers share their state within a process: names keep tests apart.
	name := strings.ReplaceAll(t.Name(), "/", "-")
	probes, health := name+"-probes", name+"-health"
	if _, err := storetest.CreateTables(t.Context(), db, probes, health); err != nil {
		t.Fatal(err)
	}
	return &store.Probes{DynamoDB: db, Table: probes}, &store.Health{DynamoDB: db, Table: health}, db
}

func result(round time.Time, o health.Outcome, e health.Evidence) store.ProbeResult {
	r := store.ProbeResult{
		Group: "vpn", Server: "ise-1", Address: "10.0.1.10:1812", Method: "pap",
		Round: round, Outcome: o, Evidence: e, Transactions: 1, Transmissions: 1,
	}
	if o != health.Timeout && o != health.ProberError {
		r.Latency = 2500 * time.Microsecond
	}
	return r
}

func record(t *testing.T, p *store.Probes, r store.ProbeResult) store.ProbeRow {
	t.Helper()
	row, err := p.Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestRecordKeepsStreaksAndCounters(t *testing.T) {
	p, _, _ := newTables(t)
	accepted := result(at(0), health.Accept, health.Success)
	accepted.MessageAuthenticator = true
	accepted.ReplyMessage = "hello"
	record(t, p, accepted)
	record(t, p, result(at(10), health.Accept, health.Success))
	timeout := result(at(20), health.Timeout, health.Failure)
	timeout.Transmissions, timeout.Reason = 3, "no answer"
	record(t, p, timeout)
	record(t, p, result(at(21), health.ProberError, health.NoEvidence))
	got := record(t, p, result(at(22), health.Reject, health.Failure))

	want := store.ProbeRow{
		Group: "vpn", Server: "ise-1", Address: "10.0.1.10:1812", Method: "pap",
		Round: at(22), Outcome: health.Reject,
		LatencyMS: 2.5, RecentLatencyMS: "2.5", Transmissions: 1,
		ConsecutiveFailures: 2, FailureSince: at(20), LastSuccess: at(10), LastFailure: at(22),
		LastFailureOutcome: health.Reject, MessageAuthenticatorSeen: true,
		Requests: 5, Retransmits: 2, Accepts: 2, Rejects: 1, Timeouts: 1, ProberErrors: 1, LatencyMSSum: 7.5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row after five probes (-want +got):\n%s", diff)
	}

	got = record(t, p, result(at(30), health.Accept, health.Success))
	if got.ConsecutiveFailures != 0 || got.ConsecutiveSuccesses != 1 || !got.FailureSince.IsZero() || !got.SuccessSince.Equal(at(30)) {
		t.Errorf("a success must end the streak of failures: %+v", got)
	}
	rows, err := p.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]store.ProbeRow{"ise-1": got}, rows); diff != "" {
		t.Errorf("the group read back (-want +got):\n%s", diff)
	}
}

// At another address there is another machine: no streak goes on.
func TestAMovedServerBeginsAnew(t *testing.T) {
	for _, c := range []struct {
		evidence            health.Evidence
		outcome             health.Outcome
		failures, successes int
	}{
		{health.Failure, health.Reject, 1, 0},
		{health.Success, health.Accept, 0, 1},
		{health.NoEvidence, health.ProberError, 0, 0},
	} {
		t.Run(string(c.outcome), func(t *testing.T) {
			p, _, _ := newTables(t)
			for i := range 3 {
				before := result(at(float64(i)), c.outcome, c.evidence)
				if c.evidence == health.NoEvidence {
					before = result(at(float64(i)), health.Accept, health.Success)
				}
				before.MessageAuthenticator = true
				record(t, p, before)
			}
			moved := result(at(10), c.outcome, c.evidence)
			moved.Address, moved.Moved = "10.0.2.10:1812", true
			row := record(t, p, moved)
			if row.ConsecutiveFailures != c.failures || row.ConsecutiveSuccesses != c.successes || row.MessageAuthenticatorSeen {
				t.Errorf("row %+v", row)
			}
			if since := row.FailureSince; c.failures > 0 && !since.Equal(at(10)) {
				t.Errorf("failure_since %v", since)
			}
			if since := row.SuccessSince; c.successes > 0 && !since.Equal(at(10)) {
				t.Errorf("success_since %v", since)
			}
		})
	}
}

func TestEveryOutcomeHasItsCounter(t *testing.T) {
	p, _, db := newTables(t)
	for i, o := range health.Outcomes() {
		record(t, p, result(at(float64(i)), o, health.NoEvidence))
	}
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &p.Table, Key: map[string]types.AttributeValue{
		"group": &types.AttributeValueMemberS{Value: "vpn"}, "server": &types.AttributeValueMemberS{Value: "ise-1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, counter := range []string{"accepts", "rejects", "challenges", "alives", "timeouts", "refused", "bad_authenticators", "malformed", "bad_certificates", "prober_errors"} {
		if n, ok := out.Item[counter].(*types.AttributeValueMemberN); !ok || n.Value != "1" {
			t.Errorf("%s = %v, want 1", counter, out.Item[counter])
		}
	}
}

// A certificate and a stage stay until a newer one is known.
func TestCertificateAndStageAreKept(t *testing.T) {
	p, _, _ := newTables(t)
	r := result(at(0), health.Accept, health.Success)
	r.CredentialStage = "AWSPREVIOUS"
	r.Certificate = store.Certificate{Subject: "CN=radius", Issuer: "CN=CA", NotAfter: at(3600), Chain: "valid"}
	r.Transactions, r.Transmissions = 12, 13
	record(t, p, r)
	row := record(t, p, result(at(10), health.Timeout, health.Failure))
	if row.CredentialStage != "AWSPREVIOUS" || row.CertSubject != "CN=radius" || row.CertIssuer != "CN=CA" || !row.CertExpiresAt.Equal(at(3600)) || row.CertChain != "valid" {
		t.Errorf("row %+v", row)
	}
	if row.Requests != 13 || row.Retransmits != 1 {
		t.Errorf("%d requests, %d retransmits", row.Requests, row.Retransmits)
	}
}

func TestRecordRefusesARoundThatIsNotNewer(t *testing.T) {
	p, _, _ := newTables(t)
	first := record(t, p, result(at(10), health.Accept, health.Success))
	for _, round := range []time.Time{at(10), at(9.999), at(0)} {
		if _, err := p.Record(t.Context(), result(round, health.Reject, health.Failure)); !errors.Is(err, store.ErrNotNewer) {
			t.Errorf("round %v: error %v, want ErrNotNewer", round, err)
		}
	}
	rows, err := p.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, rows["ise-1"]); diff != "" {
		t.Errorf("the row changed:\n%s", diff)
	}
	record(t, p, result(at(10.001), health.Accept, health.Success))
}

func TestAGapBeginsAStreakAnew(t *testing.T) {
	p, _, _ := newTables(t)
	record(t, p, result(at(0), health.Reject, health.Failure))
	record(t, p, result(at(1), health.Reject, health.Failure))
	late := result(at(7200), health.Reject, health.Failure)
	late.Gap = true
	if row := record(t, p, late); row.ConsecutiveFailures != 1 || !row.FailureSince.Equal(at(7200)) || row.Rejects != 3 {
		t.Errorf("row %+v", row)
	}
}

func TestGroupReportsABadRowAndReturnsTheOthers(t *testing.T) {
	p, _, db := newTables(t)
	record(t, p, result(at(0), health.Accept, health.Success))
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &p.Table, Item: map[string]types.AttributeValue{
		"group": &types.AttributeValueMemberS{Value: "vpn"}, "server": &types.AttributeValueMemberS{Value: "ise-2"},
		"round": &types.AttributeValueMemberS{Value: "yesterday"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := p.Group(t.Context(), "vpn")
	if err == nil || len(rows) != 1 {
		t.Errorf("got %d rows and error %v, want the good row and an error", len(rows), err)
	}
}

func TestStateAndTransitionsRoundTrip(t *testing.T) {
	_, h, _ := newTables(t)
	down := health.State{Status: health.Down, Since: at(20), HoldDown: 2 * time.Minute}
	held := health.State{Status: health.HoldDown, Since: at(60), HeldUntil: at(180), HoldDown: 2 * time.Minute}
	save := func(s health.State, tr store.Transition) {
		t.Helper()
		if err := h.SaveState(t.Context(), "vpn", "ise-1", s, tr); err != nil {
			t.Fatal(err)
		}
	}
	fell := store.Transition{Server: "ise-1", Address: "10.0.1.10", From: "up", To: "down", At: at(20), Rule: string(health.RuleThreshold), Outcome: health.Reject, Reason: "no such user", Version: "abc"}
	rose := store.Transition{Server: "ise-1", Address: "10.0.1.10", From: "down", To: "holddown", At: at(60), Rule: string(health.RuleRecovered), Outcome: health.Accept, HeldUntil: at(180), Version: "abc"}
	save(down, fell)
	save(held, rose)
	save(held, rose) // the answer to the first write was lost

	if err := h.SaveState(t.Context(), "vpn", "ise-1", down, fell); !errors.Is(err, store.ErrNotNewer) {
		t.Errorf("an older state: error %v, want ErrNotNewer", err)
	}
	got, err := h.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]health.State{"ise-1": held}, got.States); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if got.Addresses["ise-1"] != "10.0.1.10" {
		t.Errorf("addresses %v", got.Addresses)
	}
	history, err := h.Transitions(t.Context(), "vpn", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Transition{rose, fell}
	if diff := cmp.Diff(want, history); diff != "" {
		t.Errorf("transitions, newest first (-want +got):\n%s", diff)
	}
}

func TestChangesAreKeptForNinetyDays(t *testing.T) {
	_, h, db := newTables(t)
	c := store.Change{
		At: at(2), TargetGroup: "arn:tg", Round: at(1), Case: health.CaseServing, Version: "abc",
		Deregistered: []store.Move{{Target: "10.0.1.10:1812", Server: "ise-1", Reason: "down"}},
	}
	if err := h.SaveChange(t.Context(), "vpn", c); err != nil {
		t.Fatal(err)
	}
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &h.Table, Key: map[string]types.AttributeValue{
		"group": &types.AttributeValueMemberS{Value: "vpn"}, "item": &types.AttributeValueMemberS{Value: "update#2026-11-30T12:00:02.000Z#arn:tg"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got store.Change
	if err := attributevalue.UnmarshalMap(out.Item, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	want := strconv.FormatInt(at(2).Add(90*24*time.Hour).Unix(), 10)
	if n, ok := out.Item["expires_at"].(*types.AttributeValueMemberN); !ok || n.Value != want {
		t.Errorf("expires_at %v, want %s", out.Item["expires_at"], want)
	}
	// Neither what a pass reads nor the transitions are in its way.
	g, err := h.Group(t.Context(), "vpn")
	history, herr := h.Transitions(t.Context(), "vpn", 10)
	if err != nil || herr != nil || len(g.States)+len(g.Drains)+len(history) != 0 {
		t.Errorf("read %+v, %v, %v, %v", g, history, err, herr)
	}
}

func TestGroupRowRoundTrip(t *testing.T) {
	_, h, _ := newTables(t)
	want := store.GroupRow{
		Case: health.CaseOutage, Below: 1, Members: map[string]health.Membership{"ise-1": health.In, "ise-2": health.Keep},
		Reasons:  map[string]string{"ise-1": "fail-open"},
		FailOpen: true, FailOpenSince: at(5), Decided: at(6), Version: "abc", Pass: store.PassFailed, PassError: "throttled",
	}
	began := store.Transition{From: "closed", To: "open", At: at(5), Rule: "outage"}
	if err := h.SaveGroup(t.Context(), "vpn", want, &began); err != nil {
		t.Fatal(err)
	}
	got, err := h.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Group); diff != "" {
		t.Errorf("group row (-want +got):\n%s", diff)
	}
	want = store.GroupRow{Case: health.CaseServing, Members: map[string]health.Membership{}, Reasons: map[string]string{}, Decided: at(7), Pass: store.PassDone}
	if err := h.SaveGroup(t.Context(), "vpn", want, nil); err != nil {
		t.Fatal(err)
	}
	if got, err = h.Group(t.Context(), "vpn"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Group); diff != "" {
		t.Errorf("group row without fail-open (-want +got):\n%s", diff)
	}
}

func TestGroupReadsDrains(t *testing.T) {
	_, h, db := newTables(t)
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &h.Table, Item: map[string]types.AttributeValue{
		"group": &types.AttributeValueMemberS{Value: "vpn"}, "item": &types.AttributeValueMemberS{Value: "drain#ise-1"},
		"until": &types.AttributeValueMemberS{Value: "2026-11-30T14:00:00.000Z"}, "reason": &types.AttributeValueMemberS{Value: "patching"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]store.Drain{"ise-1": {Until: at(7200), Reason: "patching"}}
	if diff := cmp.Diff(want, got.Drains); diff != "" {
		t.Errorf("drains (-want +got):\n%s", diff)
	}
}

// What cannot be read concerns its own server alone, and is not taken for absent.
func TestGroupNamesWhatItCannotRead(t *testing.T) {
	_, h, db := newTables(t)
	good := health.State{Status: health.Up, Since: at(0)}
	if err := h.SaveState(t.Context(), "vpn", "ise-2", good, store.Transition{Server: "ise-2", At: at(0)}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ item, status, holdDown, until, err string }{
		{"server#ise-1", "sideways", "0s", "2026-11-30T12:00:00.000Z", `reading health row vpn/server#ise-1: status "sideways" is not a known one`},
		{"server#ise-1", "up", "long", "2026-11-30T12:00:00.000Z", "reading health row vpn/server#ise-1: hold_down:"},
		{"server#ise-1", "holddown", "2m", "2026-11-30T12:02:00.001Z", "reading health row vpn/server#ise-1: held_until is later than hold_down allows"},
		{"drain#ise-3", "", "", "tomorrow", "reading health row vpn/drain#ise-3:"},
	} {
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &h.Table, Item: map[string]types.AttributeValue{
			"group": &types.AttributeValueMemberS{Value: "vpn"}, "item": &types.AttributeValueMemberS{Value: bad.item},
			"status": &types.AttributeValueMemberS{Value: bad.status}, "hold_down": &types.AttributeValueMemberS{Value: bad.holdDown},
			"since": &types.AttributeValueMemberS{Value: "2026-11-30T12:00:00.000Z"},
			"until": &types.AttributeValueMemberS{Value: bad.until}, "held_until": &types.AttributeValueMemberS{Value: bad.until},
		}})
		if err != nil {
			t.Fatal(err)
		}
		g, err := h.Group(t.Context(), "vpn")
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Unreadable[strings.Split(bad.item, "#")[1]]; got == nil || !strings.HasPrefix(got.Error(), bad.err) {
			t.Errorf("error %v, want one that begins %q", got, bad.err)
		}
		if !cmp.Equal(g.States, map[string]health.State{"ise-2": good}) {
			t.Errorf("states %v, want that of ise-2 alone", g.States)
		}
	}
}

// image is a good new image of a stream record, with some attributes replaced.
func image(t *testing.T, replace string) string {
	t.Helper()
	attributes := map[string]json.RawMessage{}
	for _, text := range []string{`{
		"group": {"S": "vpn"}, "server": {"S": "ise-1"}, "round": {"S": "2026-11-30T12:00:00.000Z"}, "outcome": {"S": "reject"},
		"consecutive_failures": {"N": "2"}, "failure_since": {"S": "2026-11-30T11:59:59.000Z"}, "last_failure": {"S": "2026-11-30T12:00:00.000Z"}
	}`, replace} {
		if err := json.Unmarshal([]byte(text), &attributes); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(attributes)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProbeRowFromStream(t *testing.T) {
	row, err := store.ProbeRowFromStream(image(t, `{"notes": {"L": [{"S": "added by hand"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := health.Observation{
		Round: at(0), Outcome: health.Reject, ConsecutiveFailures: 2, FailureSince: at(-1), LastFailure: at(0),
	}
	if diff := cmp.Diff(want, row.Observation()); diff != "" {
		t.Errorf("observation (-want +got):\n%s", diff)
	}
	for _, bad := range []struct{ replace, err string }{
		{`{"group": {"S": ""}}`, "reading probes row /ise-1: group is missing"},
		{`{"reply_message": {"S": 5}}`, "reading probes row "},
		{`{"requests": {"N": 5}}`, "reading probes row "},
		{`{"server": {"BOOL": true}}`, "reading probes row vpn/(no server)"},
		{`{"round": {"L": []}}`, "reading probes row vpn/ise-1: round is missing"},
		{`{"round": {"S": "noon"}}`, "reading probes row vpn/ise-1"},
		{`{"outcome": {"S": "meh"}}`, `reading probes row vpn/ise-1: outcome "meh" is not a known one`},
		{`{"consecutive_failures": {"S": "2"}}`, "reading probes row vpn/ise-1"},
		{`{"consecutive_failures": {"N": "-2"}}`, "reading probes row vpn/ise-1: a streak is negative"},
		{`{"consecutive_successes": {"N": "1"}}`, "reading probes row vpn/ise-1: consecutive_failures and consecutive_successes are both above 0"},
		{`{"last_failure": {"NULL": true}}`, "reading probes row vpn/ise-1: a streak of failures has no last_failure or failure_since"},
		{`{"consecutive_failures": {"N": "0"}, "consecutive_successes": {"N": "1"}}`, "reading probes row vpn/ise-1: a streak of successes has no last_success or success_since"},
		{`{"last_failure": {"S": "2026-11-30T12:00:00.001Z"}}`, "reading probes row vpn/ise-1: last_failure is after round"},
	} {
		_, err := store.ProbeRowFromStream(image(t, bad.replace))
		if err == nil || !strings.HasPrefix(err.Error(), bad.err) {
			t.Errorf("%s: error %v, want one that begins %q", bad.replace, err, bad.err)
		}
	}
}

func TestErrorsNameTheRow(t *testing.T) {
	db := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	p := &store.Probes{DynamoDB: db, Table: "probes"}
	_, err := p.Record(t.Context(), result(at(0), health.Accept, health.Success))
	if err == nil || !strings.HasPrefix(err.Error(), "recording probe of vpn/ise-1: ") {
		t.Errorf("error %v does not name the row", err)
	}
}
