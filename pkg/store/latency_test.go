package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

func TestRecentLatencies(t *testing.T) {
	p, _, _ := newTables(t)
	var row store.ProbeRow
	for i, c := range []struct {
		outcome  health.Outcome
		evidence health.Evidence
		latency  time.Duration
		want     string
	}{
		{health.Accept, health.Success, 1250 * time.Microsecond, "1.2"},
		{health.Timeout, health.Failure, 0, "1.2 -"},
		{health.ProberError, health.NoEvidence, 0, "1.2 -"},
		{health.Reject, health.Failure, 10 * time.Microsecond, "1.2 - 0.1"},
	} {
		var err error
		row, err = p.Record(t.Context(), store.ProbeResult{
			Group: "vpn", Server: "ise-1", Round: at(float64(i)), Outcome: c.outcome, Evidence: c.evidence, Latency: c.latency, Recent: row.RecentLatencyMS,
		})
		if err != nil {
			t.Fatal(err)
		}
		if row.RecentLatencyMS != c.want {
			t.Errorf("after %s: %q, want %q", c.outcome, row.RecentLatencyMS, c.want)
		}
	}
	for i := range 40 {
		var err error
		row, err = p.Record(t.Context(), store.ProbeResult{
			Group: "vpn", Server: "ise-1", Round: at(float64(10 + i)), Outcome: health.Accept, Evidence: health.Success,
			Latency: time.Duration(i+1) * time.Millisecond, Recent: row.RecentLatencyMS,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := row.RecentLatencies(); len(got) != 30 || got[0] != 11*time.Millisecond || got[29] != 40*time.Millisecond {
		t.Errorf("after 40 more: %v, want those of 11 to 40 ms", got)
	}
	moved, err := p.Record(t.Context(), store.ProbeResult{
		Group: "vpn", Server: "ise-1", Round: at(100), Outcome: health.ProberError, Moved: true,
	})
	if err != nil || moved.RecentLatencyMS != "" {
		t.Errorf("after a move: %q, %v, want none", moved.RecentLatencyMS, err)
	}
}

func TestRecentLatenciesOfAnEditedRow(t *testing.T) {
	row := store.ProbeRow{RecentLatencyMS: " 1.5 x - -3 NaN 1e99 2 " + strings.Repeat(" ", 3)}
	want := []time.Duration{1500 * time.Microsecond, 0, 2 * time.Millisecond}
	if got := row.RecentLatencies(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTotals(t *testing.T) {
	row := store.ProbeRow{
		Accepts: 1, Rejects: 2, Challenges: 3, Alives: 4, Timeouts: 5, Refused: 6, BadAuthenticators: 7, Malformed: 8, BadCertificates: 9, ProberErrors: 10,
		LatencyMSSum: 38,
	}
	totals, sum := row.Totals(), int64(0)
	for _, o := range health.Outcomes() {
		sum += totals[o]
	}
	if len(totals) != len(health.Outcomes()) || sum != 55 {
		t.Errorf("totals %v do not count every outcome", totals)
	}
	// Accepts, rejects, challenges, alives and bad certificates are answers.
	if got := row.MeanLatency(); got != 2*time.Millisecond {
		t.Errorf("mean latency %v of 38 ms in 19 answers", got)
	}
	if got := (store.ProbeRow{Timeouts: 3}).MeanLatency(); got != 0 {
		t.Errorf("mean latency %v without an answer", got)
	}
}
