// Package telemetry writes what the functions have to say: logs as JSON lines
// (log/slog) and metrics in CloudWatch's embedded metric format, which turns a
// log line into a metric without an API call.
package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Namespace is the CloudWatch namespace of all metrics.
const Namespace = "radwitness"

// NewLogger returns a logger of JSON lines. An empty level means info.
func NewLogger(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if level != "" {
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("reading RADWITNESS_LOG_LEVEL: %w", err)
		}
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})), nil
}

// Metrics writes metrics in the embedded metric format. A zero or nil Metrics
// drops them.
type Metrics struct {
	Out io.Writer

	mu sync.Mutex // one line at a time
}

// Metric is one value of a metric. Unit is a CloudWatch unit, such as Count.
type Metric struct {
	Name  string
	Unit  string
	Value float64
}

// Dimensions say what a metric is about. Server is empty for a whole group.
type Dimensions struct {
	Group  string
	Server string
}

// Emit writes metrics of one thing as one line, stamped with the given time.
// See "Embedded metric format specification" in the CloudWatch user guide.
func (m *Metrics) Emit(at time.Time, of Dimensions, metrics ...Metric) error {
	if m == nil || m.Out == nil || len(metrics) == 0 {
		return nil
	}
	type definition struct{ Name, Unit string }
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []definition
	}
	names, line := []string{DimensionGroup}, map[string]any{DimensionGroup: of.Group}
	if of.Server != "" {
		names, line[DimensionServer] = append(names, DimensionServer), of.Server
	}
	d := directive{Namespace: Namespace, Dimensions: [][]string{names}}
	for _, metric := range metrics {
		d.Metrics = append(d.Metrics, definition{metric.Name, metric.Unit})
		line[metric.Name] = metric.Value
	}
	line["_aws"] = map[string]any{"Timestamp": at.UnixMilli(), "CloudWatchMetrics": []directive{d}}
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encoding metrics of group %s: %w", of.Group, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.Out.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("writing metrics of group %s: %w", of.Group, err)
	}
	return nil
}
