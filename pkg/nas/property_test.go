package nas_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

// drawSettings draws a NAS's settings and the number of its servers.
func drawSettings(t *rapid.T, strategies ...nas.Strategy) (nas.Settings, int) {
	return nas.Settings{
		Strategy:        rapid.SampledFrom(strategies).Draw(t, "strategy"),
		Timeout:         time.Duration(rapid.IntRange(1, 10_000).Draw(t, "timeout")) * time.Millisecond,
		Retries:         rapid.IntRange(0, 4).Draw(t, "retries"),
		Batch:           rapid.IntRange(1, 30).Draw(t, "batch"),
		IgnorePreferred: rapid.Bool().Draw(t, "ignore preferred"),
		DeadAfter:       rapid.IntRange(1, 5).Draw(t, "dead after"),
		DeadSilence:     time.Duration(rapid.IntRange(0, 20).Draw(t, "dead silence")) * time.Second,
		DeadTime:        time.Duration(rapid.IntRange(0, 60).Draw(t, "dead time")) * time.Second,
	}, rapid.IntRange(1, 6).Draw(t, "servers")
}

// outcomes are what a transmission may have.
func outcomes() []health.Outcome { return append(health.Outcomes(), "") }

// Whatever happens, and however many logins are under way: none sends more
// packets or waits longer than its settings allow, each server gets no more than
// its rounds, an answer is the last thing that a login hears, and a login
// without one has asked as often as it may.
func TestEveryLoginKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, servers := drawSettings(t, nas.Strategies()...)
		c, err := nas.New(s, servers)
		if err != nil {
			t.Fatal(err)
		}
		now := begin()
		var waiting, over []*nas.Login
		step := func(l *nas.Login) {
			if _, ok := l.Next(now); ok {
				waiting = append(waiting, l)
			} else {
				over = append(over, l)
			}
		}
		hear := func(i int) {
			l := waiting[i]
			waiting = slices.Delete(waiting, i, i+1)
			o := rapid.SampledFrom(outcomes()).Draw(t, "outcome")
			l.Heard(o, c.Wait(o, time.Duration(rapid.IntRange(0, 20_000).Draw(t, "took"))*time.Millisecond), now)
			step(l)
		}
		t.Repeat(map[string]func(*rapid.T){
			"login": func(t *rapid.T) { step(c.Begin(rapid.IntRange(nas.Nobody, 3).Draw(t, "user"), now)) },
			"hear": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nobody waits")
				}
				hear(rapid.IntRange(0, len(waiting)-1).Draw(t, "login"))
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
			},
			"test": func(t *rapid.T) {
				if server, due := c.Test(now); due {
					c.Tested(server, rapid.SampledFrom(outcomes()).Draw(t, "outcome"), now)
				}
			},
		})
		for len(waiting) > 0 {
			hear(0)
		}
		for _, l := range over {
			packets := make([]int, servers)
			for i, p := range l.Transmissions {
				packets[p.Server]++
				if answer := nas.Hears(p.Outcome) == nas.Answer; answer && i < len(l.Transmissions)-1 {
					t.Fatalf("a login went on after an answer: %+v", l.Transmissions)
				}
			}
			most := slices.Max(packets)
			if n := len(l.Transmissions); n > s.Transmissions(servers) || most > 1+s.Retries || l.Waited() > s.WorstWait(servers) {
				t.Fatalf("%d packets, %d to one server, waited %v of %v", n, most, l.Waited(), s.WorstWait(servers))
			}
			if s.Strategy != nas.LeastOutstanding && !l.Answered() && len(l.Transmissions) != s.Transmissions(servers) {
				t.Fatalf("a login without an answer gave up early: %+v", l.Transmissions)
			}
			if !l.Answered() && most != 1+s.Retries {
				t.Fatalf("a login without an answer did not use its retries: %+v", l.Transmissions)
			}
		}
	})
}

// A list never skips a server: packet k of a login goes to the server k places
// after its first, which is the top of the list, or moves on by one each time.
func TestAListNeverSkips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, servers := drawSettings(t, nas.Strict, nas.RoundRobin)
		c, err := nas.New(s, servers)
		if err != nil {
			t.Fatal(err)
		}
		now := begin()
		for n := range rapid.IntRange(1, 10).Draw(t, "logins") {
			l := login(c, nas.Nobody, &now, func(int) (health.Outcome, time.Duration) {
				return rapid.SampledFrom(outcomes()).Draw(t, "outcome"), 0
			})
			first := 0
			if s.Strategy == nas.RoundRobin {
				first = n
			}
			for k, p := range l.Transmissions {
				if p.Server != (first+k)%servers {
					t.Fatalf("login %d asked %v of %d servers", n+1, asked(l), servers)
				}
			}
		}
	})
}

// A batch goes to a live server with the fewest logins that wait. So without
// answers no two servers ever differ by more than a batch.
func TestLeastOutstanding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, servers := drawSettings(t, nas.LeastOutstanding)
		answers := rapid.Bool().Draw(t, "answers")
		c, err := nas.New(s, servers)
		if err != nil {
			t.Fatal(err)
		}
		now := begin()
		load := make([]int, servers)
		var waiting []*nas.Login
		left, last := 0, -1
		for range rapid.IntRange(1, 200).Draw(t, "logins") {
			for answers && len(waiting) > 0 && rapid.Bool().Draw(t, "answered") {
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "login")
				load[waiting[i].Transmissions[0].Server]--
				waiting[i].Heard(health.Accept, 0, now)
				waiting = slices.Delete(waiting, i, i+1)
			}
			l, server := start(c, nas.Nobody, now)
			if left == 0 {
				if load[server] != slices.Min(load) {
					t.Fatalf("a batch for server %d of %v", server, load)
				}
				left, last = s.Batch, server
			}
			left--
			if server != last {
				t.Fatalf("server %d in the batch of server %d", server, last)
			}
			load[server]++
			waiting = append(waiting, l)
			if !answers && slices.Max(load)-slices.Min(load) > s.Batch {
				t.Fatalf("%v wait, the batch is %d", load, s.Batch)
			}
		}
	})
}
