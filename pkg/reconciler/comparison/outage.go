// Package comparison plays the same outages to four ways of keeping RADIUS
// clients away from servers that do not authenticate, and counts what clients
// lose. docs/comparison.md says what is modelled and what is not. It is made for
// a table in the documentation; nothing in production uses it.
package comparison

import (
	"math"
	"math/rand/v2"
	"time"

	"radwitness/pkg/health"
)

const (
	servers = 3
	step    = 100 * time.Millisecond // one client request each
	settle  = 25 * time.Minute       // after the last recovery: longer than any hold-down or dead time
)

// outage is when each server fails. A server is well outside its interval.
type outage struct {
	from, to [servers]time.Duration // from the beginning; equal for a server that stays well
	silent   bool                   // no answers at all; else the server rejects everybody
	common   bool                   // one cause for all servers
}

// draw makes an outage: four in five hit one server, the others all of them
// within seconds; half are silent, half reject. They last from five seconds to
// half an hour, short ones as often as long ones on a logarithmic scale.
func draw(rng *rand.Rand) outage {
	o := outage{silent: rng.IntN(2) == 0, common: rng.IntN(5) == 0}
	lasts := time.Duration(float64(5*time.Second) * math.Pow(360, rng.Float64()))
	begins := time.Minute + time.Duration(rng.Int64N(int64(time.Minute)))
	for s := range servers {
		switch {
		case o.common:
			o.from[s] = begins + time.Duration(rng.Int64N(int64(8*time.Second)))
			o.to[s] = o.from[s] + lasts + time.Duration(rng.Int64N(int64(8*time.Second)))
		case s == 0:
			o.from[s], o.to[s] = begins, begins+lasts
		}
	}
	return o
}

func (o outage) fails(s int, t time.Duration) bool { return t >= o.from[s] && t < o.to[s] }

// outcome is what a probe of a server that begins at t finds.
func (o outage) outcome(s int, t time.Duration) health.Outcome {
	switch {
	case !o.fails(s, t):
		return health.Accept
	case o.silent:
		return health.Timeout
	}
	return health.Reject
}

func (o outage) end() time.Duration {
	end := settle
	for s := range servers {
		end = max(end, o.to[s]+settle)
	}
	return end
}

// method is one way of choosing servers. It is told the time in steps.
type method interface {
	// advance brings the method to time t.
	advance(t time.Duration)
	// uses reports whether the method has a server in use. Where an NLB is in
	// between, traffic follows later.
	uses(s int) bool
	// serves reports whether requests are sent to a server now.
	serves(s int) bool
	// sent tells the method of a client's request, which it may learn from.
	sent(s int, t time.Duration)
}

// result is what came of one outage.
type result struct {
	lost     int           // client requests that were sent to a failing server
	notice   time.Duration // from a server's failure until it was taken out of use; negative if it was not while it failed
	removal  time.Duration // from a server's failure until it got no more requests; negative if it got them to the end
	comeback time.Duration // from its recovery until it got requests again; negative if it was never away
}

// play lets a method live through an outage. Times are those of the first
// server, which fails in every outage.
func play(o outage, m method, rng *rand.Rand) result {
	r := result{notice: -1, removal: -1, comeback: -1}
	away := false
	for t := time.Duration(0); t < o.end(); t += step {
		m.advance(t)
		var able [servers]int
		n := 0
		for s := range servers {
			if m.serves(s) {
				able[n] = s
				n++
			}
		}
		if n > 0 {
			s := able[rng.IntN(n)]
			if o.fails(s, t) {
				r.lost++
			}
			m.sent(s, t)
		}
		if r.notice < 0 && o.fails(0, t) && !m.uses(0) {
			r.notice = t - o.from[0]
		}
		switch in := m.serves(0); {
		case !in && !away && t >= o.from[0]:
			away = true
			if t < o.to[0] {
				r.removal = t - o.from[0]
			}
		case in && away && t >= o.to[0] && r.comeback < 0:
			r.comeback = t - o.to[0]
		}
	}
	return r
}
