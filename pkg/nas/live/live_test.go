package live_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
	"radwitness/pkg/nas/live"
	"radwitness/pkg/probe"
)

const timeout = 2 * time.Second

// network is servers on the clock of a test.
type network struct {
	answer func(server int, at time.Duration) health.Outcome // what a transmission has that begins then
	begin  time.Time

	mu   sync.Mutex
	open int
	most int // paths at the same time
	sent []int
}

func (n *network) Open(ctx context.Context) live.Path {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open++
	n.most = max(n.most, n.open)
	return path{ctx, n}
}

type path struct {
	ctx     context.Context
	network *network
}

func (p path) Close() {
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	p.network.open--
}

func (p path) Transmit(server int) probe.Result {
	begin := time.Now()
	o := p.network.answer(server, time.Since(p.network.begin))
	p.network.mu.Lock()
	p.network.sent = append(p.network.sent, server+1)
	p.network.mu.Unlock()
	took := 10 * time.Millisecond
	switch o {
	case health.Timeout:
		took = timeout
	case health.Refused:
		took = time.Millisecond
	}
	select {
	case <-time.After(took):
	case <-p.ctx.Done():
		return probe.Result{Outcome: health.ProberError, Reason: "context canceled"}
	}
	return probe.Result{Outcome: o, Reason: "so it is", Duration: time.Since(begin)}
}

// always is servers that never change.
func always(outcomes ...health.Outcome) *network {
	return &network{answer: func(server int, _ time.Duration) health.Outcome { return outcomes[server] }}
}

// test is ten logins, ten a second, at three servers.
func test(n *network, s nas.Strategy) live.Test {
	t := live.Test{
		Settings: nas.Settings{Strategy: s, Timeout: timeout, Retries: 2, Batch: 2, DeadAfter: 3, DeadSilence: time.Second, DeadTime: 10 * time.Second},
		Network:  n, Logins: 10, Rate: 10, Outstanding: 10,
	}
	for _, name := range []string{"ise-1", "ise-2", "ise-3"} {
		t.Servers = append(t.Servers, nas.Server{Name: name, Criteria: health.Criteria{HealthyOn: []health.Outcome{health.Accept}}})
	}
	return t
}

// run makes a test on a clock of its own, and returns how long it took.
func run(t *testing.T, ctx context.Context, test live.Test) (live.Result, time.Duration, error) {
	t.Helper()
	begin := time.Now()
	n := test.Network.(*network)
	n.begin = begin
	r, err := test.Run(ctx)
	if n.open != 0 {
		t.Errorf("%d paths were left open", n.open)
	}
	return r, time.Since(begin), err
}

func TestAllDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := always(health.Timeout, health.Timeout, health.Timeout)
		r, took, err := run(t, t.Context(), test(n, nas.Strict))
		if err != nil {
			t.Fatal(err)
		}
		v := r.View
		if want := []int{1, 2, 3, 1, 2, 3, 1, 2, 3}; !slices.Equal(v.First, want) {
			t.Errorf("the first login asked %v, want %v", v.First, want)
		}
		if v.Wait.MaxMS != 18000 || v.Wait.P50MS != 18000 || v.Wait.WorstMS != 18000 || v.Logins != 10 || v.Unanswered != 10 || v.LetIn != (nas.LetIn{Allow: 10}) {
			t.Errorf("%+v", v.Summary)
		}
		if want := 900*time.Millisecond + 9*timeout; took != want {
			t.Errorf("took %v, want %v: the logins are a tenth of a second apart", took, want)
		}
	})
}

func TestStrategies(t *testing.T) {
	for strategy, want := range map[nas.Strategy][]int{ // first servers of ten logins
		nas.Strict: {10, 0, 0}, nas.RoundRobin: {4, 3, 3}, nas.LeastOutstanding: {4, 4, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, took, err := run(t, t.Context(), test(always(health.Accept, health.Accept, health.Accept), strategy))
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range r.View.Servers {
				if s.Logins != want[i] || s.Accepts != want[i] || s.Share != float64(want[i])/10 {
					t.Errorf("%s: %+v, want %d logins", strategy, s, want[i])
				}
			}
			if took != 910*time.Millisecond || len(r.Notes) != 0 {
				t.Errorf("%s: took %v, notes %v", strategy, took, r.Notes)
			}
		})
	}
}

// An ICMP error sends Meraki on at once; IOS waits for the rest of the timeout.
func TestICMPErrors(t *testing.T) {
	for strategy, want := range map[nas.Strategy]float64{nas.Strict: 11, nas.LeastOutstanding: 6010} {
		synctest.Test(t, func(t *testing.T) {
			test := test(always(health.Refused, health.Accept, health.Accept), strategy)
			test.Logins = 1
			r, took, err := run(t, t.Context(), test)
			if err != nil || r.View.Wait.MaxMS != want || took != time.Duration(want)*time.Millisecond {
				t.Errorf("%s: waited %v ms, took %v, want %v ms; %v", strategy, r.View.Wait.MaxMS, took, want, err)
			}
		})
	}
}

func TestOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := always(health.Timeout, health.Accept, health.Accept)
		test := test(n, nas.Strict)
		test.Outstanding = 4
		r, took, err := run(t, t.Context(), test)
		if err != nil || n.most != 4 {
			t.Errorf("%d logins at the same time, want 4; %v", n.most, err)
		}
		if want := []string{"6 logins began late, because 4 were waiting already"}; !slices.Equal(r.Notes, want) {
			t.Errorf("notes %q, want %q", r.Notes, want)
		}
		if took < 3*timeout || r.View.Logins != 10 {
			t.Errorf("took %v for %d logins", took, r.View.Logins)
		}
	})
}

func TestRejectsStopTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejecting := &network{answer: func(_ int, at time.Duration) health.Outcome {
			if at > 200*time.Millisecond && at < 400*time.Millisecond { // one login
				return health.Accept
			}
			return health.Reject
		}}
		test := test(rejecting, nas.Strict)
		test.MaxRejects = 5
		r, _, err := run(t, t.Context(), test)
		if err != nil || r.View.Logins != 9 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "stopped after 5 rejects in a row") {
			t.Errorf("%d logins, notes %q, %v", r.View.Logins, r.Notes, err)
		}
		test.MaxRejects = 6 // the last login is the sixth: there is nothing left to stop
		if r, _, err = run(t, t.Context(), test); err != nil || r.View.Logins != 10 || len(r.Notes) != 0 {
			t.Errorf("%d logins, notes %q, %v", r.View.Logins, r.Notes, err)
		}
	})
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		r, took, err := run(t, ctx, test(always(health.Accept, health.Accept, health.Accept), nas.Strict))
		if err != nil || r.View.Logins != 3 || took != 250*time.Millisecond || !slices.Equal(r.Notes, []string{"interrupted"}) {
			t.Errorf("%d logins in %v, notes %q, %v", r.View.Logins, took, r.Notes, err)
		}
	})
}

// A fault of this machine's own is no server's, and too many of them end the test.
func TestOwnFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := test(always(health.Accept, health.ProberError, health.Accept), nas.RoundRobin)
		r, _, err := run(t, t.Context(), faulty)
		if want := []string{"3 logins are not counted, by a fault of this machine: sending to ise-2: so it is"}; err != nil || r.View.Logins != 7 || !slices.Equal(r.Notes, want) {
			t.Errorf("%d logins, notes %q, %v", r.View.Logins, r.Notes, err)
		}
		faulty.Logins = 30
		if _, _, err := run(t, t.Context(), faulty); err == nil || err.Error() != "sending to ise-2: so it is" {
			t.Errorf("ten faults: %v", err)
		}
		faulty.Settings.Strategy, faulty.Logins, faulty.Network = nas.Strict, 1, always(health.ProberError)
		if _, _, err := run(t, t.Context(), faulty); err == nil {
			t.Error("nothing but a fault, and no error")
		}
		bad := test(always(health.Accept, health.Accept, health.Accept), "random")
		if _, err := bad.Run(t.Context()); err == nil {
			t.Error("a strategy that is none")
		}
	})
}

// A dead server comes back by its test, not by a login.
func TestQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{answer: func(server int, at time.Duration) health.Outcome {
			if server == 0 && at < 12*time.Second {
				return health.Timeout
			}
			return health.Accept
		}}
		test := test(n, nas.LeastOutstanding)
		test.Logins, test.Rate, test.Trace = 60, 2, true
		r, _, err := run(t, t.Context(), test)
		if err != nil {
			t.Fatal(err)
		}
		first := r.View.Servers[0]
		if first.Dead != 1 || first.Accepts == 0 || r.View.LetIn.Deny != 60 {
			t.Errorf("server 1 %+v, let in %+v", first, r.View.LetIn)
		}
		for _, p := range r.View.Trace {
			if at := time.Duration(p.Login-1)*500*time.Millisecond + time.Duration(p.AtMS)*time.Millisecond; p.Server == "ise-1" && p.Outcome == health.Accept && at < 12*time.Second {
				t.Errorf("login %d was answered by server 1 at %v", p.Login, at)
			}
		}
		if sent := len(n.sent) - len(r.View.Trace); sent != 1 {
			t.Errorf("%d tests, want 1", sent)
		}
	})
}

// Users who come back go to the server that answered them.
func TestUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := test(always(health.Accept, health.Accept, health.Accept), nas.LeastOutstanding)
		test.Settings.Batch, test.Users, test.Logins = 1, 4, 12
		r, _, err := run(t, t.Context(), test)
		if err != nil || r.View.Servers[0].Logins != 6 || r.View.Servers[1].Logins != 3 || r.View.Servers[2].Logins != 3 {
			t.Errorf("%+v, %v", r.View.Servers, err)
		}
	})
}
