package nas_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

var update = flag.Bool("update", false, "write testdata/report.txt anew")

// list is two servers, the second of which lets users in with a challenge.
func list() []nas.Server {
	return []nas.Server{
		{Name: "ise-1", Address: "10.0.1.10:1812", Criteria: health.Criteria{HealthyOn: []health.Outcome{accept}, FailureOn: []health.Outcome{reject}}},
		{Name: "ise-2", Address: "10.0.2.10:1812", Criteria: health.Criteria{HealthyOn: []health.Outcome{accept, health.Challenge}}},
	}
}

func TestTally(t *testing.T) {
	s := settings(nas.Strict)
	s.Retries = 0
	c, now := client(t, s, 2), begin()
	tally := nas.NewTally("view", s, list(), true)
	for _, n := range []network{
		estate(silence, accept),
		estate(accept, accept),
		estate(reject, accept),
		estate(health.Challenge, accept),
		estate(refused, health.Challenge),
		estate(health.Malformed, refused),
	} {
		tally.Add(login(c, nas.Nobody, &now, n))
	}
	v := tally.View([]int{1, 0})
	want := nas.View{
		Summary: nas.Summary{
			Name: "view", Logins: 6, Unanswered: 1, Delayed: 2, FailedOver: 3,
			LetIn: nas.LetIn{Deny: 3, Allow: 4},
			Wait:  nas.WaitTime{P50MS: 10, P99MS: 2010, MaxMS: 2010, WorstMS: 4000},
		},
		Servers: []nas.ServerReport{
			{Name: "ise-1", Address: "10.0.1.10:1812", Logins: 6, Share: 0.5, Transmissions: 6, Accepts: 1, Rejects: 1, Challenges: 1, Timeouts: 1, ICMPErrors: 1, Invalid: 1, Dead: 1},
			{Name: "ise-2", Address: "10.0.2.10:1812", Share: 2.0 / 6, Transmissions: 3, Accepts: 1, Challenges: 1, ICMPErrors: 1},
		},
		First: []int{1, 2},
	}
	if len(v.Trace) != 9 || v.Trace[1] != (nas.Packet{Login: 1, AtMS: 2000, Server: "ise-2", Outcome: accept, WaitMS: 10}) {
		t.Errorf("trace %+v", v.Trace)
	}
	v.Trace = nil
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}

// The percentiles are those of the logins, by nearest rank.
func TestPercentiles(t *testing.T) {
	for _, tt := range []struct{ logins, p50, p99 int }{{1, 1, 1}, {2, 1, 2}, {99, 50, 99}, {100, 50, 99}, {101, 51, 100}, {200, 100, 198}} {
		s := settings(nas.Strict)
		s.Timeout = time.Hour
		c, now := client(t, s, 2), begin()
		tally := nas.NewTally("", s, list(), false)
		for i := range tt.logins {
			tally.Add(login(c, nas.Nobody, &now, func(int) (health.Outcome, time.Duration) {
				return accept, time.Duration(tt.logins-i) * time.Millisecond
			}))
		}
		if w := tally.Summary().Wait; w.P50MS != float64(tt.p50) || w.P99MS != float64(tt.p99) || w.MaxMS != float64(tt.logins) {
			t.Errorf("%d logins: %+v", tt.logins, w)
		}
	}
	if s := nas.NewTally("", settings(nas.Strict), list(), false).Summary(); s.Wait != (nas.WaitTime{WorstMS: 12000}) {
		t.Errorf("without logins: %+v", s)
	}
}

func TestText(t *testing.T) {
	s := settings(nas.LeastOutstanding)
	s.DeadSilence = 0
	c, now := client(t, s, 2), begin()
	tally, during := nas.NewTally("all servers", s, list(), true), nas.NewTally("all servers", s, list(), false)
	for _, n := range []network{estate(silence, accept), estate(silence, reject), estate(accept, accept)} {
		l := login(c, nas.Nobody, &now, n)
		tally.Add(l)
		during.Add(l)
	}
	r := nas.Report{
		Group: "vpn", Recorded: true, From: begin(), To: begin().Add(time.Hour), Settings: s.Report(),
		Views: []nas.View{tally.View(c.Deaths())},
		Outages: []nas.Outage{{
			From: begin(), To: begin().Add(90 * time.Second), Failing: []string{"ise-1 timeout", "ise-2 reject"}, Views: []nas.Summary{during.Summary()},
		}},
		Notes: []string{"the record begins here"},
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/report.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("%s; run go test ./pkg/nas -update if it is meant", diff)
	}
}
