package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
	"radwitness/pkg/telemetry"
)

const (
	// metricsAge is how far back metrics are looked at.
	metricsAge = 5 * time.Minute
	// minSecret is the length in octets that RFC 2865 section 3 prefers.
	minSecret = 16
)

// Lambda is the part of the Lambda API that is read here.
type Lambda interface {
	GetFunctionConfiguration(context.Context, *lambda.GetFunctionConfigurationInput, ...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error)
	GetFunctionConcurrency(context.Context, *lambda.GetFunctionConcurrencyInput, ...func(*lambda.Options)) (*lambda.GetFunctionConcurrencyOutput, error)
	GetFunctionEventInvokeConfig(context.Context, *lambda.GetFunctionEventInvokeConfigInput, ...func(*lambda.Options)) (*lambda.GetFunctionEventInvokeConfigOutput, error)
	ListEventSourceMappings(context.Context, *lambda.ListEventSourceMappingsInput, ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error)
}

// Scheduler is the part of the EventBridge Scheduler API that is read here.
type Scheduler interface {
	GetSchedule(context.Context, *scheduler.GetScheduleInput, ...func(*scheduler.Options)) (*scheduler.GetScheduleOutput, error)
}

// DynamoDB is the part of the DynamoDB API that is read here. Rows are read by
// Probes and Health.
type DynamoDB interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
}

// SQS is the part of the SQS API that is read here.
type SQS interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// CloudWatch is the part of the CloudWatch API that is read here.
type CloudWatch interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

// Credentials reads secrets.
type Credentials interface {
	Get(context.Context, fleet.Credential) (probe.Credentials, error)
}

// readStack reads what is there once, not for each group.
func (r *reader) readStack(ctx context.Context, f *Facts, run func(func())) {
	for _, name := range r.usedCredentials() {
		c := &Credential{Name: name, Needed: r.needsAccount(name)}
		f.Credentials = append(f.Credentials, c)
		run(func() { r.readCredential(ctx, c) })
	}
	for i := range r.shards() {
		s := &Schedule{Name: fmt.Sprintf("%s-prober-%d", r.Stack, i)}
		f.Schedules = append(f.Schedules, s)
		run(func() { r.readSchedule(ctx, s) })
	}
	if r.deployed() {
		f.Tables = []*Table{
			{Name: r.ProbesTable, SortKey: "server", Streams: true},
			{Name: r.HealthTable, SortKey: "item"},
		}
		run(func() { f.Skew = r.readTable(ctx, f.Tables[0]) })
		run(func() { r.readTable(ctx, f.Tables[1]) })
	}
	run(func() {
		f.Prober = r.readFunction(ctx, "prober")
		if f.Prober != nil && !f.Prober.Missing {
			f.Queues = append(f.Queues, r.proberQueue(ctx, f.Prober)...)
		}
		f.Reconciler = r.readFunction(ctx, "reconciler")
		if f.Reconciler != nil && !f.Reconciler.Missing {
			f.Mappings = r.readMappings(ctx, f.Reconciler)
			f.Queues = append(f.Queues, r.readQueue(ctx, f.Reconciler, f.Reconciler.Environment["RADWITNESS_FAILURE_QUEUE"])...)
		}
	})
	run(func() { f.IteratorAge = r.readIteratorAge(ctx) })
}

// shards is how many schedules there are.
func (r *reader) shards() int {
	if r.Fleet.Deploy == nil {
		return 1
	}
	return r.Fleet.Deploy.Shards
}

func (r *reader) usedCredentials() []string {
	used := map[string]bool{}
	for _, g := range r.Fleet.Groups {
		for _, s := range g.Servers {
			used[s.Credential] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// needsAccount reports whether a server's probe with these credentials logs in.
func (r *reader) needsAccount(credential string) bool {
	for _, g := range r.Fleet.Groups {
		for _, s := range g.Servers {
			logsIn := func(p fleet.Probe) bool { return p.Method != fleet.StatusServer && p.Method != fleet.Accounting }
			if s.Credential == credential && slices.ContainsFunc(s.Checks, logsIn) {
				return true
			}
		}
	}
	return false
}

// readCredential tells a secret that is not as it should be from one that we
// could not get at: what counts is whether the prober can.
func (r *reader) readCredential(ctx context.Context, c *Credential) {
	source := r.Fleet.Credentials[c.Name]
	value, err := r.Credentials.Get(ctx, source)
	_, called := errors.AsType[*smithy.OperationError](err)
	if err != nil && (source.Env != "" || called && !useless(err)) {
		action := "secretsmanager:GetSecretValue"
		if source.SSM != "" {
			action = "ssm:GetParameter"
		}
		c.Unknown = true
		r.gap(subject{name: "credentials " + c.Name}, "the secret", action, err)
		return
	}
	c.Err, c.Short, c.Account = err, len(value.SharedSecret) < minSecret, value.Username != ""
}

// useless reports whether an API says that there is no such secret for anybody
// (Secrets Manager API, GetSecretValue; SSM API, GetParameter).
func useless(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains([]string{
		"ResourceNotFoundException", "ParameterNotFound",
		"InvalidRequestException", // it is marked for deletion
	}, api.ErrorCode())
}

func (r *reader) readSchedule(ctx context.Context, s *Schedule) {
	out, err := r.Scheduler.GetSchedule(ctx, &scheduler.GetScheduleInput{Name: &s.Name, GroupName: &r.Stack})
	if _, missing := errors.AsType[*schedulertypes.ResourceNotFoundException](err); missing {
		s.Missing = true
		return
	}
	if err != nil {
		r.gap(subject{name: "schedule " + s.Name}, "the schedule", "scheduler:GetSchedule", err)
		return
	}
	s.State, s.Expression = out.State, aws.ToString(out.ScheduleExpression)
	if out.FlexibleTimeWindow != nil {
		s.Window = out.FlexibleTimeWindow.Mode
	}
	if out.Target != nil {
		s.Target = aws.ToString(out.Target.Arn)
	}
}

// readTable also tells what this machine's clock is behind, by the time that the
// answer bears.
func (r *reader) readTable(ctx context.Context, t *Table) *time.Duration {
	subject := subject{name: "table " + t.Name}
	out, err := r.DynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.Name})
	if _, missing := errors.AsType[*dynamodbtypes.ResourceNotFoundException](err); missing {
		t.Missing = true
		return nil
	}
	if err != nil {
		r.gap(subject, "the table", "dynamodb:DescribeTable", err)
		return nil
	}
	t.Status = string(out.Table.TableStatus)
	for _, k := range out.Table.KeySchema {
		t.Keys = append(t.Keys, aws.ToString(k.AttributeName))
	}
	if s := out.Table.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		t.StreamARN, t.View = aws.ToString(out.Table.LatestStreamArn), string(s.StreamViewType)
	}
	expiry, err := r.DynamoDB.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.Name})
	if err != nil {
		r.gap(subject, "its time to live", "dynamodb:DescribeTimeToLive", err)
	} else {
		t.Expiry = new("")
		if d := expiry.TimeToLiveDescription; d != nil &&
			(d.TimeToLiveStatus == dynamodbtypes.TimeToLiveStatusEnabled || d.TimeToLiveStatus == dynamodbtypes.TimeToLiveStatusEnabling) {
			t.Expiry = new(aws.ToString(d.AttributeName))
		}
	}
	if skew, ok := middleware.GetAttemptSkew(out.ResultMetadata); ok {
		return &skew
	}
	return nil
}

func (r *reader) readFunction(ctx context.Context, name string) *Function {
	f := &Function{Name: r.Stack + "-" + name}
	subject := subject{name: "function " + f.Name}
	out, err := r.Lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &f.Name})
	if _, missing := errors.AsType[*lambdatypes.ResourceNotFoundException](err); missing {
		f.Missing = true
		return f
	}
	if err != nil {
		r.gap(subject, "the function", "lambda:GetFunctionConfiguration", err)
		return nil
	}
	f.State, f.StateReason, f.Update = out.State, aws.ToString(out.StateReason), out.LastUpdateStatus
	f.Timeout = time.Duration(aws.ToInt32(out.Timeout)) * time.Second
	f.Environment = map[string]string{}
	if out.Environment != nil {
		f.Environment = out.Environment.Variables
	}
	concurrency, err := r.Lambda.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &f.Name})
	if err != nil {
		r.gap(subject, "its concurrency", "lambda:GetFunctionConcurrency", err)
	} else {
		f.Concurrency, f.Reserved = true, concurrency.ReservedConcurrentExecutions
	}
	return f
}

func (r *reader) readMappings(ctx context.Context, f *Function) []Mapping {
	mappings := []Mapping{}
	pages := lambda.NewListEventSourceMappingsPaginator(r.Lambda, &lambda.ListEventSourceMappingsInput{FunctionName: &f.Name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			r.gap(subject{name: "stream"}, "the event source mappings of "+f.Name, "lambda:ListEventSourceMappings", err)
			return nil
		}
		mappings = append(mappings, page.EventSourceMappings...)
	}
	return mappings
}

// proberQueue reads the queue of the minutes that were not probed.
func (r *reader) proberQueue(ctx context.Context, f *Function) []Queue {
	subject := subject{name: "failures of " + f.Name}
	out, err := r.Lambda.GetFunctionEventInvokeConfig(ctx, &lambda.GetFunctionEventInvokeConfigInput{FunctionName: &f.Name})
	if _, none := errors.AsType[*lambdatypes.ResourceNotFoundException](err); none {
		return nil
	}
	if err != nil {
		r.gap(subject, "where they go", "lambda:GetFunctionEventInvokeConfig", err)
		return nil
	}
	if out.DestinationConfig == nil || out.DestinationConfig.OnFailure == nil {
		return nil
	}
	// arn:aws:sqs:REGION:ACCOUNT:NAME
	part := strings.Split(aws.ToString(out.DestinationConfig.OnFailure.Destination), ":")
	if len(part) != 6 || part[2] != "sqs" {
		return nil
	}
	queue, err := r.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &part[5], QueueOwnerAWSAccountId: &part[4]})
	if err != nil {
		r.gap(subject, "the queue "+part[5], "sqs:GetQueueUrl", err)
		return nil
	}
	return r.readQueue(ctx, f, aws.ToString(queue.QueueUrl))
}

func (r *reader) readQueue(ctx context.Context, f *Function, url string) []Queue {
	if url == "" {
		return nil
	}
	const count = sqstypes.QueueAttributeNameApproximateNumberOfMessages
	out, err := r.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{count}})
	if err != nil {
		r.gap(subject{name: "failures of " + f.Name}, "the queue", "sqs:GetQueueAttributes", err)
		return nil
	}
	n, err := strconv.Atoi(out.Attributes[string(count)])
	if err != nil {
		r.gap(subject{name: "failures of " + f.Name}, "how many there are", "sqs:GetQueueAttributes", err)
		return nil
	}
	return []Queue{{Of: f.Name, URL: url, Messages: n}}
}

// readIteratorAge reads how far behind the reconciler has been.
func (r *reader) readIteratorAge(ctx context.Context) *time.Duration {
	values, ok := r.metric(ctx, subject{name: "stream"}, metricsAge, "Maximum", "AWS/Lambda", "IteratorAge",
		cloudwatchtypes.Dimension{Name: aws.String("FunctionName"), Value: aws.String(r.Stack + "-reconciler")})
	if !ok || len(values) == 0 {
		return nil
	}
	return new(time.Duration(slices.Max(values)) * time.Millisecond)
}

// passesAge is the time in which a group must have been passed over.
func passesAge(g fleet.Group) time.Duration { return max(metricsAge, 5*g.ReconcileInterval) }

// readPasses reads how often a group has been passed over: each pass gives one
// value of each gauge.
func (r *reader) readPasses(ctx context.Context, g *Group) {
	values, ok := r.metric(ctx, subjectOfGroup(g), passesAge(g.Group), "SampleCount", telemetry.Namespace, telemetry.MetricUp,
		cloudwatchtypes.Dimension{Name: aws.String(telemetry.DimensionGroup), Value: &g.Name})
	if !ok {
		return
	}
	g.Passes = new(0.0)
	for _, v := range values {
		*g.Passes += v
	}
}

// metric reads the values of a metric, one a minute.
func (r *reader) metric(
	ctx context.Context, s subject, age time.Duration, statistic, namespace, name string, dimension cloudwatchtypes.Dimension,
) ([]float64, bool) {
	now := r.now()
	out, err := r.CloudWatch.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(now.Add(-age)), EndTime: &now,
		MetricDataQueries: []cloudwatchtypes.MetricDataQuery{{Id: aws.String("values"), MetricStat: &cloudwatchtypes.MetricStat{
			Period: aws.Int32(60), Stat: &statistic,
			Metric: &cloudwatchtypes.Metric{Namespace: &namespace, MetricName: &name, Dimensions: []cloudwatchtypes.Dimension{dimension}},
		}}},
	})
	if err != nil {
		r.gap(s, "metric "+name, "cloudwatch:GetMetricData", err)
		return nil, false
	}
	var values []float64
	for _, result := range out.MetricDataResults {
		values = append(values, result.Values...)
	}
	return values, true
}
