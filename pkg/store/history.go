package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"radwitness/pkg/health"
)

// transitionRetention is how long transitions are kept.
const transitionRetention = 90 * 24 * time.Hour

// Transition is one line of a group's history. Server is empty where the group
// itself changed: its fail-open began or ended.
type Transition struct {
	Server    string
	Address   string // of the server, without port; empty for a group
	From, To  string
	At        time.Time // round of the evidence
	Rule      string
	Outcome   health.Outcome // empty for a group
	Reason    string         // of the outcome, in the prober's words
	HeldUntil time.Time      // zero unless a hold-down begins
	Version   string         // fleet.Fleet.Version in force
}

// Move is one target that came or went, and why.
type Move struct {
	Target string `json:"target" dynamodbav:"target"` // id:port
	Server string `json:"server,omitempty" dynamodbav:"server,omitempty"`
	Reason string `json:"reason" dynamodbav:"reason"`
}

// Change is a pass over a target group that changed something.
type Change struct {
	At           time.Time   `dynamodbav:"at"`           // end of the pass
	TargetGroup  string      `dynamodbav:"target_group"` // ARN
	Round        time.Time   `dynamodbav:"round"`        // newest probe of the group
	Case         health.Case `dynamodbav:"rule"`
	FailOpen     bool        `dynamodbav:"fail_open"`
	Registered   []Move      `dynamodbav:"registered,omitempty"`
	Deregistered []Move      `dynamodbav:"deregistered,omitempty"`
	Withheld     []Move      `dynamodbav:"withheld,omitempty"`
	Error        string      `dynamodbav:"error,omitempty"` // what else failed
	Version      string      `dynamodbav:"fleet_version"`
}

// History is what happened to a group in a time, oldest first.
type History struct {
	Transitions []Transition
	Changes     []Change
}

type transitionItem struct {
	Group     string         `dynamodbav:"group"`
	Item      string         `dynamodbav:"item"`
	Server    string         `dynamodbav:"server,omitempty"`
	Address   string         `dynamodbav:"address,omitempty"`
	From      string         `dynamodbav:"from"`
	To        string         `dynamodbav:"to"`
	At        time.Time      `dynamodbav:"at"`
	Rule      string         `dynamodbav:"rule"`
	Outcome   health.Outcome `dynamodbav:"outcome,omitempty"`
	Reason    string         `dynamodbav:"reason,omitempty"`
	HeldUntil time.Time      `dynamodbav:"held_until,omitempty"`
	Version   string         `dynamodbav:"fleet_version,omitempty"`
	ExpiresAt int64          `dynamodbav:"expires_at"`
}

type changeItem struct {
	Group string `dynamodbav:"group"`
	Item  string `dynamodbav:"item"`
	Change
	ExpiresAt int64 `dynamodbav:"expires_at"`
}

func (h *Health) saveTransition(ctx context.Context, group string, t Transition) error {
	subject := groupItem + "#" + t.To
	if t.Server != "" {
		subject = serverPrefix + t.Server
	}
	item, err := encodeTransition(group, subject, t)
	if err != nil {
		return err
	}
	if _, err := h.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &h.Table, Item: item}); err != nil {
		return fmt.Errorf("saving transition of %s/%s: %w", group, subject, err)
	}
	return nil
}

// encodeTransition makes the item of a transition. Its key sorts by time and
// ends in the subject, so that a replay writes the same item again.
func encodeTransition(group, subject string, t Transition) (map[string]types.AttributeValue, error) {
	item, err := encode(transitionItem{
		Group: group, Item: transitionPrefix + formatTime(t.At) + "#" + subject, Server: t.Server, Address: t.Address,
		From: t.From, To: t.To, At: t.At, Rule: t.Rule, Outcome: t.Outcome, Reason: t.Reason, HeldUntil: t.HeldUntil, Version: t.Version,
		ExpiresAt: t.At.Add(transitionRetention).Unix(),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding transition of %s/%s: %w", group, subject, err)
	}
	return item, nil
}

// SaveChange stores what a pass has changed, for as long as transitions are kept.
func (h *Health) SaveChange(ctx context.Context, group string, c Change) error {
	item, err := encode(changeItem{
		Group: group, Item: changePrefix + formatTime(c.At) + "#" + c.TargetGroup, Change: c,
		ExpiresAt: c.At.Add(transitionRetention).Unix(),
	})
	if err != nil {
		return fmt.Errorf("encoding pass of group %s: %w", group, err)
	}
	if _, err := h.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &h.Table, Item: item}); err != nil {
		return fmt.Errorf("saving pass of group %s: %w", group, err)
	}
	return nil
}

// Transitions reads the newest transitions of a group, newest first.
func (h *Health) Transitions(ctx context.Context, group string, limit int32) ([]Transition, error) {
	in := h.past(group, transitionPrefix, time.Time{})
	in.ScanIndexForward, in.Limit = aws.Bool(false), &limit
	items, err := query(ctx, h.DynamoDB, in)
	if err != nil {
		return nil, err
	}
	return decodeAll(items, transitionItem.transition)
}

// History reads what happened to a group since the given time. A row that cannot
// be read is reported in the error; the others are returned with it.
func (h *Health) History(ctx context.Context, group string, since time.Time) (History, error) {
	transitions, err := query(ctx, h.DynamoDB, h.past(group, transitionPrefix, since))
	if err != nil {
		return History{}, err
	}
	changes, err := query(ctx, h.DynamoDB, h.past(group, changePrefix, since))
	if err != nil {
		return History{}, err
	}
	var past History
	past.Transitions, err = decodeAll(transitions, transitionItem.transition)
	var changesErr error
	past.Changes, changesErr = decodeAll(changes, changeItem.change)
	return past, errors.Join(err, changesErr)
}

// past selects the items of one kind of history of a group since the given time.
func (h *Health) past(group, prefix string, since time.Time) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:                &h.Table,
		KeyConditionExpression:   aws.String("#group = :group AND #item BETWEEN :first AND :last"),
		ExpressionAttributeNames: map[string]string{"#group": "group", "#item": "item"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":group": stringValue(group), ":first": stringValue(prefix + formatTime(since)), ":last": stringValue(prefix + "~"),
		},
	}
}

// decodeAll reads items of one kind. Bad ones are reported in the error.
func decodeAll[Item, Record any](items []map[string]types.AttributeValue, record func(Item) Record) ([]Record, error) {
	list := make([]Record, 0, len(items))
	var bad []error
	for _, item := range items {
		var row Item
		if err := attributevalue.UnmarshalMap(item, &row); err != nil {
			bad = append(bad, fmt.Errorf("reading health row %s: %w", rowName(item, "item"), err))
			continue
		}
		list = append(list, record(row))
	}
	return list, errors.Join(bad...)
}

func (i transitionItem) transition() Transition {
	return Transition{
		Server: i.Server, Address: i.Address, From: i.From, To: i.To, At: i.At,
		Rule: i.Rule, Outcome: i.Outcome, Reason: i.Reason, HeldUntil: i.HeldUntil, Version: i.Version,
	}
}

func (i changeItem) change() Change { return i.Change }
