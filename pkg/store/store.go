// Package store keeps the two DynamoDB tables: probes, which only the prober
// writes, and health, which only the reconciler writes, but for the drains of an
// operator. Both have the group as partition key, so all records of a group are
// in one stream shard, in order.
//
// Rows are made to be read in the DynamoDB console: plain attribute names,
// times as RFC 3339 UTC with milliseconds, which also sort as strings.
package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DynamoDB is the part of the DynamoDB API that the tables need.
type DynamoDB interface {
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// ErrNotNewer reports that a row already holds something newer, so that the
// write changed nothing: another invocation was first.
var ErrNotNewer = errors.New("the row already holds a newer record")

// timeLayout has a fixed width, so that times compare as strings.
const timeLayout = "2006-01-02T15:04:05.000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

func stringValue(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func timeValue(t time.Time) types.AttributeValue { return stringValue(formatTime(t)) }

// encode turns a tagged struct into an item; times take the package's layout.
func encode(row any) (map[string]types.AttributeValue, error) {
	return attributevalue.MarshalMapWithOptions(row, func(o *attributevalue.EncoderOptions) {
		o.EncodeTime = func(t time.Time) (types.AttributeValue, error) { return timeValue(t), nil }
	})
}

// query reads all pages of a strongly consistent Query.
func query(ctx context.Context, db DynamoDB, in *dynamodb.QueryInput) ([]map[string]types.AttributeValue, error) {
	in.ConsistentRead = aws.Bool(true)
	var items []map[string]types.AttributeValue
	for {
		out, err := db.Query(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("querying table %s: %w", aws.ToString(in.TableName), err)
		}
		items = append(items, out.Items...)
		if len(out.LastEvaluatedKey) == 0 || (in.Limit != nil && len(items) >= int(*in.Limit)) {
			return items, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// update is an UpdateItem expression in the making. Every name and value goes
// through a placeholder: several of our attributes are reserved words.
type update struct {
	set, add, remove string
	names            map[string]string
	values           map[string]types.AttributeValue
}

func newUpdate() *update {
	return &update{names: map[string]string{}, values: map[string]types.AttributeValue{}}
}

func (u *update) name(attribute string) string {
	u.names["#"+attribute] = attribute
	return "#" + attribute
}

func (u *update) value(attribute string, v types.AttributeValue) string {
	u.values[":"+attribute] = v
	return ":" + attribute
}

func join(list, clause string) string {
	if list == "" {
		return clause
	}
	return list + ", " + clause
}

// Set assigns the value.
func (u *update) Set(attribute string, v types.AttributeValue) {
	u.set = join(u.set, u.name(attribute)+" = "+u.value(attribute, v))
}

// SetOnce assigns the value unless the attribute is there.
func (u *update) SetOnce(attribute string, v types.AttributeValue) {
	n := u.name(attribute)
	u.set = join(u.set, n+" = if_not_exists("+n+", "+u.value(attribute, v)+")")
}

// Add increments a counter.
func (u *update) Add(attribute, number string) {
	u.add = join(u.add, u.name(attribute)+" "+u.value("add_"+attribute, &types.AttributeValueMemberN{Value: number}))
}

// Remove deletes the attribute.
func (u *update) Remove(attribute string) {
	u.remove = join(u.remove, u.name(attribute))
}

// Input completes the UpdateItem call.
func (u *update) Input(table string, key map[string]types.AttributeValue, condition string) *dynamodb.UpdateItemInput {
	var expression string
	for _, c := range []struct{ verb, list string }{{"SET ", u.set}, {"ADD ", u.add}, {"REMOVE ", u.remove}} {
		if c.list != "" {
			if expression != "" {
				expression += " "
			}
			expression += c.verb + c.list
		}
	}
	return &dynamodb.UpdateItemInput{
		TableName:                 &table,
		Key:                       maps.Clone(key),
		UpdateExpression:          &expression,
		ConditionExpression:       &condition,
		ExpressionAttributeNames:  u.names,
		ExpressionAttributeValues: u.values,
		ReturnValues:              types.ReturnValueAllNew,
	}
}

// conditionFailed reports whether a write was refused by its condition.
func conditionFailed(err error) bool {
	var failed *types.ConditionalCheckFailedException
	return errors.As(err, &failed)
}
