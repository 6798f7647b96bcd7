package prober_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
	"radwitness/pkg/store"
	"radwitness/pkg/telemetry"
)

// network answers probes from a script, in virtual time.
type network struct {
	mu     sync.Mutex
	answer func(server netip.AddrPort, at time.Time) probe.Result // how long it takes is its Duration
	probes map[netip.AddrPort][]time.Time
	now    int // probes under way
	most   int
}

func (n *network) Probe(ctx context.Context, r probe.Request) probe.Result {
	at := time.Now()
	n.mu.Lock()
	if n.probes == nil {
		n.probes = map[netip.AddrPort][]time.Time{}
	}
	n.probes[r.Server] = append(n.probes[r.Server], at)
	n.now++
	n.most = max(n.most, n.now)
	result := n.answer(r.Server, at)
	n.mu.Unlock()
	select {
	case <-time.After(result.Duration):
	case <-ctx.Done():
		result = probe.Result{Outcome: health.ProberError, Reason: ctx.Err().Error()}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now--
	return result
}

func healthy() probe.Result {
	return probe.Result{Outcome: health.Accept, Latency: time.Millisecond, Duration: time.Millisecond, Transactions: 1, Transmissions: 1}
}

func reject() probe.Result {
	return probe.Result{Outcome: health.Reject, Latency: time.Millisecond, Duration: time.Millisecond, Transactions: 1, Transmissions: 1, Reason: "bad password"}
}

func silence() probe.Result {
	return probe.Result{Outcome: health.Timeout, Duration: 3 * time.Second, Transactions: 1, Transmissions: 3, Reason: "no answer"}
}

// secrets hands out fixed credentials, or an error.
type secrets struct{ err error }

func (s secrets) Get(context.Context, fleet.Credential) (probe.Credentials, error) {
	return probe.Credentials{SharedSecret: probe.Secret("s3cr3t")}, s.err
}

func (s secrets) Renew(ctx context.Context, source fleet.Credential) (probe.Credentials, error) {
	return s.Get(ctx, source)
}

func (s secrets) Previous(context.Context, fleet.Credential) (probe.Credentials, bool) {
	return probe.Credentials{}, false
}

// table is table probes in memory.
type table struct {
	mu      sync.Mutex
	rows    map[string]store.ProbeRow
	results []store.ProbeResult
	delay   time.Duration
	err     error
}

func (s *table) Record(ctx context.Context, r store.ProbeResult) (store.ProbeRow, error) {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return store.ProbeRow{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return store.ProbeRow{}, s.err
	}
	row := s.rows[r.Server]
	if !r.Round.After(row.Round) {
		return row, fmt.Errorf("recording: %w", store.ErrNotNewer)
	}
	row.Group, row.Server, row.Round, row.Outcome = r.Group, r.Server, r.Round, r.Outcome
	if r.CredentialStage != "" {
		row.CredentialStage = r.CredentialStage
	}
	switch r.Evidence {
	case health.Success:
		row.ConsecutiveSuccesses, row.ConsecutiveFailures = row.ConsecutiveSuccesses+1, 0
	case health.Failure:
		row.ConsecutiveFailures, row.ConsecutiveSuccesses = row.ConsecutiveFailures+1, 0
	}
	if s.rows == nil {
		s.rows = map[string]store.ProbeRow{}
	}
	s.rows[r.Server] = row
	s.results = append(s.results, r)
	return row, nil
}

func (s *table) Group(_ context.Context, group string) (map[string]store.ProbeRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := map[string]store.ProbeRow{}
	for name, row := range s.rows {
		if row.Group == group {
			rows[name] = row
		}
	}
	return rows, s.err
}

// rounds lists the recorded rounds of a server, as offsets from the first tick.
func (s *table) rounds(server string, from time.Time) []time.Duration {
	var list []time.Duration
	for _, r := range s.results {
		if r.Server == server {
			list = append(list, r.Round.Sub(from))
		}
	}
	return list
}

func testFleet(servers int, change func(*fleet.Probe)) *fleet.Fleet {
	g := fleet.Group{Name: "vpn", Health: health.Policy{FailureThreshold: 3}}
	for i := range servers {
		s := fleet.Server{
			Name: fmt.Sprintf("ise-%d", i+1), Address: netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(1 + i%250)}),
			Checks: []fleet.Probe{{
				Row: fmt.Sprintf("ise-%d", i+1), Method: fleet.PAP, Port: 1812, Interval: 10 * time.Second, FastInterval: time.Second, AttemptTimeout: time.Second, Attempts: 3,
				Criteria: health.Criteria{HealthyOn: []health.Outcome{health.Accept}, FailureOn: []health.Outcome{health.Reject, health.Timeout}},
			}},
		}
		if change != nil {
			change(&s.Checks[0])
		}
		g.Servers = append(g.Servers, s)
	}
	return &fleet.Fleet{Version: "v1", Groups: []fleet.Group{g}}
}

type world struct {
	*prober.Prober
	network *network
	table   *table
	log     *bytes.Buffer
	metrics *bytes.Buffer
}

func newWorld(f *fleet.Fleet, answer func(netip.AddrPort, time.Time) probe.Result) *world {
	w := &world{network: &network{answer: answer}, table: &table{}, log: &bytes.Buffer{}, metrics: &bytes.Buffer{}}
	w.Prober = &prober.Prober{
		Fleet: f, Transactor: w.network, Credentials: secrets{}, Store: w.table,
		Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: &telemetry.Metrics{Out: w.metrics},
	}
	return w
}

// lines decodes the log lines with the given message.
func (w *world) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(w.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if m["msg"] == msg {
			list = append(list, m)
		}
	}
	return list
}

func seconds(list ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range list {
		out = append(out, time.Duration(math.Round(s*1000))*time.Millisecond)
	}
	return out
}

func always(r func() probe.Result) func(netip.AddrPort, time.Time) probe.Result {
	return func(netip.AddrPort, time.Time) probe.Result { return r() }
}

// sleepPast moves the bubble's clock a little past a full minute, as EventBridge fires.
func sleepPast(d time.Duration) time.Time {
	time.Sleep(d)
	return time.Now().Truncate(time.Minute).Add(10 * time.Second)
}

func TestMinuteRunsEveryTickOfItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		w := newWorld(testFleet(2, nil), always(healthy))
		start := time.Now()
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		want := seconds(0, 10, 20, 30, 40, 50)
		for _, server := range []string{"ise-1", "ise-2"} {
			if got := w.table.rounds(server, firstTick); !slices.Equal(got, want) {
				t.Errorf("%s: rounds %v, want %v", server, got, want)
			}
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %v", took)
		}
		rounds := w.lines(t, "round")
		if len(rounds) != 6 {
			t.Fatalf("%d round lines, want 6", len(rounds))
		}
		one := rounds[0]["servers"].(map[string]any)["vpn/ise-2"].(map[string]any)
		if one["outcome"] != "accept" || one["duration_ms"] != 1.0 {
			t.Errorf("round line says %v", one)
		}
		if len(w.lines(t, "outcome changed")) != 0 {
			t.Error("an outcome changed")
		}
		if !strings.Contains(w.metrics.String(), `"success_rate":100`) {
			t.Errorf("metrics %s", w.metrics)
		}
	})
}

func TestMetricsOfServersAreEmittedOnRequest(t *testing.T) {
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := testFleet(2, nil)
			f.Groups[0].ServerMetrics = asked
			w := newWorld(f, always(healthy))
			if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
				t.Fatal(err)
			}
			want := 1
			if asked {
				want = 3
			}
			if got := strings.Count(w.metrics.String(), `"success_rate":100`); got != want {
				t.Errorf("server_metrics %v: %d lines, want %d:\n%s", asked, got, want, w.metrics)
			}
		})
	}
}

func TestTickAtTheVeryStartIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(testFleet(1, nil), always(healthy))
		start := time.Now() // a full minute in the bubble
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if got := w.table.rounds("ise-1", start); !slices.Equal(got, seconds(0, 10, 20, 30, 40, 50)) {
			t.Errorf("rounds %v", got)
		}
	})
}

func TestFailedProbeIsConfirmedFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		fails := firstTick.Add(10 * time.Second)
		w := newWorld(testFleet(1, nil), func(_ netip.AddrPort, at time.Time) probe.Result {
			if at.Before(fails) {
				return healthy()
			}
			return reject()
		})
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		// Threshold 3: two fast probes, each one second after the end of the one
		// before, which took a millisecond. Then only the ticks.
		want := seconds(0, 10, 11.001, 12.002, 20, 30, 40, 50)
		if got := w.table.rounds("ise-1", firstTick); !slices.Equal(got, want) {
			t.Errorf("rounds %v, want %v", got, want)
		}
		changes := w.lines(t, "outcome changed")
		if len(changes) != 1 || changes[0]["from"] != "accept" || changes[0]["to"] != "reject" || changes[0]["reason"] != "bad password" {
			t.Errorf("changes %v", changes)
		}
	})
}

func TestTheLogExplainsADecisionInFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := sleepPast(4 * time.Second).Add(20 * time.Second)
		w := newWorld(testFleet(3, nil), func(server netip.AddrPort, at time.Time) probe.Result {
			if server.Addr().As4()[3] == 1 && !at.Before(fails) {
				return reject()
			}
			return healthy()
		})
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		var told []string
		for line := range strings.Lines(w.log.String()) {
			var l struct {
				Level, Msg, Outcome, To, Reason string
				Failures                        int            `json:"consecutive_failures"`
				Outcomes                        map[string]int `json:"outcomes"`
				Failing                         map[string]string
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			switch {
			case l.Level == "DEBUG":
			case l.Msg == "minute":
				told = append(told, fmt.Sprintf("minute %v failing %v", l.Outcomes, l.Failing))
			default:
				told = append(told, fmt.Sprintf("%s: %s%s (%s), %d", l.Msg, l.To, l.Outcome, l.Reason, l.Failures))
			}
		}
		// The server is down with its third failure. Of the three that follow until
		// the minute ends only their number is told.
		want := []string{
			"outcome changed: reject (bad password), 1",
			"probe failed: reject (bad password), 2",
			"probe failed: reject (bad password), 3",
			"minute map[accept:14 reject:6] failing map[ise-1:reject]",
		}
		if !slices.Equal(told, want) {
			t.Errorf("the log tells\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestFastProbesEndWithASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), func(_ netip.AddrPort, at time.Time) probe.Result {
			if at.Equal(firstTick) {
				return reject()
			}
			return healthy()
		})
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		want := seconds(0, 1.001, 10, 20, 30, 40, 50)
		if got := w.table.rounds("ise-1", firstTick); !slices.Equal(got, want) {
			t.Errorf("rounds %v, want %v", got, want)
		}
	})
}

func TestConfirmationGoesOnInTheNextInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), always(reject))
		now := time.Now()
		w.table.rows = map[string]store.ProbeRow{"ise-1": {Group: "vpn", Server: "ise-1", Round: now.Add(-time.Second), ConsecutiveFailures: 1}}
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if got := w.table.rounds("ise-1", now)[:3]; !slices.Equal(got, seconds(1, 2.001, 6)) {
			t.Errorf("rounds %v, want two fast ones, then the tick", got)
		}
	})
}

func TestSilentServersCostOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleepPast(4 * time.Second)
		w := newWorld(testFleet(20, nil), always(silence))
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if err := w.Minute(ctx, prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if took := w.lines(t, "round")[0]["took_ms"]; took != 3000.0 {
			t.Errorf("a round of 20 silent servers took %v ms, want 3000", took)
		}
	})
}

func TestDeadlineCutsProbesNotResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		w := newWorld(testFleet(2, nil), func(server netip.AddrPort, at time.Time) probe.Result {
			if server.Addr().As4()[3] == 1 && at.After(firstTick) {
				return silence()
			}
			return healthy()
		})
		w.table.delay = 100 * time.Millisecond
		// Two seconds are reserved: probes end one second into the second round.
		ctx, cancel := context.WithDeadline(t.Context(), firstTick.Add(13*time.Second))
		defer cancel()
		if err := w.Minute(ctx, prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if got := w.table.rounds("ise-1", firstTick); !slices.Equal(got, seconds(0)) {
			t.Errorf("ise-1 was cut off in its second probe: rounds %v, want the first only", got)
		}
		if got := w.table.rounds("ise-2", firstTick); !slices.Equal(got, seconds(0, 10)) {
			t.Errorf("ise-2: rounds %v, want both", got)
		}
		if ctx.Err() != nil {
			t.Error("the function's deadline passed")
		}
	})
}

func TestAllSilentIsWrittenBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		w := newWorld(testFleet(3, func(p *fleet.Probe) { p.FastInterval = p.Interval }), always(silence))
		for invocation := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			start := time.Now()
			if err := w.Minute(ctx, prober.Shard{}); err != nil {
				t.Fatal(err)
			}
			if ctx.Err() != nil {
				t.Fatalf("invocation %d ran into its deadline", invocation)
			}
			cancel()
			time.Sleep(time.Minute - time.Since(start))
		}
		want := 12
		if got := len(w.table.rounds("ise-1", firstTick)); got != want {
			t.Errorf("%d results of two minutes, want %d", got, want)
		}
	})
}

func TestOverrunSkipsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), always(healthy))
		w.table.delay = 4 * time.Second
		w.Fleet.Groups[0].Servers[0].Checks[0].Interval = 3 * time.Second
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		rounds := w.table.rounds("ise-1", firstTick)
		for i := 1; i < len(rounds); i++ {
			if gap := rounds[i] - rounds[i-1]; gap != 6*time.Second {
				t.Fatalf("rounds %v: want every other tick", rounds)
			}
		}
		if len(w.lines(t, "round overrun: servers skipped, their last probe is still running")) == 0 {
			t.Error("nothing says that rounds were skipped")
		}
		if !strings.Contains(w.metrics.String(), `"skipped":`) {
			t.Errorf("metrics %s", w.metrics)
		}
	})
}

func TestSocketsAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(testFleet(600, func(p *fleet.Probe) { p.Interval = time.Minute }), always(silence))
		if _, err := w.Report(t.Context(), prober.Request{}); err != nil {
			t.Fatal(err)
		}
		if w.network.most != 512 {
			t.Errorf("%d probes at once, want 512", w.network.most)
		}
	})
}

func TestUnreadableSecretIsOurFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), always(healthy))
		w.Credentials = secrets{errors.New("access denied")}
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range w.table.results {
			if r.Outcome != health.ProberError || r.Evidence != health.NoEvidence || r.Reason != "access denied" {
				t.Fatalf("recorded %+v", r)
			}
		}
		if len(w.table.results) != 6 || len(w.network.probes) != 0 {
			t.Errorf("%d results, %d servers probed", len(w.table.results), len(w.network.probes))
		}
	})
}

func TestLostResultsAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), always(reject))
		w.table.err = errors.New("throttled")
		err := w.Minute(t.Context(), prober.Shard{})
		if err == nil || err.Error() != "6 results not recorded, the last: throttled" {
			t.Errorf("error %v", err)
		}
	})
}

func TestAStoreThatNeverAnswersIsAClearErrorInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), always(healthy))
		w.table.delay = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 8500*time.Millisecond)
		defer cancel()
		err := w.Minute(ctx, prober.Shard{})
		if err == nil || !strings.Contains(err.Error(), "1 results not recorded") || ctx.Err() != nil {
			t.Errorf("error %v, the function's deadline: %v", err, ctx.Err())
		}
	})
}

func TestDuplicatedEventChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstTick := sleepPast(4 * time.Second)
		w := newWorld(testFleet(1, nil), always(healthy))
		second := newWorld(w.Fleet, always(healthy))
		second.Store = w.table
		var wg sync.WaitGroup
		for _, p := range []*world{w, second} {
			wg.Go(func() {
				if err := p.Minute(t.Context(), prober.Shard{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := w.table.rounds("ise-1", firstTick); !slices.Equal(got, seconds(0, 10, 20, 30, 40, 50)) {
			t.Errorf("rounds %v", got)
		}
	})
}

func TestShardsShareTheServers(t *testing.T) {
	f := testFleet(100, nil)
	probed := map[string]int{}
	for index := range uint32(4) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(f, always(healthy))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := w.Minute(ctx, prober.Shard{Index: index, Count: 4}); err != nil {
				t.Fatal(err)
			}
			for name := range w.table.rows {
				probed[name]++
			}
			if n := len(w.table.rows); n < 10 || n > 40 {
				t.Errorf("shard %d has %d of 100 servers", index, n)
			}
		})
	}
	if len(probed) != 100 {
		t.Errorf("%d of 100 servers are in a shard", len(probed))
	}
	for name, n := range probed {
		if n != 1 {
			t.Errorf("%s is in %d shards", name, n)
		}
	}
}

func TestHandle(t *testing.T) {
	for _, c := range []struct {
		name, event string
		err         string // what the error says; empty for none
		answer      string // the answer as JSON, or a part of it
		probes      int
	}{
		{name: "scheduled rule", event: `{"version":"0","detail-type":"Scheduled Event","source":"aws.events","time":"2000-01-01T00:00:00Z","detail":{}}`, answer: "null", probes: 6},
		{name: "scheduler with shard", event: `{"detail-type":"Scheduled Event","source":"aws.scheduler","time":"2000-01-01T00:00:00Z","shard":{"index":0,"count":1}}`, answer: "null", probes: 6},
		{name: "2 minutes late", event: `{"detail-type":"Scheduled Event","time":"1999-12-31T23:58:00Z"}`, answer: "null", probes: 6},
		{name: "later than 2 minutes", event: `{"detail-type":"Scheduled Event","time":"1999-12-31T23:57:59Z"}`, answer: "null", probes: 0},
		{name: "no time", event: `{"detail-type":"Scheduled Event"}`, err: "reading scheduled event: time is missing"},
		{name: "bad time", event: `{"detail-type":"Scheduled Event","time":"noon"}`, err: "reading scheduled event:"},
		{name: "another event", event: `{"detail-type":"EC2 Instance State-change Notification","time":"2000-01-01T00:00:00Z"}`, err: `detail-type "EC2 Instance State-change Notification" is not "Scheduled Event"`},
		{name: "bad shard", event: `{"detail-type":"Scheduled Event","time":"2000-01-01T00:00:00Z","shard":{"index":2,"count":2}}`, err: "shard index 2 is not below count 2"},
		{name: "empty request", event: `{}`, answer: `"healthy":true`, probes: 1},
		{name: "one server", event: `{"group":"vpn","server":"ise-1"}`, answer: `{"group":"vpn","server":"ise-1","address":"10.0.0.1:1812","method":"pap","outcome":"accept","healthy":true,"latency_ms":1,"transmissions":1,"recorded":false}`, probes: 1},
		{name: "write", event: `{"server":"ise-1","write":true}`, answer: `"recorded":true`, probes: 1},
		{name: "unknown field", event: `{"sever":"ise-1"}`, err: `unknown field "sever"; the fields of a request are "group", "server", "method" and "write"`},
		{name: "wrong type", event: `{"write":"yes"}`, err: "reading request:"},
		{name: "unknown group", event: `{"group":"lan"}`, err: `group "lan" is not in the fleet`},
		{name: "unknown server", event: `{"group":"vpn","server":"ise-9"}`, err: `server "ise-9" is not in vpn`},
		{name: "unknown method", event: `{"method":"telepathy"}`, err: `method "telepathy" cannot be probed; known are accounting, chap, `},
		{name: "no object", event: `"hello"`, err: "a JSON object is needed"},
		{name: "no JSON", event: `{`, err: "reading event:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(testFleet(1, nil), always(healthy))
				answer, err := w.Handle(t.Context(), json.RawMessage(c.event))
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Fatalf("error %v, want %q in it", err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(answer)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(b), c.answer) {
					t.Errorf("answer %s, want %s in it", b, c.answer)
				}
				probes := 0
				for _, times := range w.network.probes {
					probes += len(times)
				}
				if probes != c.probes {
					t.Errorf("%d probes, want %d", probes, c.probes)
				}
			})
		})
	}
}

// A row whose round is in the future takes nothing newer. That must not pass in
// silence.
func TestARowFromTheFutureIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(testFleet(1, nil), always(healthy))
		w.table.rows = map[string]store.ProbeRow{"ise-1": {Group: "vpn", Server: "ise-1", Round: time.Now().Add(24 * time.Hour)}}
		err := w.Minute(t.Context(), prober.Shard{})
		if err == nil || !strings.Contains(err.Error(), "vpn/ise-1: the row's round 2000-01-02T00:00:00Z is in the future") {
			t.Errorf("error %v", err)
		}
	})
}

// Failures before and after a long silence are no streak.
func TestAGapEndsAStreakOfFailures(t *testing.T) {
	for gap, want := range map[time.Duration]bool{5 * time.Minute: false, 5*time.Minute + time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(testFleet(1, nil), always(reject))
			last := time.Now().Add(-gap)
			w.table.rows = map[string]store.ProbeRow{"ise-1": {
				Group: "vpn", Server: "ise-1", Round: last, Address: "10.0.0.1:1812", ConsecutiveFailures: 2, LastFailure: last,
			}}
			if _, err := w.Report(t.Context(), prober.Request{Write: true}); err != nil {
				t.Fatal(err)
			}
			if got := w.table.results[0].Gap; got != want {
				t.Errorf("%v after the last failure: gap %v, want %v", gap, got, want)
			}
		})
	}
}
