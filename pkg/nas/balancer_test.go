package nas_test

import (
	"slices"
	"testing"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

// start begins a login that waits for its first server, and returns that.
func start(c *nas.Client, user int, now time.Time) (*nas.Login, int) {
	l := c.Begin(user, now)
	server, _ := l.Next(now)
	return l, server
}

func TestBatches(t *testing.T) {
	s := settings(nas.LeastOutstanding)
	s.Batch = 3
	c, now := client(t, s, 3), begin()
	var servers []int
	var logins []*nas.Login
	for range 12 {
		l, server := start(c, nas.Nobody, now)
		servers, logins = append(servers, server), append(logins, l)
	}
	if want := []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0}; !slices.Equal(servers, want) {
		t.Fatalf("asked %v, want %v", servers, want)
	}
	// 6, 3 and 3 wait. One answer of the last server makes it the least loaded.
	logins[8].Heard(health.Accept, 0, now)
	if _, server := start(c, nas.Nobody, now); server != 2 {
		t.Errorf("the next batch went to server %d", server)
	}
	// Its batch is kept although another one has fewer now.
	for _, l := range logins[3:6] {
		l.Heard(health.Reject, 0, now)
	}
	if _, server := start(c, nas.Nobody, now); server != 2 {
		t.Errorf("the batch moved to server %d", server)
	}
}

func TestPreferredServer(t *testing.T) {
	for ignore, want := range map[bool][]int{false: {2, 2, 3}, true: {1, 2, 3}} {
		s := settings(nas.LeastOutstanding)
		s.Batch, s.IgnorePreferred = 1, ignore
		c, now := client(t, s, 3), begin()
		for user := range 3 { // each on another server
			login(c, user, &now, estate(accept, reject, accept))
		}
		for i, user := range []int{1, 1, 2} {
			if got := asked(login(c, user, &now, estate(accept, reject, accept))); !slices.Equal(got, want[i:i+1]) {
				t.Errorf("ignore %v: user %d asked %v, want %d", ignore, user, got, want[i])
			}
		}
	}

	// A preferred server that is dead is not asked.
	s := settings(nas.LeastOutstanding)
	s.Batch, s.DeadAfter, s.DeadSilence = 1, 1, 0
	c, now := client(t, s, 2), begin()
	login(c, 7, &now, estate(accept, accept))
	if got := asked(login(c, 7, &now, estate(silence, accept))); !slices.Equal(got, []int{1, 1, 1, 2}) {
		t.Fatalf("asked %v", got)
	}
	if got := asked(login(c, 7, &now, estate(accept, accept))); !slices.Equal(got, []int{2}) {
		t.Errorf("asked %v, but server 1 is dead", got)
	}
}

// Both criteria must be met, and first transmissions do not count.
func TestDeadCriteria(t *testing.T) {
	tests := []struct {
		name   string
		change func(*nas.Settings)
		last   time.Duration // answer of server 1 before the silence begins; 0 for none
		logins int           // after that, of three transmissions to server 1 each
		deaths int
	}{
		{"two retransmissions are not three", nil, 0, 1, 0},
		{"three are", nil, 0, 2, 1},
		{"first transmissions do not count", func(s *nas.Settings) { s.Retries = 0 }, 0, 9, 0},
		{"no dead time, no dead server", func(s *nas.Settings) { s.DeadTime = 0 }, 0, 5, 0},
		{"in silence for just so long", func(s *nas.Settings) { s.DeadSilence = 13 * time.Second }, time.Second, 2, 1},
		{"not yet", func(s *nas.Settings) { s.DeadSilence = 13*time.Second + 1 }, time.Second, 2, 0},
		{"it has never answered", func(s *nas.Settings) { s.DeadSilence = time.Hour }, 0, 2, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings(nas.LeastOutstanding)
			if tt.change != nil {
				tt.change(&s)
			}
			c, now := client(t, s, 2), begin()
			if tt.last > 0 {
				l, _ := start(c, nas.Nobody, now)
				l.Heard(health.Accept, 0, now)
				now = now.Add(tt.last)
			}
			for range tt.logins {
				login(c, nas.Nobody, &now, func(server int) (health.Outcome, time.Duration) {
					return []health.Outcome{silence, accept}[server], 0
				})
			}
			if got := c.Deaths(); got[0] != tt.deaths || got[1] != 0 {
				t.Errorf("deaths %v, want %d of server 1", got, tt.deaths)
			}
		})
	}
}

func TestQuarantine(t *testing.T) {
	s := settings(nas.LeastOutstanding)
	s.DeadAfter, s.DeadSilence, s.Batch = 1, 0, 1
	c, now := client(t, s, 2), begin()
	half := estate(silence, accept)
	login(c, nas.Nobody, &now, half)
	died := begin().Add(2 * timeout) // with the first retransmission
	noTest := func(at time.Time) {
		t.Helper()
		if server, due := c.Test(at); due {
			t.Fatalf("server %d is to be tested", server)
		}
	}
	ask := func(want ...int) {
		t.Helper()
		if got := asked(login(c, nas.Nobody, &now, estate(accept, accept))); !slices.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
	}
	ask(2)
	ask(2)
	now = died.Add(s.DeadTime - 1)
	noTest(now)
	now = died.Add(s.DeadTime)
	if server, due := c.Test(now); !due || server != 0 {
		t.Fatalf("server %d, %v: the dead time of server 1 is over", server, due)
	}
	noTest(now) // once is enough
	ask(2)      // in quarantine
	c.Tested(0, health.Timeout, now)
	ask(2)
	if got := c.Deaths(); !slices.Equal(got, []int{2, 0}) {
		t.Errorf("deaths %v, want another one after the test", got)
	}
	noTest(now.Add(s.DeadTime - time.Second))
	if _, due := c.Test(now.Add(s.DeadTime)); !due {
		t.Fatal("no second test")
	}
	c.Tested(0, health.Reject, now)
	ask(1)
	ask(2)
}

// Dead servers are skipped unless there is no other.
func TestAllDead(t *testing.T) {
	s := settings(nas.LeastOutstanding)
	s.DeadAfter, s.DeadSilence = 1, 0
	c, now := client(t, s, 2), begin()
	login(c, nas.Nobody, &now, estate(silence, silence))
	if got := c.Deaths(); !slices.Equal(got, []int{1, 1}) {
		t.Fatalf("deaths %v", got)
	}
	if got := asked(login(c, nas.Nobody, &now, estate(silence, accept))); !slices.Equal(got, []int{1, 1, 1, 2}) {
		t.Errorf("asked %v, want also the dead ones", got)
	}
	// The answer has brought server 2 back.
	if got := asked(login(c, nas.Nobody, &now, estate(silence, accept))); !slices.Equal(got, []int{2}) {
		t.Errorf("asked %v, want server 2 alone", got)
	}
}

// A login does not go on to a server that is dead while another is live.
func TestFailOverSkipsTheDead(t *testing.T) {
	s := settings(nas.LeastOutstanding)
	s.DeadSilence, s.Batch = 0, 1
	c, now := client(t, s, 3), begin()
	for range 6 { // two each: server 3 dies, and the others are as before
		login(c, nas.Nobody, &now, estate(accept, accept, silence))
	}
	if got := c.Deaths(); !slices.Equal(got, []int{0, 0, 1}) {
		t.Fatalf("deaths %v", got)
	}
	if got := asked(login(c, nas.Nobody, &now, estate(silence, silence, accept))); len(got) != 6 || slices.Contains(got, 3) {
		t.Errorf("asked %v, want not the dead server", got)
	}
}

// A test that fails does not bury a server that a login has found live meanwhile.
func TestALateTest(t *testing.T) {
	s := settings(nas.LeastOutstanding)
	s.DeadAfter, s.DeadSilence = 1, 0
	c, now := client(t, s, 1), begin()
	login(c, nas.Nobody, &now, estate(silence))
	now = now.Add(s.DeadTime)
	if _, due := c.Test(now); !due {
		t.Fatal("no test")
	}
	login(c, nas.Nobody, &now, estate(accept)) // there is no other server
	c.Tested(0, silence, now)
	if got := c.Deaths(); got[0] != 1 {
		t.Errorf("%d deaths, want 1", got[0])
	}
}

func TestTheListKnowsNoDeadServers(t *testing.T) {
	c, now := client(t, settings(nas.RoundRobin), 2), begin()
	for range 5 {
		login(c, nas.Nobody, &now, estate(silence, silence))
	}
	if _, due := c.Test(now.Add(time.Hour)); due || c.Deaths() != nil {
		t.Error("a list has dead servers")
	}
}
