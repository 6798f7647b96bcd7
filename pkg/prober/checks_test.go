package prober_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
)

// twoChecks is a server whose accounting, on port 1813, is down.
func twoChecks() (*fleet.Fleet, func(netip.AddrPort, time.Time) probe.Result) {
	f := testFleet(1, nil)
	s := &f.Groups[0].Servers[0]
	accounting := s.Checks[0]
	s.Checks[0].Row = "ise-1/pap"
	accounting.Row, accounting.Method, accounting.Port = "ise-1/accounting", fleet.Accounting, 1813
	s.Checks = append(s.Checks, accounting)
	return f, func(server netip.AddrPort, _ time.Time) probe.Result {
		if server.Port() == 1813 {
			return silence()
		}
		return healthy()
	}
}

func TestEachCheckHasItsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(twoChecks())
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		pap, accounting := w.table.rows["ise-1/pap"], w.table.rows["ise-1/accounting"]
		if len(w.table.rows) != 2 || pap.ConsecutiveFailures != 0 || pap.Outcome != health.Accept || accounting.ConsecutiveFailures < 3 || accounting.Outcome != health.Timeout {
			t.Errorf("rows %+v", w.table.rows)
		}
	})
}

func TestReportOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(twoChecks())
		for event, want := range map[string][]string{
			`{}`:                         {"pap 10.0.0.1:1812 accept", "accounting 10.0.0.1:1813 timeout"},
			`{"server":"ise-1"}`:         {"pap 10.0.0.1:1812 accept", "accounting 10.0.0.1:1813 timeout"},
			`{"method":"accounting"}`:    {"accounting 10.0.0.1:1813 timeout"},
			`{"method":"status-server"}`: {"status-server 10.0.0.1:1812 accept"},
		} {
			answer, err := w.Handle(t.Context(), json.RawMessage(event))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range answer.(prober.Report).Results {
				if s.Server != "ise-1" {
					t.Errorf("%s: server %s", event, s.Server)
				}
				got = append(got, strings.Join([]string{string(s.Method), s.Address, string(s.Outcome)}, " "))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", event, got, want)
			}
		}
	})
}

func TestCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := newWorld(testFleet(2, nil), func(server netip.AddrPort, _ time.Time) probe.Result {
			r := healthy()
			days := 90
			if server.Addr() == netip.MustParseAddr("10.0.0.2") {
				days = 30
			}
			r.Certificate = probe.Certificate{Subject: "CN=radius", Issuer: "CN=CA", NotAfter: start.AddDate(0, 0, days), Chain: "valid"}
			return r
		})
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if got := w.table.results[0].Certificate; got.Subject != "CN=radius" || got.Issuer != "CN=CA" || got.NotAfter.IsZero() || got.Chain != "valid" {
			t.Errorf("recorded %+v", got)
		}
		var metrics struct {
			Days float64 `json:"days_to_expiry"`
		}
		if err := json.Unmarshal(w.metrics.Bytes(), &metrics); err != nil || metrics.Days < 29.99 || metrics.Days > 30 {
			t.Errorf("metrics %s", w.metrics)
		}
		answer, err := w.Handle(t.Context(), json.RawMessage(`{"server":"ise-2"}`))
		if err != nil {
			t.Fatal(err)
		}
		if c := answer.(prober.Report).Results[0].Certificate; c == nil || c.DaysLeft != 29 || c.Chain != "valid" {
			t.Errorf("reported %+v", c)
		}
	})
}
