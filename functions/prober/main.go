// Command prober sends RADIUS transactions to the servers of a fleet. In Lambda
// it is the handler of scheduled events and of requests by hand; anywhere else
// it is a command that probes once, or asks the servers as a NAS would.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/pkg/bootstrap"
	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
	"radwitness/pkg/store"
)

func main() {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" {
		os.Exit(operate(os.Environ(), os.Stdout, os.Stderr, os.Args[1:]))
	}
	p, err := function(context.Background())
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the prober cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(p.Handle)
}

// function wires the Lambda function.
func function(ctx context.Context) (*prober.Prober, error) {
	f, err := bootstrap.New(ctx, os.Environ(), os.Stdout)
	if err != nil {
		return nil, err
	}
	table, err := f.Table("RADWITNESS_PROBES_TABLE")
	if err != nil {
		return nil, err
	}
	if err := supported(f.Fleet); err != nil {
		return nil, err
	}
	return &prober.Prober{
		Fleet:       f.Fleet,
		Transactor:  &probe.Prober{},
		Credentials: secrets(func() (aws.Config, error) { return f.AWS, nil }, os.Environ(), f.Log),
		Store:       &store.Probes{DynamoDB: dynamodb.NewFromConfig(f.AWS), Table: table},
		Log:         f.Log,
		Metrics:     f.Metrics,
	}, nil
}

// supported refuses a fleet with a method that this prober cannot make, before
// it would fill the table with prober errors.
func supported(f *fleet.Fleet) error {
	for _, g := range f.Groups {
		for _, s := range g.Servers {
			for _, c := range s.Checks {
				if !slices.Contains(probe.Supported(), c.Method) {
					return fmt.Errorf("server %s of group %s: method %q is not supported", s.Name, g.Name, c.Method)
				}
			}
		}
	}
	return nil
}
