package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"radwitness/pkg/health"
)

// Sort keys of table health. What a pass reads sorts before the history, so
// that one Query gets it whole without walking through history.
const (
	groupItem        = "group"
	drainPrefix      = "drain#"
	serverPrefix     = "server#"
	transitionPrefix = "transition#"
	changePrefix     = "update#"
)

// Health is table health: per group one row, one row per server, drains, and
// the transitions of both with a TTL.
type Health struct {
	DynamoDB DynamoDB
	Table    string
}

// GroupHealth is all that table health remembers of a group but its history.
type GroupHealth struct {
	States    map[string]health.State // by server
	Addresses map[string]string       // that the states are about, by server; none where a row does not say
	Drains    map[string]Drain        // by server
	Group     GroupRow

	// What cannot be read, by server. Such a server must stay as it is: to take
	// the row for absent would forget a hold-down, or a drain.
	Unreadable map[string]error
}

// Drain is an operator's order to keep a server out for a time.
type Drain struct {
	Since  time.Time // when it was given; zero if the row does not say
	Until  time.Time
	Reason string
}

// Pass says how the newest pass over the target groups ended.
type Pass string

// The ends of a pass.
const (
	PassPending Pass = "pending" // not carried out yet, or not wholly: to be repeated at once
	PassDone    Pass = "done"
	PassFailed  Pass = "failed" // what could be done is done; the rest is tried again with the next regular pass
)

// GroupRow is the row of a group: its newest decision, and whether the target
// groups have been made to match.
type GroupRow struct {
	Case          health.Case                  `dynamodbav:"case"`
	Below         int                          `dynamodbav:"below"`
	Members       map[string]health.Membership `dynamodbav:"members"`
	Reasons       map[string]string            `dynamodbav:"reasons"`
	FailOpen      bool                         `dynamodbav:"fail_open"`
	FailOpenSince time.Time                    `dynamodbav:"fail_open_since,omitempty"` // round; zero unless FailOpen
	Decided       time.Time                    `dynamodbav:"decided"`                   // round that brought the decision
	Version       string                       `dynamodbav:"fleet_version"`             // fleet.Fleet.Version
	Pass          Pass                         `dynamodbav:"pass"`
	PassError     string                       `dynamodbav:"pass_error,omitempty"`
}

type serverItem struct {
	Group     string         `dynamodbav:"group"`
	Item      string         `dynamodbav:"item"`
	Server    string         `dynamodbav:"server"`
	Address   string         `dynamodbav:"address,omitempty"`
	Status    health.Status  `dynamodbav:"status"`
	Since     time.Time      `dynamodbav:"since"`
	HeldUntil time.Time      `dynamodbav:"held_until,omitempty"`
	HoldDown  string         `dynamodbav:"hold_down"` // a Go duration
	Rule      string         `dynamodbav:"rule"`
	Outcome   health.Outcome `dynamodbav:"outcome"`
}

type groupItemRow struct {
	Group string `dynamodbav:"group"`
	Item  string `dynamodbav:"item"`
	GroupRow
}

type drainItem struct {
	Group     string    `dynamodbav:"group"`
	Item      string    `dynamodbav:"item"`
	Server    string    `dynamodbav:"server"`
	Since     time.Time `dynamodbav:"since,omitempty"`
	Until     time.Time `dynamodbav:"until"`
	Reason    string    `dynamodbav:"reason"`
	ExpiresAt int64     `dynamodbav:"expires_at"`
}

// Group reads what is remembered of a group. A row that cannot be read concerns
// its own server alone, and a group's own is decided anew.
func (h *Health) Group(ctx context.Context, group string) (GroupHealth, error) {
	items, err := query(ctx, h.DynamoDB, &dynamodb.QueryInput{
		TableName:                &h.Table,
		KeyConditionExpression:   aws.String("#group = :group AND #item < :history"),
		ExpressionAttributeNames: map[string]string{"#group": "group", "#item": "item"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":group": stringValue(group), ":history": stringValue(transitionPrefix),
		},
	})
	if err != nil {
		return GroupHealth{}, err
	}
	g := GroupHealth{States: map[string]health.State{}, Addresses: map[string]string{}, Drains: map[string]Drain{}, Unreadable: map[string]error{}}
	for _, item := range items {
		if err := g.add(item); err != nil {
			g.Unreadable[subject(item)] = fmt.Errorf("reading health row %s: %w", rowName(item, "item"), err)
		}
	}
	return g, nil
}

// subject is the server that an item of table health is about; empty for a
// group's own.
func subject(item map[string]types.AttributeValue) string {
	key, _ := item["item"].(*types.AttributeValueMemberS)
	_, server, _ := strings.Cut(key.Value, "#")
	return server
}

// add files one item under its kind. Items of unknown kinds belong to a newer
// version and are left alone.
func (g *GroupHealth) add(item map[string]types.AttributeValue) error {
	key := item["item"].(*types.AttributeValueMemberS) // the table's key, which is a string
	switch {
	case key.Value == groupItem:
		var row GroupRow
		if err := attributevalue.UnmarshalMap(item, &row); err != nil {
			return err
		}
		g.Group = row
	case strings.HasPrefix(key.Value, drainPrefix):
		var row drainItem
		if err := attributevalue.UnmarshalMap(item, &row); err != nil {
			return err
		}
		g.Drains[strings.TrimPrefix(key.Value, drainPrefix)] = Drain{Since: row.Since, Until: row.Until, Reason: row.Reason}
	case strings.HasPrefix(key.Value, serverPrefix):
		state, err := decodeState(item)
		if err != nil {
			return err
		}
		server := strings.TrimPrefix(key.Value, serverPrefix)
		g.States[server] = state
		if address, ok := item["address"].(*types.AttributeValueMemberS); ok {
			g.Addresses[server] = address.Value
		}
	}
	return nil
}

func decodeState(item map[string]types.AttributeValue) (health.State, error) {
	var row serverItem
	if err := attributevalue.UnmarshalMap(item, &row); err != nil {
		return health.State{}, err
	}
	switch row.Status {
	case health.Up, health.Down, health.HoldDown:
	default:
		return health.State{}, fmt.Errorf("status %q is not a known one", row.Status)
	}
	hold, err := time.ParseDuration(row.HoldDown)
	if err != nil {
		return health.State{}, fmt.Errorf("hold_down: %w", err)
	}
	if row.HeldUntil.After(row.Since.Add(hold)) {
		return health.State{}, errors.New("held_until is later than hold_down allows")
	}
	return health.State{Status: row.Status, Since: row.Since, HeldUntil: row.HeldUntil, HoldDown: hold}, nil
}

// SaveState stores a server's new state and the transition that led to it. The
// transition is first: its key is made of the round, so a replay after a crash
// between the two writes it again instead of losing it. ErrNotNewer says that
// another reconciler has gone further; its state must be read before going on.
func (h *Health) SaveState(ctx context.Context, group, server string, s health.State, t Transition) error {
	if err := h.saveTransition(ctx, group, t); err != nil {
		return err
	}
	item, err := encode(serverItem{
		Group: group, Item: serverPrefix + server, Server: server, Address: t.Address,
		Status: s.Status, Since: s.Since, HeldUntil: s.HeldUntil, HoldDown: s.HoldDown.String(),
		Rule: t.Rule, Outcome: t.Outcome,
	})
	if err != nil {
		return fmt.Errorf("encoding state of %s/%s: %w", group, server, err)
	}
	_, err = h.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &h.Table, Item: item,
		// Equal is allowed: the answer to a write that happened may have been lost.
		ConditionExpression:       aws.String("attribute_not_exists(#since) OR #since <= :since"),
		ExpressionAttributeNames:  map[string]string{"#since": "since"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":since": timeValue(s.Since)},
	})
	if conditionFailed(err) {
		err = ErrNotNewer
	}
	if err != nil {
		return fmt.Errorf("saving state of %s/%s: %w", group, server, err)
	}
	return nil
}

// SaveGroup stores a group's row, and a transition where fail-open changed.
func (h *Health) SaveGroup(ctx context.Context, group string, row GroupRow, t *Transition) error {
	if t != nil {
		if err := h.saveTransition(ctx, group, *t); err != nil {
			return err
		}
	}
	item, err := encode(groupItemRow{Group: group, Item: groupItem, GroupRow: row})
	if err != nil {
		return fmt.Errorf("encoding row of group %s: %w", group, err)
	}
	if _, err := h.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &h.Table, Item: item}); err != nil {
		return fmt.Errorf("saving row of group %s: %w", group, err)
	}
	return nil
}
