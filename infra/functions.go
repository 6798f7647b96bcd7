package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/jsii-runtime-go"

	"radwitness/infra/capacity"
	"radwitness/pkg/fleet"
)

// functions are the two Lambda functions and their log groups.
type functions struct {
	prober, reconciler         awslambda.Function
	proberLogs, reconcilerLogs awslogs.LogGroup
}

const (
	// roundsSeconds is the minute whose rounds an invocation runs, and
	// finishSeconds the time for what follows its last probe: other versions of a
	// secret that is being rotated, the writes, and the error if one fails.
	roundsSeconds = 60
	finishSeconds = 27
	// reconcilerSeconds lets a pass sit out a throttled ELBv2 with its retries. A
	// batch that takes longer is better begun anew.
	reconcilerSeconds = 60
	// eventAgeSeconds is the age at which a scheduled event is given up: the next
	// one has come by then, and probes the same servers.
	eventAgeSeconds = 60
	// maxReconcilers is one for each of the four shards that an on-demand table
	// begins with, and one by hand. More would only press ELBv2, whose API rate is
	// shared by the whole account.
	maxReconcilers = 5
)

// proberSeconds is enough for the longest probe to begin in the last second of
// the minute, and still be recorded.
func (s *stack) proberSeconds() int {
	var longest time.Duration
	for _, g := range s.fleet.Groups {
		for _, server := range g.Servers {
			for _, check := range server.Checks {
				longest = max(longest, check.Budget())
			}
		}
	}
	return roundsSeconds + int(math.Ceil(longest.Seconds())) + finishSeconds
}

// proberMemory is what a shard's part of all checks needs.
func (s *stack) proberMemory() int {
	checks := 0
	for _, g := range s.fleet.Groups {
		for _, server := range g.Servers {
			checks += len(server.Checks)
		}
	}
	return capacity.ProberMB((checks + s.deploy.Shards - 1) / s.deploy.Shards)
}

// proberConcurrency is how many probers may run: a minute's invocation ends a
// little after the next one has begun, so two for each shard, and one by hand.
func (s *stack) proberConcurrency() int { return 2*s.deploy.Shards + 1 }

func (s *stack) newFunctions(code bundles, t tables, q queues, n network) functions {
	var f functions
	f.proberLogs = s.newLogGroup("ProberLogs", s.functionName("prober"))
	f.reconcilerLogs = s.newLogGroup("ReconcilerLogs", s.functionName("reconciler"))

	environment := map[string]*string{
		"RADWITNESS_PROBES_TABLE":  t.probes.TableName(),
		"RADWITNESS_FLEET_VERSION": &s.fleet.Version, // the bundle cannot be looked into
	}
	for _, e := range n.endpoints {
		environment[e.variable()] = e.url
	}
	f.prober = s.newFunction("Prober", functionSpec{
		name: "prober", code: code.prober, seconds: s.proberSeconds(), memory: s.proberMemory(), concurrency: s.proberConcurrency(),
		role:        s.newRole("ProberRole", s.proberGrants(t, q, n, f.proberLogs)),
		logs:        f.proberLogs,
		environment: environment,
		network:     &n,
	})
	awslambda.NewCfnEventInvokeConfig(s.scope, jsii.String("ProberAsync"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName: f.prober.FunctionName(),
		Qualifier:    jsii.String("$LATEST"),
		// A repeated minute would only double the next one's probes.
		MaximumRetryAttempts:     jsii.Number(0),
		MaximumEventAgeInSeconds: jsii.Number(eventAgeSeconds),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: q.prober.QueueArn()},
		},
	})

	f.reconciler = s.newFunction("Reconciler", functionSpec{
		name: "reconciler", code: code.reconciler, seconds: reconcilerSeconds, memory: capacity.ReconcilerMB, concurrency: maxReconcilers,
		role: s.newRole("ReconcilerRole", s.reconcilerGrants(t, q, f.reconcilerLogs)),
		logs: f.reconcilerLogs,
		environment: map[string]*string{
			"RADWITNESS_PROBES_TABLE":  t.probes.TableName(),
			"RADWITNESS_FLEET_VERSION": &s.fleet.Version,
			"RADWITNESS_HEALTH_TABLE":  t.health.TableName(),
			"RADWITNESS_EVENT_BUS":     jsii.String(eventBus),
			"RADWITNESS_FAILURE_QUEUE": q.reconciler.QueueUrl(),
		},
	})
	return f
}

// functionName is a name that stays, so that people can type it.
func (s *stack) functionName(function string) string { return s.name + "-" + function }

func (s *stack) newLogGroup(id, function string) awslogs.LogGroup {
	group := awslogs.NewLogGroup(s.scope, &id, &awslogs.LogGroupProps{
		LogGroupName:  jsii.String("/aws/lambda/" + function),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	// The enumeration of the L2 construct names days; fleet.yaml counts them.
	group.Node().DefaultChild().(awslogs.CfnLogGroup).SetRetentionInDays(jsii.Number(float64(s.deploy.LogRetentionDays)))
	return group
}

// functionSpec is what the functions differ in.
type functionSpec struct {
	name        string
	code        string
	seconds     int
	memory      int // MB
	concurrency int
	role        role
	logs        awslogs.LogGroup
	environment map[string]*string
	network     *network // nil for a function outside the VPC
}

func (s *stack) newFunction(id string, spec functionSpec) awslambda.Function {
	architecture := awslambda.Architecture_ARM_64()
	if s.deploy.Architecture == fleet.X8664 {
		architecture = awslambda.Architecture_X86_64()
	}
	for name, value := range capacity.Environment(spec.memory) {
		spec.environment[name] = &value
	}
	props := &awslambda.FunctionProps{
		FunctionName: jsii.String(s.functionName(spec.name)),
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Handler:      jsii.String("bootstrap"),
		Architecture: architecture,
		Code:         awslambda.Code_FromAsset(&spec.code, nil),
		Role:         spec.role,
		MemorySize:   jsii.Number(float64(spec.memory)),
		Timeout:      awscdk.Duration_Seconds(jsii.Number(float64(spec.seconds))),
		Environment:  &spec.environment,
		LogGroup:     spec.logs,
	}
	if s.deploy.ReserveConcurrency {
		props.ReservedConcurrentExecutions = jsii.Number(float64(spec.concurrency))
	}
	if spec.network != nil {
		props.Vpc = spec.network.vpc
		props.VpcSubnets = spec.network.subnets
		props.SecurityGroups = &[]awsec2.ISecurityGroup{spec.network.securityGroup}
		// Without it a function has no IPv6 in the VPC; with it all subnets must be
		// dual-stack.
		if slices.ContainsFunc(s.radiusRules(), func(r radiusRule) bool { return r.address.Is6() }) {
			props.Ipv6AllowedForDualStack = jsii.Bool(true)
		}
	}
	return awslambda.NewFunction(s.scope, &id, props)
}

// streamFilter passes what the reconciler works on. Rows that expire are no
// evidence, and every other record is needed, also one that says the same as
// the last: it keeps the server fresh and ends hold-downs.
const streamFilter = `{"eventName":["INSERT","MODIFY"]}`

// newEventSourceMapping leads the stream of table probes to the reconciler.
func (s *stack) newEventSourceMapping(t tables, q queues, f functions) {
	awslambda.NewCfnEventSourceMapping(s.scope, jsii.String("ProbesStream"), &awslambda.CfnEventSourceMappingProps{
		EventSourceArn: t.probes.TableStreamArn(),
		FunctionName:   f.reconciler.FunctionName(),
		// A row says all that came before it, so older records tell nothing new.
		StartingPosition: jsii.String("LATEST"),
		// The round of a large fleet in one batch: a group that is cut in two is read
		// and decided twice.
		BatchSize: jsii.Number(1000),
		// Lambda polls four times a second, which gathers the results of a round well
		// enough. To wait for more would only delay a verdict: each decision reads all
		// the rows of its group, also those whose records are still to come.
		MaximumBatchingWindowInSeconds: jsii.Number(0),
		// Records of a group must be worked on in order, by one at a time. A factor
		// above 1 keeps the order of an item, not of a group.
		ParallelizationFactor: jsii.Number(1),
		// One bad record must not hold up its shard for the stream's 24 hours. After
		// five minutes newer rows have said the same.
		BisectBatchOnFunctionError: jsii.Bool(true),
		MaximumRetryAttempts:       jsii.Number(5),
		MaximumRecordAgeInSeconds:  jsii.Number(300),
		FunctionResponseTypes:      jsii.Strings("ReportBatchItemFailures"),
		DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: q.reconciler.QueueArn()},
		},
		FilterCriteria: &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{
			Filters: &[]any{&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: jsii.String(streamFilter)}},
		},
	})
}

// scheduledEvent is what a schedule sends: the form of a rule's event, and the
// part of the servers to probe.
type scheduledEvent struct {
	Source     string `json:"source"`
	DetailType string `json:"detail-type"`
	Time       string `json:"time"`
	Shard      shard  `json:"shard"`
}

type shard struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// newSchedules invokes the prober every minute, once for each shard.
func (s *stack) newSchedules(q queues, f functions) {
	group := awsscheduler.NewCfnScheduleGroup(s.scope, jsii.String("Schedules"), &awsscheduler.CfnScheduleGroupProps{Name: &s.name})
	role := s.newSchedulerRole(q, f)
	state := "ENABLED"
	if !s.deploy.Schedule {
		state = "DISABLED"
	}
	for i := range s.deploy.Shards {
		awsscheduler.NewCfnSchedule(s.scope, jsii.String(fmt.Sprintf("Schedule%d", i)), &awsscheduler.CfnScheduleProps{
			Name:               jsii.String(fmt.Sprintf("%s-%d", s.functionName("prober"), i)),
			GroupName:          group.Ref(),
			Description:        jsii.String("A minute of RADIUS probes"),
			ScheduleExpression: jsii.String("cron(* * * * ? *)"), // at the full minute, which rate() is not
			State:              &state,
			FlexibleTimeWindow: &awsscheduler.CfnSchedule_FlexibleTimeWindowProperty{Mode: jsii.String("OFF")},
			Target: &awsscheduler.CfnSchedule_TargetProperty{
				Arn:     f.prober.FunctionArn(),
				RoleArn: role.RoleArn(),
				Input:   jsii.String(scheduleInput(shard{Index: i, Count: s.deploy.Shards})),
				RetryPolicy: &awsscheduler.CfnSchedule_RetryPolicyProperty{
					MaximumRetryAttempts:     jsii.Number(0),
					MaximumEventAgeInSeconds: jsii.Number(eventAgeSeconds),
				},
				DeadLetterConfig: &awsscheduler.CfnSchedule_DeadLetterConfigProperty{Arn: q.prober.QueueArn()},
			},
		})
	}
}

// scheduleInput is the input of a schedule. The scheduler puts the time into it.
func scheduleInput(part shard) string {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // the angle brackets are the scheduler's
	_ = e.Encode(scheduledEvent{
		Source: "aws.scheduler", DetailType: "Scheduled Event",
		Time: "<aws.scheduler.scheduled-time>", Shard: part,
	}) // plain fields into a buffer cannot fail
	return strings.TrimSpace(text.String())
}
