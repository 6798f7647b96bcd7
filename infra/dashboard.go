package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"radwitness/pkg/telemetry"
)

// Widths of widgets; a row of the dashboard is 24 wide.
const (
	third = 8
	whole = 24
)

// newDashboard shows the groups first, each in a row of its own, then what
// became of them, then the machinery.
func (s *stack) newDashboard(q queues, f functions, alarms []awscloudwatch.Alarm) {
	dashboard := awscloudwatch.NewDashboard(s.scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: &s.name})
	var statuses []interfacesawscloudwatch.IAlarmRef
	for _, a := range alarms {
		statuses = append(statuses, a)
	}
	dashboard.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
		Title: jsii.String("Alarms"), Alarms: &statuses, Width: jsii.Number(whole),
	}))
	for _, g := range s.fleet.Groups {
		dashboard.AddWidgets(groupWidgets(g.Name)...)
	}
	dashboard.AddWidgets(awscloudwatch.NewLogQueryWidget(&awscloudwatch.LogQueryWidgetProps{
		Title:         jsii.String("Transitions"),
		LogGroupNames: &[]*string{f.reconcilerLogs.LogGroupName()},
		View:          awscloudwatch.LogQueryVisualizationType_TABLE,
		QueryLines: jsii.Strings(
			"fields @timestamp, group, server, from, to, rule, outcome",
			"filter msg in ['server state changed', 'fail-open changed']",
			"sort @timestamp desc",
			"limit 50",
		),
		Width: jsii.Number(whole), Height: jsii.Number(third),
	}))
	dashboard.AddWidgets(
		graph("Function errors", f.prober.MetricErrors(nil), f.reconciler.MetricErrors(nil)),
		graph("Function duration", f.prober.MetricDuration(nil), f.reconciler.MetricDuration(nil)),
		graph("Behind the stream, given up",
			f.reconciler.Metric(jsii.String("IteratorAge"), &awscloudwatch.MetricOptions{Statistic: awscloudwatch.Stats_MAXIMUM()}),
			q.prober.MetricApproximateNumberOfMessagesVisible(nil),
			q.reconciler.MetricApproximateNumberOfMessagesVisible(nil)),
	)
}

// groupWidgets is the row of a group.
func groupWidgets(group string) []awscloudwatch.IWidget {
	highest := func(name string) awscloudwatch.IMetric {
		return groupMetric(group, name, awscloudwatch.Stats_MAXIMUM(), 1)
	}
	return []awscloudwatch.IWidget{
		graph(group+": servers",
			highest(telemetry.MetricUp), highest(telemetry.MetricHeld), highest(telemetry.MetricDown),
			highest(telemetry.MetricRegistered), highest(telemetry.MetricFailOpen),
			groupMetric(group, telemetry.MetricChanges, awscloudwatch.Stats_SUM(), 1)),
		graph(group+": success rate",
			groupMetric(group, telemetry.MetricSuccessRate, awscloudwatch.Stats_AVERAGE(), 1),
			groupMetric(group, telemetry.MetricSuccessRate, awscloudwatch.Stats_MINIMUM(), 1)),
		graph(group+": latency, lag",
			groupMetric(group, telemetry.MetricLatency, awscloudwatch.Stats_AVERAGE(), 1),
			highest(telemetry.MetricReconcileLag)),
	}
}

func graph(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: &title, Left: &metrics, Width: jsii.Number(third), LiveData: jsii.Bool(true),
	})
}
