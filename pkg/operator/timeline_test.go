package operator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"radwitness/pkg/operator"
)

// metrics are latencies that somebody knows.
type metrics struct {
	samples []operator.Sample
	asked   []string // servers
	err     error
}

func (m *metrics) Latency(_ context.Context, _, server string, _, _ time.Time) ([]operator.Sample, error) {
	m.asked = append(m.asked, server)
	return m.samples, m.err
}

func TestTimelines(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa", "ar", "ar", "ar", "ae", "aa")
	all, err := w.Timelines(t.Context(), "", begin)
	if err != nil {
		t.Fatal(err)
	}
	line := all.Groups[0]
	if all.FleetVersion != "v1" || line.Group != "vpn" || !line.From.Equal(begin) || !line.To.Equal(w.now) || len(line.Lanes) != 2 {
		t.Fatalf("timeline %+v", line)
	}
	var got []string
	for _, s := range line.Lanes[1].Spans {
		got = append(got, s.Status)
	}
	if want := []string{"unknown", "up", "down", "holddown"}; !slices.Equal(got, want) {
		t.Errorf("spans of b %v, want %v", got, want)
	}
	if s := line.Lanes[1].Spans[2]; !s.From.Equal(begin.Add(4*interval)) || !s.To.Equal(w.now) || s.Reason != "reject" {
		t.Errorf("the span in which b was down: %+v", s)
	}

	// The row tells the newest latencies, one interval apart: the probe that said
	// nothing is not in it.
	var latencies []float64
	for _, s := range line.Lanes[1].Latency {
		latencies = append(latencies, s.P50MS)
	}
	if want := []float64{2, 3, 3, 3, 2}; !slices.Equal(latencies, want) || !line.Lanes[1].Latency[4].At.Equal(w.now) || !line.Lanes[1].Latency[0].At.Equal(w.now.Add(-4*interval)) {
		t.Errorf("latencies of b: %v", line.Lanes[1].Latency)
	}
}

func TestTimelineOfAServerThatHasLeft(t *testing.T) {
	w := newWorld(t, 1, "a", "b")
	w.rounds(t, "aa")
	w.group.Servers = w.group.Servers[:1]
	all, err := w.Timelines(t.Context(), "vpn", begin)
	if err != nil {
		t.Fatal(err)
	}
	if lanes := all.Groups[0].Lanes; len(lanes) != 2 || lanes[1].Row != "b" {
		t.Errorf("lanes %+v", lanes)
	}
}

func TestTimelineLatencyFromMetrics(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers bool // server_metrics
		err     error
		asked   []string
		group   int // samples
		lane    []float64
		note    string
	}{
		{name: "of the group", asked: []string{""}, group: 2, lane: []float64{2, 2}},
		// Of the two samples one is as new as the row's first: the row knows better.
		{name: "of the servers, too", servers: true, asked: []string{"", "a"}, group: 2, lane: []float64{7, 2, 2}},
		{name: "without access", servers: true, err: errors.New("no access"), asked: []string{""}, lane: []float64{2, 2}, note: "latency is that of the newest probes only: no access"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, "a")
			w.group.ServerMetrics = c.servers
			m := &metrics{err: c.err}
			if c.err == nil {
				m.samples = []operator.Sample{{At: begin, P50MS: 7}, {At: begin.Add(interval), P50MS: 8}}
			}
			w.Latencies = m
			w.rounds(t, "a", "a")
			all, err := w.Timelines(t.Context(), "vpn", begin)
			if err != nil {
				t.Fatal(err)
			}
			line := all.Groups[0]
			var lane []float64
			for _, s := range line.Lanes[0].Latency {
				lane = append(lane, s.P50MS)
			}
			if !slices.Equal(m.asked, c.asked) || len(line.Latency) != c.group || !slices.Equal(lane, c.lane) || strings.Join(line.Notes, "") != c.note {
				t.Errorf("asked %q, of the group %v, of the lane %v, notes %q", m.asked, line.Latency, lane, line.Notes)
			}
		})
	}
}
