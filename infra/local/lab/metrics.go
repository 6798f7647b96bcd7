package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// pendingMetrics is how many lines of metrics may wait for the emulator.
const pendingMetrics = 1000

// cloudWatch makes metrics of the functions' log lines, as CloudWatch Logs does
// with the embedded metric format.
type cloudWatch struct {
	client *cloudwatch.Client
	lines  chan []byte
	log    *slog.Logger
}

func newCloudWatch(cfg aws.Config, log *slog.Logger) *cloudWatch {
	client := cloudwatch.NewFromConfig(cfg, func(o *cloudwatch.Options) { o.DisableRequestCompression = true }) // kumo knows none
	return &cloudWatch{client: client, lines: make(chan []byte, pendingMetrics), log: log}
}

// Write takes one line. It never waits: metrics must not slow a function down.
func (c *cloudWatch) Write(line []byte) (int, error) {
	select {
	case c.lines <- bytes.Clone(line):
	default:
		c.log.Warn("metrics dropped: the emulator is too slow for them")
	}
	return len(line), nil
}

// run stores the metrics of the lines that come, until the context ends.
func (c *cloudWatch) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-c.lines:
			if err := c.store(ctx, line); err != nil && ctx.Err() == nil {
				c.log.Error("metrics not stored", "error", err)
			}
		}
	}
}

func (c *cloudWatch) store(ctx context.Context, line []byte) error {
	inputs, err := metricData(line)
	if err != nil {
		return err
	}
	for _, in := range inputs {
		if _, err := c.client.PutMetricData(ctx, in); err != nil {
			return fmt.Errorf("storing metrics: %w", err)
		}
	}
	return nil
}

// metricData reads a line in the embedded metric format. It leaves the time
// out, which kumo cannot read: the metrics count from when they arrive.
func metricData(line []byte) ([]*cloudwatch.PutMetricDataInput, error) {
	var directive struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct {
					Name string
					Unit types.StandardUnit
				}
			}
		} `json:"_aws"`
	}
	var values map[string]any
	if err := json.Unmarshal(line, &directive); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	if err := json.Unmarshal(line, &values); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	var inputs []*cloudwatch.PutMetricDataInput
	for _, d := range directive.AWS.CloudWatchMetrics {
		in := &cloudwatch.PutMetricDataInput{Namespace: &d.Namespace}
		for _, set := range d.Dimensions {
			var dimensions []types.Dimension
			for _, name := range set {
				value, _ := values[name].(string)
				dimensions = append(dimensions, types.Dimension{Name: &name, Value: &value})
			}
			for _, m := range d.Metrics {
				value, ok := values[m.Name].(float64)
				if !ok {
					return nil, fmt.Errorf("reading metrics: %s has no number", m.Name)
				}
				in.MetricData = append(in.MetricData, types.MetricDatum{
					MetricName: &m.Name, Unit: m.Unit, Value: &value, Dimensions: dimensions,
				})
			}
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}
