//go:build !lambda.norpc

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/urfave/cli/v3"

	"radwitness/pkg/balancer"
	"radwitness/pkg/commandline"
	"radwitness/pkg/credentials"
	"radwitness/pkg/deployed"
	"radwitness/pkg/doctor"
	"radwitness/pkg/operator/screen"
	"radwitness/pkg/store"
)

// errWarnings ends a doctor that has found nothing worse than warnings.
var errWarnings = errors.New("there are warnings")

func (c console) doctor() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "look for what breaks RADIUS behind the load balancer, and say how to mend it",
		Description: "Changes nothing. docs/doctor.md explains every check, and lists the permissions that it needs.\n" +
			"Exit code: 0 all is well, 1 warnings, 2 failures, 3 nothing was found out. go run makes 1 of any but 0.",
		Flags: []cli.Flag{
			groupFlag(),
			&cli.BoolFlag{Name: "all", Usage: "list what is well, too"},
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "longest `TIME` to wait for AWS; what is not read by then is not checked"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := commandline.NoArguments(cmd); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, cmd.Duration("timeout"))
			defer cancel()
			d, err := c.newDoctor(ctx, cmd)
			if err != nil {
				return err
			}
			report := d.Examine(ctx, cmd.String("group"))
			if err := c.print(cmd, report, func(s screen.Screen) string { return s.Doctor(report, cmd.Bool("all")) }); err != nil {
				return err
			}
			switch report.Level {
			case doctor.Fail:
				return errAttention
			case doctor.Warn:
				return errWarnings
			}
			return nil
		},
	}
}

// newDoctor wires a doctor. A stack that is not deployed is something for it to
// find, and no error.
func (c console) newDoctor(ctx context.Context, cmd *cli.Command) (*doctor.Doctor, error) {
	source := c.source(cmd)
	system, err := source.LogIn(ctx)
	if err != nil {
		return nil, err
	}
	a := account{system}
	if name := cmd.String("group"); name != "" {
		if _, ok := a.Fleet.Group(name); !ok {
			return nil, fmt.Errorf("group %q is not in the fleet", name)
		}
	}
	if source.Stack(a.Fleet) == "" {
		return nil, errors.New("it is not known which stack to examine: the fleet file has no section deploy, so set RADWITNESS_STACK to the stack's name")
	}
	if err := a.checkHome(ctx); err != nil {
		return nil, err
	}
	if a.ProbesTable == "" || a.HealthTable == "" {
		err := source.Adopt(ctx, system)
		if _, answered := errors.AsType[smithy.APIError](err); err != nil && !answered {
			return nil, err
		}
	}
	file, err := source.Fleet(nil)
	if err != nil {
		return nil, err
	}
	db := dynamodb.NewFromConfig(a.AWS)
	elb := elbv2.NewFromConfig(a.AWS)
	return &doctor.Doctor{
		Fleet: a.Fleet, FileVersion: file.Version, Stack: source.Stack(a.Fleet), ProbesTable: a.ProbesTable, HealthTable: a.HealthTable,
		ELBv2:       elb,
		Planner:     &balancer.Client{ELBv2: elb, EC2: ec2.NewFromConfig(a.AWS)},
		Lambda:      lambda.NewFromConfig(a.AWS),
		Scheduler:   scheduler.NewFromConfig(a.AWS),
		DynamoDB:    db,
		SQS:         sqs.NewFromConfig(a.AWS),
		CloudWatch:  cloudwatch.NewFromConfig(a.AWS),
		Probes:      &store.Probes{DynamoDB: db, Table: a.ProbesTable},
		Health:      &store.Health{DynamoDB: db, Table: a.HealthTable},
		Credentials: secrets(source, a.AWS),
	}, nil
}

// secrets reads credentials as the prober does, with the operator's own
// permissions.
func secrets(source deployed.Source, cfg aws.Config) *credentials.Store {
	return &credentials.Store{
		SecretsManager: func() (credentials.SecretsManagerAPI, error) { return secretsmanager.NewFromConfig(cfg), nil },
		SSM:            func() (credentials.SSMAPI, error) { return ssm.NewFromConfig(cfg), nil },
		LookupEnv:      source.LookUp,
	}
}

// checkHome refuses credentials of another account, and another Region: nothing
// would be found there. It needs no permission.
func (a account) checkHome(ctx context.Context) error {
	out, err := sts.NewFromConfig(a.AWS).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	// arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID
	home := strings.Split(a.Fleet.Groups[0].TargetGroups[0].ARN, ":")
	switch region, id := home[3], home[4]; {
	case a.AWS.Region != region:
		return fmt.Errorf("the target groups are in %s, and the AWS configuration says %s: use -region %[1]s", region, a.AWS.Region)
	case aws.ToString(out.Account) != id:
		return fmt.Errorf("the target groups are in account %s, and these credentials are of account %s: choose another profile with -profile",
			id, aws.ToString(out.Account))
	}
	return nil
}
