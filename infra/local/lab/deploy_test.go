package lab

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/fleet"
	"radwitness/pkg/telemetry"
)

// Who looks at the lab finds what a deployed stack has.
func TestDeployed(t *testing.T) {
	l := start(t, Config{Environ: brisk()})
	functions := lambda.NewFromConfig(l.Operator)
	out, err := functions.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: aws.String(l.cloud.stack + "-reconciler"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"RADWITNESS_PROBES_TABLE": l.cloud.probes, "RADWITNESS_HEALTH_TABLE": l.cloud.health,
		"RADWITNESS_PROBE_INTERVAL": "1s", "RADWITNESS_RECONCILE_INTERVAL": "1s",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = out.Environment.Variables[name]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment of the reconciler:\n%s", diff)
	}
	file, err := fleet.Parse("fleet.yaml", l.fleetText, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Environment.Variables["RADWITNESS_FLEET_VERSION"]; got != file.Version {
		t.Errorf("RADWITNESS_FLEET_VERSION is %q, want that of the file, %q", got, file.Version)
	}
	mappings, err := functions.ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{FunctionName: out.FunctionName})
	if err != nil || len(mappings.EventSourceMappings) != 1 || aws.ToString(mappings.EventSourceMappings[0].EventSourceArn) != l.cloud.stream {
		t.Errorf("event source mappings %+v, %v", mappings, err)
	}
	_, err = scheduler.NewFromConfig(l.Operator).GetSchedule(t.Context(), &scheduler.GetScheduleInput{
		GroupName: &l.cloud.stack, Name: aws.String(l.cloud.stack + "-prober-0"),
	})
	if err != nil {
		t.Error(err)
	}
}

// What the functions write as metrics can be asked for, as in CloudWatch.
func TestMetricsCanBeAskedFor(t *testing.T) {
	l := start(t, Config{Environ: brisk()})
	client := cloudwatch.NewFromConfig(l.Operator)
	in := &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(time.Now().Add(-time.Hour)), EndTime: aws.Time(time.Now().Add(time.Hour)),
		MetricDataQueries: []cloudwatchtypes.MetricDataQuery{{Id: aws.String("registered"), MetricStat: &cloudwatchtypes.MetricStat{
			Period: aws.Int32(60), Stat: aws.String("Maximum"),
			Metric: &cloudwatchtypes.Metric{
				Namespace: aws.String(telemetry.Namespace), MetricName: aws.String(telemetry.MetricRegistered),
				Dimensions: []cloudwatchtypes.Dimension{{Name: aws.String(telemetry.DimensionGroup), Value: aws.String("vpn-auth")}},
			},
		}}},
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, err := client.GetMetricData(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.MetricDataResults[0].Values) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no metric within 20 s")
		}
	}
}
