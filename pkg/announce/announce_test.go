package announce_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/announce"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// bus records what it is sent, and refuses every entry whose detail has a word.
type bus struct {
	calls   [][]types.PutEventsRequestEntry
	refuses string
}

func (b *bus) PutEvents(_ context.Context, in *eventbridge.PutEventsInput, _ ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error) {
	b.calls = append(b.calls, in.Entries)
	out := &eventbridge.PutEventsOutput{}
	for _, e := range in.Entries {
		var result types.PutEventsResultEntry
		if b.refuses != "" && strings.Contains(*e.Detail, b.refuses) {
			result.ErrorCode, result.ErrorMessage = aws.String("ThrottlingException"), aws.String("slow down")
		}
		out.Entries = append(out.Entries, result)
	}
	return out, nil
}

// examples are the events of docs/events.md.
func examples() []announce.Detail {
	round := time.Date(2026, 11, 30, 12, 0, 2, 0, time.UTC)
	held := round.Add(2 * time.Minute)
	const arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/vpn/0123456789abcdef"
	return []announce.Detail{
		announce.ServerStateChange{
			Group: "vpn-auth", Server: "ise-1", From: health.Down, To: health.HoldDown, Rule: health.RuleRecovered,
			Outcome: health.Accept, Round: round, HeldUntil: &held, FleetVersion: "3f2a9c81d0e4",
		},
		announce.TargetGroupChange{
			Group: "vpn-auth", TargetGroup: arn, Case: health.CaseServing,
			Deregistered: []store.Move{{Target: "10.0.1.10:1812", Server: "ise-1", Reason: "down"}},
			EmptiedZones: []string{"us-east-1a"}, Round: round, FleetVersion: "3f2a9c81d0e4",
		},
		announce.FailOpenChange{
			Group: "vpn-auth", From: "closed", To: "open", Case: health.CaseOutage, Below: 1,
			Servers: map[string]string{"ise-1": "fail-open: too few servers answer"}, Round: round, FleetVersion: "3f2a9c81d0e4",
		},
	}
}

func TestAnnounce(t *testing.T) {
	b := &bus{}
	c := &announce.Client{EventBridge: b, Bus: "ops"}
	at := time.Date(2026, 11, 30, 12, 0, 3, 0, time.UTC)
	if err := c.Announce(t.Context(), at, examples()); err != nil {
		t.Fatal(err)
	}
	want := []string{"Server State Change", "Target Group Change", "Fail-open Change"}
	for i, e := range b.calls[0] {
		if *e.DetailType != want[i] || *e.Source != "radwitness" || *e.EventBusName != "ops" || !e.Time.Equal(at) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if got := b.calls[0][1].Resources; len(got) != 1 || !strings.HasPrefix(got[0], "arn:") {
		t.Errorf("resources %v", got)
	}
}

// The documentation shows the JSON that is sent.
func TestEventsAreAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != len(examples()) {
		t.Fatalf("%d examples documented, %d kinds of event", len(blocks), len(examples()))
	}
	for i, d := range examples() {
		sent, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(sent, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(blocks[i][1]), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("example %d (-documented +sent):\n%s", i, diff)
		}
	}
}

func TestAnnounceInChunksAndReportsWhatWasNotTaken(t *testing.T) {
	b := &bus{refuses: "ise-7"}
	var details []announce.Detail
	for i := range 23 {
		details = append(details, announce.ServerStateChange{Group: "vpn", Server: "ise-" + string(rune('0'+i))})
	}
	err := (&announce.Client{EventBridge: b}).Announce(t.Context(), time.Now(), details)
	if err == nil || err.Error() != `sending event "Server State Change": ThrottlingException: slow down` {
		t.Errorf("error %v", err)
	}
	if len(b.calls) != 3 || len(b.calls[0]) != 10 || len(b.calls[2]) != 3 || b.calls[0][0].EventBusName != nil {
		t.Errorf("%d calls", len(b.calls))
	}
}
