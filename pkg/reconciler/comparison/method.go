package comparison

import (
	"slices"
	"time"

	"radwitness/pkg/health"
)

// What a change of an NLB's targets takes until traffic follows it. The first
// is an assumption; the second is what AWS says of a target's first checks.
const (
	untilGone   = 10 * time.Second
	untilServed = 150 * time.Second
)

// untilDecided is what it takes from the end of a probe to the call that changes
// the targets: the write, a quarter of a second at most until Lambda polls the
// stream, two reads and the call. An assumption, on the long side.
const untilDecided = 500 * time.Millisecond

// targets is an NLB target group: membership, and the traffic that follows it.
type targets struct {
	in      [servers]bool
	changed [servers]time.Duration // when membership last changed
	now     time.Duration
}

func allIn() targets {
	t := targets{}
	for s := range servers {
		t.in[s], t.changed[s] = true, -time.Hour
	}
	return t
}

func (t *targets) set(s int, in bool) {
	if t.in[s] != in {
		t.in[s], t.changed[s] = in, t.now
	}
}

func (t *targets) uses(s int) bool { return t.in[s] }

// serves reports whether a server gets traffic: a target that leaves gets some
// for a while, a new one none at first. A target that is not healthy yet gets
// traffic all the same if no other is: an NLB fails open.
func (t *targets) serves(s int) bool {
	if t.listed(s) {
		return true
	}
	for other := range servers {
		if t.listed(other) {
			return false
		}
	}
	return t.in[s]
}

func (t *targets) listed(s int) bool {
	since := t.now - t.changed[s]
	return t.in[s] && since >= untilServed || !t.in[s] && since < untilGone
}

// probeTime is how long a probe takes: three transmissions a second apart if
// nothing comes back.
func probeTime(o health.Outcome) time.Duration {
	if o == health.Timeout {
		return 3 * time.Second
	}
	return 20 * time.Millisecond
}

// check is the probing of one server.
type check struct {
	next    time.Duration // begin of the next probe
	ends    time.Duration // of the running one; negative if there is none
	outcome health.Outcome
	began   time.Duration
}

// done reports whether a probe has ended by t. It begins the next one first if
// its time has come, at that time: the steps of the simulation are longer than a
// probe may take.
func (c *check) done(s int, o outage, t time.Duration) bool {
	if c.ends < 0 && t >= c.next {
		c.outcome, c.began = o.outcome(s, c.next), c.next
		c.ends = c.next + probeTime(c.outcome)
	}
	return c.ends >= 0 && t >= c.ends
}

// radwitness is this design. State machine and group decision are the real ones.
type radwitness struct {
	targets
	outage  outage
	policy  health.Policy
	checks  [servers]check
	members [servers]health.Member
	stream  []record // on their way to the reconciler, oldest first
}

// record is what the stream brings of a probe.
type record struct {
	server int
	row    health.Observation
	at     time.Duration // when it is there
}

func newRadwitness(o outage) *radwitness {
	r := &radwitness{targets: allIn(), outage: o, policy: health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute}}
	for s := range servers {
		r.checks[s].ends = -1
		r.members[s] = health.Member{Server: string(rune('a' + s)), Checks: []health.Check{{StaleAfter: time.Minute}}}
	}
	return r
}

func (r *radwitness) sent(int, time.Duration) {}

func (r *radwitness) advance(t time.Duration) {
	r.now = t
	for s := range servers {
		for c := &r.checks[s]; c.done(s, r.outage, t); c.ends = -1 {
			c.next = c.ends.Truncate(10*time.Second) + 10*time.Second
			if r.write(s) {
				c.next = c.ends + time.Second
			}
			r.stream = append(r.stream, record{s, r.members[s].Checks[0].Observation, c.ends + untilDecided})
		}
	}
	news := false
	r.stream = slices.DeleteFunc(r.stream, func(rec record) bool {
		if t < rec.at {
			return false
		}
		state := &r.members[rec.server].Checks[0].State
		*state, _ = health.Advance(r.policy, *state, rec.row)
		news = true
		return true
	})
	if !news {
		return
	}
	// A decision reads the newest rows, also those whose records are still to come.
	for s, v := range health.Decide(1, r.members[:]).Verdicts {
		if v.Membership != health.Keep {
			r.set(s, v.Membership == health.In)
		}
	}
}

// write records a probe. It reports whether the server needs a fast probe.
func (r *radwitness) write(s int) bool {
	c, m := r.checks[s], &r.members[s].Checks[0]
	round := time.Unix(0, 0).Add(c.began)
	o := &m.Observation
	o.Round, o.Outcome = round, c.outcome
	if c.outcome == health.Accept {
		if o.ConsecutiveSuccesses == 0 {
			o.SuccessSince = round
		}
		o.ConsecutiveSuccesses, o.ConsecutiveFailures, o.LastSuccess = o.ConsecutiveSuccesses+1, 0, round
	} else {
		if o.ConsecutiveFailures == 0 {
			o.FailureSince = round
		}
		o.ConsecutiveFailures, o.ConsecutiveSuccesses, o.LastFailure = o.ConsecutiveFailures+1, 0, round
	}
	return o.ConsecutiveFailures > 0 && o.ConsecutiveFailures < r.policy.FailureThreshold
}

// sample is the algorithm of the AWS sample: probes every 10 s, three failures,
// a hold-down of 120 s, membership set every 30 s, all targets in if none is
// healthy.
type sample struct {
	targets
	outage  outage
	checks  [servers]check
	failed  [servers]int
	down    [servers]bool
	healthy [servers]time.Duration // since when it answers again, if it was down; negative if it does not
	loop    time.Duration          // next run of the reconcile loop
}

func newSample(o outage, phase time.Duration) *sample {
	s := &sample{targets: allIn(), outage: o, loop: phase}
	for i := range servers {
		s.checks[i].ends, s.healthy[i] = -1, -1
	}
	return s
}

func (a *sample) sent(int, time.Duration) {}

func (a *sample) advance(t time.Duration) {
	a.now = t
	for s := range servers {
		for c := &a.checks[s]; c.done(s, a.outage, t); c.ends = -1 {
			c.next += 10 * time.Second
			a.learn(s, t, c.outcome == health.Accept)
		}
	}
	if t < a.loop {
		return
	}
	a.loop += 30 * time.Second
	any := false
	for s := range servers {
		any = any || !a.down[s]
	}
	for s := range servers {
		a.set(s, !any || !a.down[s])
	}
}

func (a *sample) learn(s int, t time.Duration, success bool) {
	if !success {
		a.failed[s]++
		a.healthy[s] = -1
		a.down[s] = a.down[s] || a.failed[s] >= 3
		return
	}
	a.failed[s] = 0
	if !a.down[s] {
		return
	}
	if a.healthy[s] < 0 {
		a.healthy[s] = t
	}
	a.down[s] = t-a.healthy[s] < 2*time.Minute
}

// pending is a client request that has no answer yet.
type pending struct {
	server int
	sent   time.Duration
}

// cisco is a NAS with dead-criteria time 5 tries 3, deadtime 10 minutes and a
// test before a dead server is used again. Any answer proves a server alive.
type cisco struct {
	outage   outage
	waiting  []pending
	answered [servers]time.Duration
	tries    [servers]int           // timeouts since the last answer
	dead     [servers]time.Duration // until when; 0 if it is alive
}

func (c *cisco) uses(s int) bool { return c.serves(s) }

func (c *cisco) serves(s int) bool { return anyAlive(s, func(s int) bool { return c.dead[s] == 0 }) }

func (c *cisco) sent(s int, t time.Duration) {
	if c.outage.fails(s, t) && c.outage.silent {
		c.waiting = append(c.waiting, pending{s, t})
		return
	}
	c.answered[s], c.tries[s] = t, 0
}

func (c *cisco) advance(t time.Duration) {
	for len(c.waiting) > 0 && t-c.waiting[0].sent >= 5*time.Second {
		s := c.waiting[0].server
		c.waiting = c.waiting[1:]
		c.tries[s]++
		if c.dead[s] == 0 && c.tries[s] >= 3 && t-c.answered[s] >= 5*time.Second {
			c.dead[s] = t + 10*time.Minute
		}
	}
	for s := range servers {
		if c.dead[s] == 0 || t < c.dead[s] {
			continue
		}
		c.dead[s] = t + 10*time.Minute
		if !c.outage.fails(s, t) || !c.outage.silent {
			c.dead[s], c.tries[s], c.answered[s] = 0, 0, t
		}
	}
}

// freeradius is a proxy with home_server checks: response_window 20 s, then
// checked every 30 s as a zombie and, after zombie_period 40 s, as dead; three
// answers to a check bring it back. Zombies are used only if nobody is alive.
type freeradius struct {
	outage   outage
	waiting  []pending
	answered [servers]time.Duration
	zombie   [servers]bool
	check    [servers]time.Duration
	answers  [servers]int
}

func (f *freeradius) uses(s int) bool { return f.serves(s) }

func (f *freeradius) serves(s int) bool { return anyAlive(s, func(s int) bool { return !f.zombie[s] }) }

func (f *freeradius) sent(s int, t time.Duration) {
	if f.outage.fails(s, t) && f.outage.silent {
		f.waiting = append(f.waiting, pending{s, t})
		return
	}
	f.answered[s] = t
}

func (f *freeradius) advance(t time.Duration) {
	for len(f.waiting) > 0 && t-f.waiting[0].sent >= 20*time.Second {
		p := f.waiting[0]
		f.waiting = f.waiting[1:]
		if !f.zombie[p.server] && f.answered[p.server] < p.sent {
			f.zombie[p.server], f.answers[p.server], f.check[p.server] = true, 0, t
		}
	}
	for s := range servers {
		if !f.zombie[s] || t < f.check[s] {
			continue
		}
		f.check[s] = t + 30*time.Second
		if f.outage.fails(s, t) && f.outage.silent {
			f.answers[s] = 0
			continue
		}
		if f.answers[s]++; f.answers[s] >= 3 {
			f.zombie[s], f.answered[s] = false, t
		}
	}
}

// anyAlive reports whether a server is used: those that are alive, or all if
// none is.
func anyAlive(s int, alive func(int) bool) bool {
	if alive(s) {
		return true
	}
	for other := range servers {
		if alive(other) {
			return false
		}
	}
	return true
}
