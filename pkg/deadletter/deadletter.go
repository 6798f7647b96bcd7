// Package deadletter keeps stream records that can never be worked on where
// people will find them: in the queue that Lambda itself uses for batches it has
// given up, but with the record and the reason in the message.
package deadletter

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// SQS is the part of the SQS API that a Queue calls.
type SQS interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Queue is an SQS queue.
type Queue struct {
	SQS SQS
	URL string
}

// message is the body of a message.
type message struct {
	Reason string          `json:"reason"`
	Record json.RawMessage `json:"record"`
}

// Send puts a record into the queue, with the reason why it is there.
func (q *Queue) Send(ctx context.Context, reason string, record json.RawMessage) error {
	body, err := json.Marshal(message{reason, record})
	if err != nil {
		return fmt.Errorf("encoding dead letter: %w", err)
	}
	if _, err := q.SQS.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: aws.String(string(body))}); err != nil {
		return fmt.Errorf("sending dead letter: %w", err)
	}
	return nil
}
