// Package eventsource plays Lambda's event source mapping of a DynamoDB stream:
// it polls the stream's shards, and delivers their records to a function in
// batches, in order, again and again until the function has taken them.
//
// It follows the mapping that the CDK app makes: batches of at most
// 1,000 without a window, partial failures reported, a batch that fails as a
// whole halved, five retries. Unlike that mapping it starts at the oldest record,
// and keeps no queue of what it gave up: it logs it.
package eventsource

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

const (
	batchSize      = 1000
	pollInterval   = 250 * time.Millisecond // Lambda polls a shard four times a second
	shardsInterval = 10 * time.Second       // between two looks for new shards
	maxRetries     = 5
	firstBackoff   = 200 * time.Millisecond // doubled with each retry
)

// Streams is the part of the DynamoDB Streams API that a Mapping calls.
type Streams interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// Mapping leads a stream to a function.
type Mapping struct {
	Streams   Streams
	StreamARN string
	Function  func(context.Context, json.RawMessage) (json.RawMessage, error) // of several shards at the same time
	Log       *slog.Logger
}

// Run delivers records until the context ends, and returns when the function
// has returned from its last call.
func (m *Mapping) Run(ctx context.Context) {
	var readers sync.WaitGroup
	defer readers.Wait()
	finished := map[string]chan struct{}{} // by shard, closed when it is read to its end
	for ctx.Err() == nil {
		shards, err := m.shards(ctx)
		if err != nil && ctx.Err() == nil {
			m.Log.Warn("shards not listed", "error", err)
		}
		var fresh []types.Shard
		for _, s := range shards {
			if id := aws.ToString(s.ShardId); finished[id] == nil {
				finished[id] = make(chan struct{})
				fresh = append(fresh, s)
			}
		}
		for _, s := range fresh {
			id := aws.ToString(s.ShardId)
			parent, done := finished[aws.ToString(s.ParentShardId)], finished[id]
			readers.Go(func() {
				defer close(done)
				// An item's records go on in a child of their shard, so the parent is first.
				if parent != nil {
					select {
					case <-parent:
					case <-ctx.Done():
					}
				}
				m.read(ctx, id)
			})
		}
		pause(ctx, shardsInterval)
	}
}

// shards lists the shards of the stream.
func (m *Mapping) shards(ctx context.Context) ([]types.Shard, error) {
	var shards []types.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &m.StreamARN}
	for {
		out, err := m.Streams.DescribeStream(ctx, in)
		if err != nil {
			return nil, err
		}
		shards = append(shards, out.StreamDescription.Shards...)
		if out.StreamDescription.LastEvaluatedShardId == nil {
			return shards, nil
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
}

// read delivers a shard's records from the oldest on. It returns at the end of
// a closed shard.
func (m *Mapping) read(ctx context.Context, shard string) {
	var iterator *string
	last := "" // sequence number of the newest record that was dealt with
	for ctx.Err() == nil {
		if iterator == nil {
			iterator = m.iterator(ctx, shard, last)
		}
		if iterator == nil {
			pause(ctx, time.Second)
			continue
		}
		out, err := m.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(batchSize)})
		if err != nil {
			// It may have expired, as when the machine was asleep: the next one goes on
			// after the last record.
			if ctx.Err() == nil {
				m.Log.Warn("records not read", "shard", shard, "error", err)
			}
			iterator = nil
			continue
		}
		batch := after(out.Records, last)
		m.deliver(ctx, batch)
		if len(batch) > 0 {
			last = sequence(batch[len(batch)-1])
		}
		if out.NextShardIterator == nil {
			return
		}
		iterator = out.NextShardIterator
		if len(out.Records) < batchSize {
			pause(ctx, pollInterval)
		}
	}
}

// iterator asks for a position in a shard: after the last record, or at the
// beginning. It is nil if there is none to be had now.
func (m *Mapping) iterator(ctx context.Context, shard, last string) *string {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &m.StreamARN, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	}
	if last != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &last
	}
	out, err := m.Streams.GetShardIterator(ctx, in)
	if err != nil {
		if ctx.Err() == nil {
			m.Log.Warn("no shard iterator", "shard", shard, "error", err)
		}
		return nil
	}
	return out.ShardIterator
}

// after drops the records up to the last one that was dealt with: kumo begins
// at the oldest record whatever it is asked for.
func after(records []types.Record, last string) []types.Record {
	for len(records) > 0 && compareSequence(sequence(records[0]), last) <= 0 {
		records = records[1:]
	}
	return records
}

// compareSequence compares sequence numbers. They are decimal numbers of up to
// 40 digits, and no sequence number is before all of them.
func compareSequence(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// pause waits; it ends early with the context.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
