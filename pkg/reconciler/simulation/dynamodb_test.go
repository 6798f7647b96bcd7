package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

// dynamo is DynamoDB as far as the store uses it: the grammar of its
// expressions is read, not assumed, so a store that writes nonsense fails here.
type dynamo struct {
	mu    sync.Mutex
	items map[string]item // by table, group and sort key
}

func newDynamo() *dynamo { return &dynamo{items: map[string]item{}} }

func text(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

// key is where an item is kept.
func key(table string, i item) string {
	return table + "\x00" + text(i["group"]) + "\x00" + cmp.Or(text(i["item"]), text(i["server"]))
}

// scope is what the placeholders of an expression stand for.
type scope struct {
	names  map[string]string
	values item
	row    item
}

func (s scope) attribute(placeholder string) string {
	name, ok := s.names[strings.TrimSpace(placeholder)]
	if !ok {
		panic("no such name: " + placeholder)
	}
	return name
}

func (s scope) value(placeholder string) types.AttributeValue {
	v, ok := s.values[strings.TrimSpace(placeholder)]
	if !ok {
		panic("no such value: " + placeholder)
	}
	return v
}

// holds evaluates a condition: terms joined by OR.
func (s scope) holds(condition *string) bool {
	if condition == nil {
		return true
	}
	for term := range strings.SplitSeq(*condition, " OR ") {
		if name, ok := strings.CutPrefix(term, "attribute_not_exists("); ok {
			if _, there := s.row[s.attribute(strings.TrimSuffix(name, ")"))]; !there {
				return true
			}
			continue
		}
		parts := strings.Fields(term)
		have, there := s.row[s.attribute(parts[0])]
		order := strings.Compare(text(have), text(s.value(parts[2])))
		if there && (parts[1] == "<" && order < 0 || parts[1] == "<=" && order <= 0) {
			return true
		}
	}
	return false
}

func (d *dynamo) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := key(*in.TableName, in.Item)
	if !(scope{in.ExpressionAttributeNames, in.ExpressionAttributeValues, d.items[k]}).holds(in.ConditionExpression) {
		return nil, &types.ConditionalCheckFailedException{}
	}
	d.items[k] = maps.Clone(in.Item)
	return &dynamodb.PutItemOutput{}, nil
}

func (d *dynamo) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := key(*in.TableName, in.Key)
	s := scope{in.ExpressionAttributeNames, in.ExpressionAttributeValues, d.items[k]}
	if !s.holds(in.ConditionExpression) {
		return nil, &types.ConditionalCheckFailedException{}
	}
	row := maps.Clone(s.row)
	if row == nil {
		row = maps.Clone(in.Key)
	}
	rest := *in.UpdateExpression
	for _, verb := range []string{"REMOVE ", "ADD ", "SET "} {
		before, clauses, found := strings.Cut(rest, verb)
		if !found {
			continue
		}
		rest = before
		for clause := range strings.SplitSeq(strings.ReplaceAll(clauses, "if_not_exists(", "once "), ",") {
			s.apply(row, verb, strings.Fields(strings.ReplaceAll(clause, ")", "")))
		}
	}
	d.items[k] = row
	return &dynamodb.UpdateItemOutput{Attributes: maps.Clone(row)}, nil
}

// apply carries out one clause. The first argument of if_not_exists is split
// from its second by the comma; the value then stands alone in its clause.
func (s scope) apply(row item, verb string, words []string) {
	switch {
	case verb == "REMOVE ":
		delete(row, s.attribute(words[0]))
	case verb == "ADD ":
		name := s.attribute(words[0])
		sum, _ := strconv.ParseFloat(text(row[name]), 64)
		n, _ := strconv.ParseFloat(text(s.value(words[1])), 64)
		row[name] = &types.AttributeValueMemberN{Value: strconv.FormatFloat(sum+n, 'f', -1, 64)}
	case len(words) == 4: // #a = once #a, the value follows
	case len(words) == 1:
		name := strings.TrimPrefix(words[0], ":")
		if _, there := s.row[name]; !there {
			row[name] = s.value(words[0])
		}
	default:
		row[s.attribute(words[0])] = s.value(words[2])
	}
}

func (d *dynamo) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in.ConsistentRead == nil || !*in.ConsistentRead {
		return nil, fmt.Errorf("a read that is not strongly consistent")
	}
	prefix := *in.TableName + "\x00" + text(in.ExpressionAttributeValues[":group"]) + "\x00"
	out := &dynamodb.QueryOutput{}
	for _, k := range slices.Sorted(maps.Keys(d.items)) {
		sortKey, ok := strings.CutPrefix(k, prefix)
		if end := text(in.ExpressionAttributeValues[":history"]); ok && (end == "" || sortKey < end) {
			out.Items = append(out.Items, maps.Clone(d.items[k]))
		}
	}
	return out, nil
}

// streamRecord is what the stream says of an update.
func streamRecord(sequence string, row item) json.RawMessage {
	image := map[string]map[string]any{}
	for name, v := range row {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			image[name] = map[string]any{"S": v.Value}
		case *types.AttributeValueMemberN:
			image[name] = map[string]any{"N": v.Value}
		case *types.AttributeValueMemberBOOL:
			image[name] = map[string]any{"BOOL": v.Value}
		}
	}
	b, err := json.Marshal(map[string]any{"eventName": "MODIFY", "dynamodb": map[string]any{"SequenceNumber": sequence, "NewImage": image}})
	if err != nil {
		panic(err) // strings, numbers and booleans always encode
	}
	return b
}
