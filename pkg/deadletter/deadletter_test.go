package deadletter_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"radwitness/pkg/deadletter"
)

type queue struct {
	in  *sqs.SendMessageInput
	err error
}

func (q *queue) SendMessage(_ context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	q.in = in
	return &sqs.SendMessageOutput{}, q.err
}

func TestSend(t *testing.T) {
	api := &queue{}
	q := deadletter.Queue{SQS: api, URL: "https://sqs/failures"}
	if err := q.Send(t.Context(), "round is missing", json.RawMessage(`{"eventID":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if *api.in.MessageBody != `{"reason":"round is missing","record":{"eventID":"x"}}` || *api.in.QueueUrl != q.URL {
		t.Errorf("sent %s to %s", *api.in.MessageBody, *api.in.QueueUrl)
	}
	api.err = errors.New("no such queue")
	if err := q.Send(t.Context(), "", json.RawMessage(`17`)); err == nil || err.Error() != "sending dead letter: no such queue" {
		t.Errorf("error %v", err)
	}
}
