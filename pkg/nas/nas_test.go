package nas_test

import (
	"slices"
	"testing"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

const timeout = 2 * time.Second

// settings are Meraki's, or those of Cisco's example of dead servers.
func settings(s nas.Strategy) nas.Settings {
	return nas.Settings{
		Strategy: s, Timeout: timeout, Retries: 2, Batch: 25, DeadAfter: 3, DeadSilence: 3 * time.Second, DeadTime: 2 * time.Minute,
	}
}

func client(t testing.TB, s nas.Settings, servers int) *nas.Client {
	t.Helper()
	c, err := nas.New(s, servers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// network is what comes of a transmission, and after how long.
type network func(server int) (health.Outcome, time.Duration)

// estate is a network in which each server has an outcome. An answer takes ten
// milliseconds, an ICMP error one.
func estate(outcomes ...health.Outcome) network {
	return func(server int) (health.Outcome, time.Duration) {
		switch o := outcomes[server]; o {
		case health.Timeout, health.BadAuthenticator, health.Malformed:
			return o, timeout
		case health.Refused:
			return o, time.Millisecond
		default:
			return o, 10 * time.Millisecond
		}
	}
}

// login goes through a whole login, and moves the time on.
func login(c *nas.Client, user int, now *time.Time, n network) *nas.Login {
	l := c.Begin(user, *now)
	for {
		server, ok := l.Next(*now)
		if !ok {
			return l
		}
		outcome, took := n(server)
		wait := c.Wait(outcome, took)
		*now = now.Add(wait)
		l.Heard(outcome, wait, *now)
	}
}

// asked lists the servers of a login's transmissions, numbered from 1.
func asked(l *nas.Login) []int {
	var order []int
	for _, p := range l.Transmissions {
		order = append(order, p.Server+1)
	}
	return order
}

func begin() time.Time { return time.Date(2026, 1, 31, 2, 0, 0, 0, time.UTC) }

const (
	accept  = health.Accept
	reject  = health.Reject
	silence = health.Timeout
	refused = health.Refused
)

func TestOrderAndWait(t *testing.T) {
	tests := []struct {
		name     string
		strategy nas.Strategy
		servers  []health.Outcome
		asked    [][]int // by login
		waits    []time.Duration
	}{
		{"all well", nas.Strict, []health.Outcome{accept, accept, accept},
			[][]int{{1}, {1}}, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}},
		{"all dead", nas.Strict, []health.Outcome{silence, silence, silence},
			[][]int{{1, 2, 3, 1, 2, 3, 1, 2, 3}}, []time.Duration{9 * timeout}},
		{"the first dead", nas.Strict, []health.Outcome{silence, accept, accept},
			[][]int{{1, 2}, {1, 2}}, []time.Duration{timeout + 10*time.Millisecond, timeout + 10*time.Millisecond}},
		{"a reject ends it", nas.Strict, []health.Outcome{reject, accept, accept}, [][]int{{1}}, []time.Duration{10 * time.Millisecond}},
		{"a challenge ends it", nas.Strict, []health.Outcome{health.Challenge, accept, accept}, [][]int{{1}}, []time.Duration{10 * time.Millisecond}},
		{"an ICMP error ends the wait", nas.Strict, []health.Outcome{refused, refused, accept},
			[][]int{{1, 2, 3}}, []time.Duration{12 * time.Millisecond}},
		{"all closed", nas.Strict, []health.Outcome{refused, refused, refused},
			[][]int{{1, 2, 3, 1, 2, 3, 1, 2, 3}}, []time.Duration{9 * time.Millisecond}},
		{"an answer that does not verify is none", nas.Strict, []health.Outcome{health.BadAuthenticator, health.Malformed, accept},
			[][]int{{1, 2, 3}}, []time.Duration{2*timeout + 10*time.Millisecond}},
		{"one server", nas.Strict, []health.Outcome{silence}, [][]int{{1, 1, 1}}, []time.Duration{3 * timeout}},

		{"rotating", nas.RoundRobin, []health.Outcome{accept, accept, accept}, [][]int{{1}, {2}, {3}, {1}}, nil},
		{"rotating, all dead", nas.RoundRobin, []health.Outcome{silence, silence, silence},
			[][]int{{1, 2, 3, 1, 2, 3, 1, 2, 3}, {2, 3, 1, 2, 3, 1, 2, 3, 1}, {3, 1, 2, 3, 1, 2, 3, 1, 2}}, []time.Duration{9 * timeout, 9 * timeout, 9 * timeout}},
		{"rotating, one dead", nas.RoundRobin, []health.Outcome{accept, silence, accept},
			[][]int{{1}, {2, 3}, {3}, {1}, {2, 3}}, nil},

		{"retransmissions to the same server", nas.LeastOutstanding, []health.Outcome{silence, silence, silence},
			[][]int{{1, 1, 1, 2, 2, 2, 3, 3, 3}}, []time.Duration{9 * timeout}},
		{"the next server after them", nas.LeastOutstanding, []health.Outcome{silence, accept, accept},
			[][]int{{1, 1, 1, 2}}, []time.Duration{3*timeout + 10*time.Millisecond}},
		{"IOS waits after an ICMP error", nas.LeastOutstanding, []health.Outcome{refused, accept, accept},
			[][]int{{1, 1, 1, 2}}, []time.Duration{3*timeout + 10*time.Millisecond}},
		{"a batch", nas.LeastOutstanding, []health.Outcome{accept, reject}, [][]int{{1}, {1}, {1}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, now := client(t, settings(tt.strategy), len(tt.servers)), begin()
			for i, want := range tt.asked {
				l := login(c, nas.Nobody, &now, estate(tt.servers...))
				if got := asked(l); !slices.Equal(got, want) {
					t.Errorf("login %d asked %v, want %v", i+1, got, want)
				}
				if tt.waits != nil && l.Waited() != tt.waits[i] {
					t.Errorf("login %d waited %v, want %v", i+1, l.Waited(), tt.waits[i])
				}
			}
		})
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	for want, change := range map[string]func(*nas.Settings){
		`strategy "random" is not one of [strict round-robin least-outstanding]`: func(s *nas.Settings) { s.Strategy = "random" },
		"the timeout must be positive":                                           func(s *nas.Settings) { s.Timeout = 0 },
		"the number of retries must not be negative":                             func(s *nas.Settings) { s.Retries = -1 },
		"the batch must be of at least 1":                                        func(s *nas.Settings) { s.Batch = 0 },
		"a server cannot be dead after less than 1 retransmission":               func(s *nas.Settings) { s.DeadAfter = 0 },
		"the times of dead servers must not be negative":                         func(s *nas.Settings) { s.DeadTime = -1 },
	} {
		s := settings(nas.LeastOutstanding)
		change(&s)
		if _, err := nas.New(s, 1); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := nas.New(settings(nas.Strict), 0); err == nil {
		t.Error("a NAS without servers")
	}
	if _, err := nas.New(nas.Settings{Strategy: nas.Strict, Timeout: 1}, 1); err != nil {
		t.Errorf("strict needs nothing of least-outstanding: %v", err)
	}
}
