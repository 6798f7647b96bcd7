package store

import (
	"strconv"
	"strings"
	"time"

	"radwitness/pkg/health"
)

// recentProbes is how many latencies a row remembers: five minutes' worth at the
// default interval, in about 150 bytes of the kilobyte that a write is billed by.
const recentProbes = 30

// silent stands for a probe without a valid answer.
const silent = "-"

// appendLatency adds a probe's latency to the text of the newest ones, 0 for one
// without a valid answer, and drops the oldest.
func appendLatency(recent string, latency time.Duration) string {
	text := silent
	if latency > 0 {
		text = strconv.FormatFloat(max(float64(latency)/float64(time.Millisecond), 0.1), 'f', 1, 64)
	}
	fields := append(strings.Fields(recent), text)
	return strings.Join(fields[max(0, len(fields)-recentProbes):], " ")
}

// RecentLatencies lists the latencies of the newest conclusive probes, oldest
// first, in tenths of a millisecond; 0 is a probe without a valid answer.
func (r ProbeRow) RecentLatencies() []time.Duration {
	var list []time.Duration
	for text := range strings.FieldsSeq(r.RecentLatencyMS) {
		// What is no number was put there by hand, and says nothing.
		if ms, err := strconv.ParseFloat(text, 64); err == nil && ms >= 0 && ms < 1e6 {
			list = append(list, time.Duration(ms*float64(time.Millisecond)))
		} else if text == silent {
			list = append(list, 0)
		}
	}
	return list
}

// Totals are the counters of probes by outcome.
func (r ProbeRow) Totals() map[health.Outcome]int64 {
	return map[health.Outcome]int64{
		health.Accept: r.Accepts, health.Reject: r.Rejects, health.Challenge: r.Challenges, health.Alive: r.Alives,
		health.Timeout: r.Timeouts, health.Refused: r.Refused, health.BadAuthenticator: r.BadAuthenticators,
		health.Malformed: r.Malformed, health.BadCertificate: r.BadCertificates, health.ProberError: r.ProberErrors,
	}
}

// MeanLatency is that of all probes with a valid answer; 0 without one.
func (r ProbeRow) MeanLatency() time.Duration {
	answered := r.Accepts + r.Rejects + r.Challenges + r.Alives + r.BadCertificates
	if answered == 0 {
		return 0
	}
	return time.Duration(r.LatencyMSSum / float64(answered) * float64(time.Millisecond))
}
