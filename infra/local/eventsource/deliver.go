package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// deliver calls the function with a batch, and again with what it did not take,
// until nothing is left. A record that still fails after maxRetries retries is
// given up, so that it cannot hold up its shard for a day. A batch that fails as
// a whole is halved until the record that spoils it stands alone; as in Lambda,
// that does not count as a retry.
func (m *Mapping) deliver(ctx context.Context, batch []types.Record) {
	for retries := 0; len(batch) > 0 && ctx.Err() == nil; retries++ {
		done, err := m.invoke(ctx, batch)
		switch {
		case ctx.Err() != nil, err == nil && done == len(batch):
			return
		case err != nil:
			m.Log.Warn("batch failed", "records", len(batch), "first", sequence(batch[0]), "error", err)
			if len(batch) > 1 {
				pause(ctx, firstBackoff)
				half := len(batch) / 2
				m.deliver(ctx, batch[:half])
				m.deliver(ctx, batch[half:])
				return
			}
		case done > 0:
			batch, retries = batch[done:], 0
		}
		if retries == maxRetries {
			m.Log.Error("record given up: on AWS it would go to the failure queue", "sequence", sequence(batch[0]), "retries", retries)
			batch, retries = batch[1:], -1
			continue
		}
		pause(ctx, firstBackoff<<retries)
	}
}

// invoke calls the function once and returns how many records at the beginning
// of the batch are done. An error means that the batch failed as a whole.
func (m *Mapping) invoke(ctx context.Context, batch []types.Record) (done int, err error) {
	var event events.DynamoDBEvent
	sequences := make([]string, len(batch))
	for i, r := range batch {
		event.Records = append(event.Records, lambdaRecord(r, m.StreamARN))
		sequences[i] = sequence(r)
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return 0, fmt.Errorf("encoding the event: %w", err)
	}
	answer, err := m.Function(ctx, payload)
	if err != nil {
		return 0, fmt.Errorf("invoking the function: %w", err)
	}
	return checkpoint(sequences, answer)
}

// checkpoint reads a function's answer to a batch: how many records at its
// beginning are done. The lowest reported record is the first that is not. An
// answer that names no record, or one that is not in the batch, is an error.
func checkpoint(sequences []string, answer json.RawMessage) (done int, err error) {
	var response struct {
		BatchItemFailures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &response); err != nil {
			return 0, fmt.Errorf("reading the answer: %w", err)
		}
	}
	done = len(sequences)
	for _, failure := range response.BatchItemFailures {
		if failure.ItemIdentifier == "" {
			return 0, errors.New("reading the answer: an itemIdentifier is empty")
		}
		at := slices.Index(sequences, failure.ItemIdentifier)
		if at < 0 {
			return 0, fmt.Errorf("reading the answer: itemIdentifier %q is not in the batch", failure.ItemIdentifier)
		}
		done = min(done, at)
	}
	return done, nil
}
