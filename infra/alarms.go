package main

import (
	"math"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"radwitness/pkg/fleet"
	"radwitness/pkg/telemetry"
)

// alarmSpec is an alarm on a metric that reaches 1, unless it says otherwise. Its
// kind is also the heading under which docs/operate.md says what to do.
type alarmSpec struct {
	id, kind, description string
	group                 string // empty for an alarm of the functions
	metric                awscloudwatch.IMetric
	threshold             float64 // 1 if 0
	below                 bool    // ring when less than the threshold, not at or above it
	periods               float64
	missing               awscloudwatch.TreatMissingData
	silent                bool
}

// newAlarms makes the alarms, and tells the topic of fleet.yaml of them.
func (s *stack) newAlarms(q queues, f functions) []awscloudwatch.Alarm {
	var specs []alarmSpec
	for _, g := range s.fleet.Groups {
		specs = append(specs, s.groupAlarms(g)...)
	}
	specs = append(specs, s.functionAlarms(q, f)...)

	topic := s.alarmTopic()
	var alarms []awscloudwatch.Alarm
	for _, spec := range specs {
		alarm := s.newAlarm(spec)
		if topic != nil {
			action := awscloudwatchactions.NewSnsAction(topic)
			alarm.AddAlarmAction(action)
			alarm.AddOkAction(action)
		}
		alarms = append(alarms, alarm)
	}
	return alarms
}

// groupAlarms are the alarms of a group. Where a gauge is missing the alarm
// stays as it is: no news is neither good nor bad. That there is no news at all
// has alarms of its own.
func (s *stack) groupAlarms(g fleet.Group) []alarmSpec {
	group := g.Name
	// A group at rest is passed over once in its reconcile_interval, and only a
	// pass has news of it: one value of each gauge. CloudWatch counts in whole
	// minutes.
	pass := max(1, math.Ceil(g.ReconcileInterval.Minutes()))
	specs := []alarmSpec{
		{
			id: "NoFreshProbe-" + group, kind: "no-fresh-probe", group: group,
			description: "No server of the group has had a conclusive probe for 3 minutes. Membership stays as it is, and nobody watches.",
			metric:      groupMetric(group, telemetry.MetricSuccessRate, awscloudwatch.Stats_SAMPLE_COUNT(), 1),
			below:       true, periods: 3,
			missing: awscloudwatch.TreatMissingData_BREACHING,
			silent:  !s.deploy.Schedule, // switched off on purpose
		},
		{
			id: "NoPass-" + group, kind: "no-pass", group: group,
			description: "The reconciler has not looked at the group's target groups for five times as long as it should. Membership stays as it is.",
			metric:      groupMetric(group, telemetry.MetricUp, awscloudwatch.Stats_SAMPLE_COUNT(), pass),
			below:       true, periods: 5,
			missing: awscloudwatch.TreatMissingData_BREACHING,
			silent:  !s.deploy.Schedule,
		},
		{
			id: "FailOpen-" + group, kind: "fail-open", group: group,
			description: "Too few servers of the group are well, so servers that should be out are kept in.",
			metric:      groupMetric(group, telemetry.MetricFailOpen, awscloudwatch.Stats_MAXIMUM(), 1),
			periods:     1,
			missing:     awscloudwatch.TreatMissingData_IGNORE,
		},
		{
			id: "ServerDown-" + group, kind: "server-down", group: group,
			description: "A server of the group does not authenticate.",
			metric:      groupMetric(group, telemetry.MetricDown, awscloudwatch.Stats_MAXIMUM(), 1),
			periods:     1,
			missing:     awscloudwatch.TreatMissingData_IGNORE,
		},
		{
			id: "PassesFail-" + group, kind: "passes-fail", group: group,
			description: "Passes over the group's target groups fail again and again: membership may differ from the decision.",
			metric:      groupMetric(group, telemetry.MetricErrors, awscloudwatch.Stats_SUM(), pass),
			periods:     3,
			missing:     awscloudwatch.TreatMissingData_NOT_BREACHING,
		},
	}
	if showsCertificates(g) {
		specs = append(specs, alarmSpec{
			id: "CertificateExpires-" + group, kind: "certificate-expires", group: group,
			description: "A server certificate of the group expires in less than 14 days: from then on no 802.1X client gets in.",
			metric:      groupMetric(group, telemetry.MetricDaysToExpiry, awscloudwatch.Stats_MINIMUM(), 60),
			threshold:   14, below: true, periods: 1,
			missing: awscloudwatch.TreatMissingData_IGNORE,
		})
	}
	return specs
}

// showsCertificates tells whether a check of the group sees one.
func showsCertificates(g fleet.Group) bool {
	return slices.ContainsFunc(g.Servers, func(s fleet.Server) bool {
		return slices.ContainsFunc(s.Checks, func(c fleet.Probe) bool { return c.Method.UsesTLS() })
	})
}

func (s *stack) functionAlarms(q queues, f functions) []alarmSpec {
	errors := &awscloudwatch.MetricOptions{Period: minutes(5), Statistic: awscloudwatch.Stats_SUM()}
	return []alarmSpec{
		{
			id: "ProberErrors", kind: "prober-errors",
			description: "The prober has failed: a minute was not probed, or results were not recorded.",
			metric:      f.prober.MetricErrors(errors), periods: 1,
			missing: awscloudwatch.TreatMissingData_NOT_BREACHING,
		},
		{
			id: "ReconcilerErrors", kind: "reconciler-errors",
			description: "The reconciler has failed on a whole batch.",
			metric:      f.reconciler.MetricErrors(errors), periods: 1,
			missing: awscloudwatch.TreatMissingData_NOT_BREACHING,
		},
		{
			id: "IteratorAge", kind: "iterator-age",
			description: "The reconciler is more than a minute behind the probes, and past that it no longer changes membership.",
			metric: f.reconciler.Metric(jsii.String("IteratorAge"), &awscloudwatch.MetricOptions{
				Period: minutes(1), Statistic: awscloudwatch.Stats_MAXIMUM(),
			}),
			threshold: 60_000, periods: 3,
			missing: awscloudwatch.TreatMissingData_NOT_BREACHING,
		},
		queueAlarm("ProberFailures", "prober-failures", "Scheduled minutes were given up; the messages say why.", q.prober),
		queueAlarm("ReconcilerFailures", "reconciler-failures", "Stream records were given up; the messages say which.", q.reconciler),
	}
}

func queueAlarm(id, kind, description string, queue awssqs.Queue) alarmSpec {
	return alarmSpec{
		id: id + "NotEmpty", kind: kind, description: description,
		metric: queue.MetricApproximateNumberOfMessagesVisible(&awscloudwatch.MetricOptions{
			Period: minutes(1), Statistic: awscloudwatch.Stats_MAXIMUM(),
		}),
		periods: 1,
		missing: awscloudwatch.TreatMissingData_NOT_BREACHING,
	}
}

func (s *stack) newAlarm(spec alarmSpec) awscloudwatch.Alarm {
	if spec.threshold == 0 {
		spec.threshold = 1
	}
	operator := awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD
	if spec.below {
		operator = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD
	}
	name := s.name + "-" + spec.kind
	if spec.group != "" {
		name += "-" + spec.group
	}
	return awscloudwatch.NewAlarm(s.scope, &spec.id, &awscloudwatch.AlarmProps{
		AlarmName:          &name,
		AlarmDescription:   jsii.String(spec.description + " What to do: docs/operate.md#" + spec.kind),
		Metric:             spec.metric,
		Threshold:          &spec.threshold,
		ComparisonOperator: operator,
		EvaluationPeriods:  &spec.periods,
		TreatMissingData:   spec.missing,
		ActionsEnabled:     jsii.Bool(!spec.silent),
	})
}

// groupMetric is a metric of ours, over periods of so many minutes.
func groupMetric(group, name string, statistic *string, period float64) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String(telemetry.Namespace),
		MetricName:    &name,
		DimensionsMap: &map[string]*string{telemetry.DimensionGroup: &group},
		Statistic:     statistic,
		Period:        minutes(period),
	})
}

func minutes(n float64) awscdk.Duration { return awscdk.Duration_Minutes(&n) }

// alarmTopic is the topic to tell of alarms; nil if fleet.yaml names none.
func (s *stack) alarmTopic() awssns.ITopic {
	if s.deploy.AlarmTopic != "" {
		return awssns.Topic_FromTopicArn(s.scope, jsii.String("AlarmTopic"), &s.deploy.AlarmTopic)
	}
	if s.deploy.AlarmEmail == "" {
		return nil
	}
	topic := awssns.NewTopic(s.scope, jsii.String("AlarmTopic"), &awssns.TopicProps{
		DisplayName: jsii.String("radwitness alarms"),
		EnforceSSL:  jsii.Bool(true),
	})
	// A topic with a policy, such as the one on SSL, takes nothing that it does not
	// name.
	topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("AlarmsPublish"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sns:Publish"),
		Resources:  &[]*string{topic.TopicArn()},
		Conditions: &map[string]any{"ArnLike": map[string]string{"aws:SourceArn": s.home.arn("cloudwatch", "alarm:"+s.name+"-*")}},
	}))
	topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(&s.deploy.AlarmEmail, nil))
	return topic
}
