package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// tables are the two tables. Each is written by one function alone.
type tables struct {
	probes, health awsdynamodb.Table
}

func (s *stack) newTables() tables {
	// Only probes has a stream: the reconciler must not be woken by its own writes.
	return tables{
		probes: s.newTable("ProbesTable", "server", awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES),
		health: s.newTable("HealthTable", "item", ""),
	}
}

func (s *stack) newTable(id, sortKey string, stream awsdynamodb.StreamViewType) awsdynamodb.Table {
	removal := awscdk.RemovalPolicy_DESTROY
	if s.deploy.RetainTables {
		removal = awscdk.RemovalPolicy_RETAIN
	}
	return awsdynamodb.NewTable(s.scope, &id, &awsdynamodb.TableProps{
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("group"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:      &awsdynamodb.Attribute{Name: &sortKey, Type: awsdynamodb.AttributeType_STRING},
		// The load follows the fleet's size; a capacity set by hand would not.
		BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
		Stream:              stream,
		TimeToLiveAttribute: jsii.String("expires_at"),
		Encryption:          awsdynamodb.TableEncryption_AWS_MANAGED,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		DeletionProtection: &s.deploy.RetainTables,
		RemovalPolicy:      removal,
	})
}

// queues hold what the functions could not work on, for a person to look at.
type queues struct {
	prober     awssqs.Queue // events of a scheduled minute that was not probed
	reconciler awssqs.Queue // stream positions of records that were given up
}

func (s *stack) newQueues() queues {
	return queues{
		prober:     s.newQueue("ProberFailures"),
		reconciler: s.newQueue("ReconcilerFailures"),
	}
}

func (s *stack) newQueue(id string) awssqs.Queue {
	q := awssqs.NewQueue(s.scope, &id, &awssqs.QueueProps{
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:      jsii.Bool(true),
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
	})
	explain(q, finding{id: "AwsSolutions-SQS3", reason: "This queue is itself where failures end up; nothing reads it but people."})
	return q
}
