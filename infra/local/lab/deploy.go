package lab

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// deploy makes what the CDK app makes beside the tables, by the same names and
// with the same settings, for who looks at a deployed system. Nothing here runs:
// the lab itself invokes the functions.
func (c *cloud) deploy(ctx context.Context, fleetVersion string, overrides []string) error {
	for _, table := range []*string{&c.probes, &c.health} {
		_, err := dynamodb.NewFromConfig(c.operator).UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               table,
			TimeToLiveSpecification: &dynamodbtypes.TimeToLiveSpecification{AttributeName: aws.String("expires_at"), Enabled: aws.Bool(true)},
		})
		if err != nil {
			return fmt.Errorf("setting the time to live of table %s: %w", *table, err)
		}
	}
	queue, err := sqs.NewFromConfig(c.operator).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(c.stack + "-failures")})
	if err != nil {
		return fmt.Errorf("creating the failure queue: %w", err)
	}
	environment := map[string]string{"RADWITNESS_PROBES_TABLE": c.probes, "RADWITNESS_FLEET_VERSION": fleetVersion}
	for _, assignment := range overrides {
		name, value, _ := strings.Cut(assignment, "=")
		environment[name] = value
	}
	prober, err := c.createFunction(ctx, "prober", int32(proberTimeout.Seconds()), environment)
	if err != nil {
		return err
	}
	environment = maps.Clone(environment)
	environment["RADWITNESS_HEALTH_TABLE"] = c.health
	environment["RADWITNESS_FAILURE_QUEUE"] = aws.ToString(queue.QueueUrl)
	if _, err := c.createFunction(ctx, "reconciler", int32(reconcilerTimeout.Seconds()), environment); err != nil {
		return err
	}
	_, err = lambda.NewFromConfig(c.operator).CreateEventSourceMapping(ctx, &lambda.CreateEventSourceMappingInput{
		FunctionName: aws.String(c.stack + "-reconciler"), EventSourceArn: &c.stream,
		StartingPosition: lambdatypes.EventSourcePositionLatest, BatchSize: aws.Int32(1000), MaximumBatchingWindowInSeconds: aws.Int32(0),
	})
	if err != nil {
		return fmt.Errorf("creating the event source mapping: %w", err)
	}
	return c.createSchedule(ctx, prober)
}

// createFunction returns the ARN of the function STACK-NAME.
func (c *cloud) createFunction(ctx context.Context, name string, timeout int32, environment map[string]string) (*string, error) {
	out, err := lambda.NewFromConfig(c.operator).CreateFunction(ctx, &lambda.CreateFunctionInput{
		FunctionName: aws.String(c.stack + "-" + name), Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Role: aws.String("arn:aws:iam::000000000000:role/lab"), Code: &lambdatypes.FunctionCode{ZipFile: []byte("the lab's own process")},
		MemorySize: aws.Int32(256), Timeout: &timeout, Environment: &lambdatypes.Environment{Variables: environment},
	})
	if err != nil {
		return nil, fmt.Errorf("creating function %s: %w", name, err)
	}
	return out.FunctionArn, nil
}

func (c *cloud) createSchedule(ctx context.Context, function *string) error {
	client := scheduler.NewFromConfig(c.operator)
	if _, err := client.CreateScheduleGroup(ctx, &scheduler.CreateScheduleGroupInput{Name: &c.stack}); err != nil {
		return fmt.Errorf("creating the schedule group: %w", err)
	}
	_, err := client.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		Name: aws.String(c.stack + "-prober-0"), GroupName: &c.stack,
		ScheduleExpression: aws.String("cron(* * * * ? *)"), State: schedulertypes.ScheduleStateEnabled,
		FlexibleTimeWindow: &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff},
		Target:             &schedulertypes.Target{Arn: function, RoleArn: aws.String("arn:aws:iam::000000000000:role/lab")},
	})
	if err != nil {
		return fmt.Errorf("creating the schedule: %w", err)
	}
	return nil
}
