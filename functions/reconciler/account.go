//go:build !lambda.norpc

package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/urfave/cli/v3"

	"radwitness/pkg/balancer"
	"radwitness/pkg/deployed"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// account is a deployment, and the means to look at it.
type account struct{ *deployed.System }

// source is what the command line and the environment say of the deployed.
func (c console) source(cmd *cli.Command) deployed.Source {
	return deployed.Source{
		Environ: c.environ, FleetFile: cmd.String("config"), Profile: cmd.String("profile"), Region: cmd.String("region"),
		ProbesTable: cmd.String("probes-table"), HealthTable: cmd.String("health-table"),
		Warn: func(text string) { _, _ = fmt.Fprintln(c.err, "radwitness: warning:", text) },
	}
}

// look does something with an operator's view of the deployed.
func (c console) look(ctx context.Context, cmd *cli.Command, do func(*operator.Operator) error) error {
	d, err := c.source(cmd).Connect(ctx)
	if err != nil {
		return err
	}
	return d.Explain(ctx, do(account{d}.operator()))
}

// operator is what the commands look through. It decides with the reconciler's
// own code.
func (a account) operator() *operator.Operator {
	db := dynamodb.NewFromConfig(a.AWS)
	health := &store.Health{DynamoDB: db, Table: a.HealthTable}
	return &operator.Operator{
		Fleet:     a.Fleet,
		Viewer:    a.reconciler(health),
		History:   health,
		Drains:    &store.Drains{DynamoDB: db, Table: a.HealthTable},
		Latencies: &operator.Metrics{CloudWatch: cloudwatch.NewFromConfig(a.AWS)},
	}
}

// reconciler is one that only looks. What it would log is in what it returns.
func (a account) reconciler(health *store.Health) *reconciler.Reconciler {
	return &reconciler.Reconciler{
		Fleet:    a.Fleet,
		Probes:   &store.Probes{DynamoDB: health.DynamoDB, Table: a.ProbesTable},
		Health:   health,
		Balancer: &balancer.Client{ELBv2: elbv2.NewFromConfig(a.AWS), EC2: ec2.NewFromConfig(a.AWS)},
		Log:      slog.New(slog.DiscardHandler),
	}
}
