package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"radwitness/pkg/telemetry"
)

// maxSamples is how many samples a lane has at most: about one for each pixel
// that it is drawn on.
const maxSamples = 400

// MetricData is the part of the CloudWatch API that latencies come from.
type MetricData interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

// Metrics reads latencies from the prober's metrics. A server has some only in a
// group with server_metrics.
type Metrics struct {
	CloudWatch MetricData
	Now        func() time.Time // nil means time.Now
}

// Latency reads the percentiles of the metric latency_ms.
func (m *Metrics) Latency(ctx context.Context, group, server string, from, to time.Time) ([]Sample, error) {
	dimensions := []types.Dimension{{Name: aws.String(telemetry.DimensionGroup), Value: &group}}
	if server != "" {
		dimensions = append(dimensions, types.Dimension{Name: aws.String(telemetry.DimensionServer), Value: &server})
	}
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	period := period(from, to, now())
	query := func(id, statistic string) types.MetricDataQuery {
		return types.MetricDataQuery{Id: &id, MetricStat: &types.MetricStat{
			Metric: &types.Metric{Namespace: aws.String(telemetry.Namespace), MetricName: aws.String(telemetry.MetricLatency), Dimensions: dimensions},
			Period: aws.Int32(int32(period / time.Second)), Stat: &statistic,
		}}
	}
	in := &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(from.Truncate(period)), EndTime: &to, ScanBy: types.ScanByTimestampAscending,
		MetricDataQueries: []types.MetricDataQuery{query("p50", "p50"), query("p99", "p99")},
	}
	samples := map[time.Time]Sample{}
	for {
		out, err := m.CloudWatch.GetMetricData(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("reading metric %s: %w", telemetry.MetricLatency, err)
		}
		for _, r := range out.MetricDataResults {
			for i, at := range r.Timestamps[:min(len(r.Timestamps), len(r.Values))] {
				s := samples[at]
				s.At = at
				if aws.ToString(r.Id) == "p50" {
					s.P50MS = r.Values[i]
				} else {
					s.P99MS = r.Values[i]
				}
				samples[at] = s
			}
		}
		if aws.ToString(out.NextToken) == "" {
			break
		}
		in.NextToken = out.NextToken
	}
	var list []Sample
	for _, s := range samples {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Sample) int { return a.At.Compare(b.At) })
	return list, nil
}

// period is the resolution for a time: what a lane can show, and what CloudWatch
// still has of it (CloudWatch user guide, "Metrics retention").
func period(from, to, now time.Time) time.Duration {
	unit := time.Minute
	switch age := now.Sub(from); {
	case age > 63*24*time.Hour:
		unit = time.Hour
	case age > 15*24*time.Hour:
		unit = 5 * time.Minute
	}
	n := (to.Sub(from) + maxSamples*unit - 1) / (maxSamples * unit)
	return max(1, n) * unit
}
