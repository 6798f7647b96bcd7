package store_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

func TestDrains(t *testing.T) {
	_, h, db := newTables(t)
	d := &store.Drains{DynamoDB: db, Table: h.Table}
	order := store.Drain{Since: at(0), Until: at(7200), Reason: "patching"}
	if err := d.Save(t.Context(), "vpn", "ise-1", order); err != nil {
		t.Fatal(err)
	}
	got, err := h.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]store.Drain{"ise-1": order}, got.Drains); diff != "" {
		t.Errorf("drains (-want +got):\n%s", diff)
	}
	for range 2 { // an order that is not there is taken back, too
		if err := d.Delete(t.Context(), "vpn", "ise-1", at(60)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = h.Group(t.Context(), "vpn"); err != nil || len(got.Drains) != 0 {
		t.Errorf("after taking it back: %v, %v", got.Drains, err)
	}
	past, err := h.History(t.Context(), "vpn", time.Time{})
	want := []store.Transition{
		{Server: "ise-1", From: "undrained", To: "drained", At: at(0), Rule: "operator's order", Reason: "patching", HeldUntil: at(7200)},
		{Server: "ise-1", From: "drained", To: "undrained", At: at(60), Rule: "operator's order"},
	}
	if diff := cmp.Diff(want, past.Transitions); err != nil || diff != "" {
		t.Errorf("history %v (-want +got):\n%s", err, diff)
	}
}

func TestHistorySince(t *testing.T) {
	_, h, db := newTables(t)
	for i := range 3 {
		tr := store.Transition{Server: "ise-1", From: "up", To: "down", At: at(float64(i)), Rule: "x", Outcome: health.Reject}
		if err := h.SaveState(t.Context(), "vpn", "ise-1", health.State{Status: health.Down, Since: at(float64(i))}, tr); err != nil {
			t.Fatal(err)
		}
		if err := h.SaveChange(t.Context(), "vpn", store.Change{At: at(float64(i)), TargetGroup: "arn:tg"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.SaveChange(t.Context(), "wifi", store.Change{At: at(2), TargetGroup: "arn:tg"}); err != nil {
		t.Fatal(err)
	}
	past, err := h.History(t.Context(), "vpn", at(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(past.Transitions) != 2 || len(past.Changes) != 2 || !past.Transitions[0].At.Equal(at(1)) || !past.Changes[1].At.Equal(at(2)) {
		t.Errorf("history since the second: %+v", past)
	}
	putBadTransition(t, db, h.Table)
	past, err = h.History(t.Context(), "vpn", at(1))
	if err == nil || len(past.Transitions) != 2 {
		t.Errorf("with an unreadable row: %d transitions, error %v; want the 2 good ones and an error", len(past.Transitions), err)
	}
}

func putBadTransition(t *testing.T, db *dynamodb.Client, table string) {
	t.Helper()
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		"group": &types.AttributeValueMemberS{Value: "vpn"}, "item": &types.AttributeValueMemberS{Value: "transition#2027-01-01T00:00:00.000Z#x"},
		"at": &types.AttributeValueMemberS{Value: "yesterday"},
	}})
	if err != nil {
		t.Fatal(err)
	}
}
