// Command reconciler keeps the NLB's target groups equal to the servers that
// authenticate. In Lambda it is the handler of the stream of table probes;
// anywhere else it is the operator's command, radwitness.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"radwitness/pkg/announce"
	"radwitness/pkg/balancer"
	"radwitness/pkg/bootstrap"
	"radwitness/pkg/deadletter"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

func main() {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" {
		os.Exit(operate(os.Environ(), os.Stdin, os.Stdout, os.Stderr, os.Args[1:]))
	}
	r, err := function(context.Background())
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the reconciler cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(handler(r.Handle))
}

// function wires the Lambda function.
func function(ctx context.Context) (*reconciler.Reconciler, error) {
	f, err := bootstrap.New(ctx, os.Environ(), os.Stdout)
	if err != nil {
		return nil, err
	}
	probes, err := f.Table("RADWITNESS_PROBES_TABLE")
	if err != nil {
		return nil, err
	}
	health, err := f.Table("RADWITNESS_HEALTH_TABLE")
	if err != nil {
		return nil, err
	}
	db := dynamodb.NewFromConfig(f.AWS)
	r := &reconciler.Reconciler{
		Fleet:    f.Fleet,
		Probes:   &store.Probes{DynamoDB: db, Table: probes},
		Health:   &store.Health{DynamoDB: db, Table: health},
		Balancer: &balancer.Client{ELBv2: elbv2.NewFromConfig(f.AWS), EC2: ec2.NewFromConfig(f.AWS)},
		Log:      f.Log,
		Metrics:  f.Metrics,
	}
	if bus := f.Optional("RADWITNESS_EVENT_BUS"); bus != "" {
		r.Announcer = &announce.Client{EventBridge: eventbridge.NewFromConfig(f.AWS), Bus: bus}
	}
	if url := f.Optional("RADWITNESS_FAILURE_QUEUE"); url != "" {
		r.DeadLetters = &deadletter.Queue{SQS: sqs.NewFromConfig(f.AWS), URL: url}
	}
	return r, nil
}
