package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/google/go-cmp/cmp"
)

// metricData answers in pages, one for each of its answers.
type metricData struct {
	inputs  []cloudwatch.GetMetricDataInput
	answers [][]types.MetricDataResult
	err     error
}

func (m *metricData) GetMetricData(_ context.Context, in *cloudwatch.GetMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	m.inputs = append(m.inputs, *in)
	if m.err != nil {
		return nil, m.err
	}
	out := &cloudwatch.GetMetricDataOutput{MetricDataResults: m.answers[len(m.inputs)-1]}
	if len(m.inputs) < len(m.answers) {
		out.NextToken = aws.String("more")
	}
	return out, nil
}

func TestMetrics(t *testing.T) {
	result := func(id string, first int, values ...float64) types.MetricDataResult {
		r := types.MetricDataResult{Id: &id, Values: values}
		for i := range values {
			r.Timestamps = append(r.Timestamps, at(first+i))
		}
		return r
	}
	data := &metricData{answers: [][]types.MetricDataResult{
		{result("p50", 0, 1, 2), result("p99", 0, 10)},
		{result("p99", 1, 20)},
	}}
	m := &Metrics{CloudWatch: data, Now: func() time.Time { return dusk }}
	got, err := m.Latency(t.Context(), "vpn", "a", dawn.Add(time.Second), dusk)
	if err != nil {
		t.Fatal(err)
	}
	want := []Sample{{At: at(0), P50MS: 1, P99MS: 10}, {At: at(1), P50MS: 2, P99MS: 20}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	metric := data.inputs[0].MetricDataQueries[0].MetricStat.Metric
	if d := metric.Dimensions; len(d) != 2 || *d[0].Value != "vpn" || *d[1].Name != "Server" || *d[1].Value != "a" || *metric.Namespace != "radwitness" || *metric.MetricName != "latency_ms" {
		t.Errorf("metric asked for: %s/%s %v", *metric.Namespace, *metric.MetricName, d)
	}
	if start := *data.inputs[0].StartTime; !start.Equal(dawn) {
		t.Errorf("start %v is not at a full period", start)
	}
	if data.inputs[1].NextToken == nil {
		t.Error("the second page was not asked for")
	}

	data.err = errors.New("no access")
	if _, err := m.Latency(t.Context(), "vpn", "", dawn, dusk); !errors.Is(err, data.err) {
		t.Errorf("error %v", err)
	}
}

func TestPeriod(t *testing.T) {
	const day = 24 * time.Hour
	now := dusk
	for _, c := range []struct {
		from, length time.Duration // from is before now
		want         time.Duration
	}{
		{time.Minute, time.Minute, time.Minute},
		{400 * time.Minute, 400 * time.Minute, time.Minute},
		{401 * time.Minute, 401 * time.Minute, 2 * time.Minute},
		{day, day, 4 * time.Minute},
		{15 * day, time.Hour, time.Minute},
		{15*day + 1, time.Hour, 5 * time.Minute},
		{63 * day, time.Hour, 5 * time.Minute},
		{63*day + 1, time.Hour, time.Hour},
		{90 * day, 90 * day, 6 * time.Hour},
	} {
		from := now.Add(-c.from)
		if got := period(from, from.Add(c.length), now); got != c.want {
			t.Errorf("%v long, beginning %v ago: %v, want %v", c.length, c.from, got, c.want)
		}
	}
}
