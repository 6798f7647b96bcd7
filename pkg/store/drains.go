package store

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The ends of a transition that an operator makes, and its rule.
const (
	Undrained = "undrained"
	Drained   = "drained"
	RuleOrder = "operator's order"
)

// DrainWriter is the part of the DynamoDB API that an operator's orders need.
// The reconciler obeys them and never makes one.
type DrainWriter interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// Drains writes an operator's orders to keep servers out into table health.
type Drains struct {
	DynamoDB DrainWriter
	Table    string
}

// Save stores an order, in place of an earlier one, and its line of history. The
// order is first: without it nothing has happened.
func (d *Drains) Save(ctx context.Context, group, server string, order Drain) error {
	item, err := encode(drainItem{
		Group: group, Item: drainPrefix + server, Server: server,
		Since: order.Since, Until: order.Until, Reason: order.Reason, ExpiresAt: order.Until.Unix(),
	})
	if err != nil {
		return fmt.Errorf("encoding drain of %s/%s: %w", group, server, err)
	}
	if _, err := d.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &d.Table, Item: item}); err != nil {
		return fmt.Errorf("saving drain of %s/%s: %w", group, server, err)
	}
	return d.note(ctx, group, Transition{
		Server: server, From: Undrained, To: Drained, At: order.Since, Rule: RuleOrder, Reason: order.Reason, HeldUntil: order.Until,
	})
}

// Delete takes an order back, and stores its line of history at the given time.
func (d *Drains) Delete(ctx context.Context, group, server string, at time.Time) error {
	_, err := d.DynamoDB.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &d.Table,
		Key:       map[string]types.AttributeValue{"group": stringValue(group), "item": stringValue(drainPrefix + server)},
	})
	if err != nil {
		return fmt.Errorf("deleting drain of %s/%s: %w", group, server, err)
	}
	return d.note(ctx, group, Transition{Server: server, From: Drained, To: Undrained, At: at, Rule: RuleOrder})
}

func (d *Drains) note(ctx context.Context, group string, t Transition) error {
	item, err := encodeTransition(group, drainPrefix+t.Server, t)
	if err != nil {
		return err
	}
	if _, err := d.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &d.Table, Item: item}); err != nil {
		return fmt.Errorf("saving history of %s/%s: %w", group, t.Server, err)
	}
	return nil
}
