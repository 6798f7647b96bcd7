package replay

import (
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

// life is a NAS's, in virtual time. An answer takes no time, as the history does
// not know its latency; so all that waits has waited for as long, and is over in
// the order in which it began.
type life struct {
	world   world
	client  *nas.Client
	over    func(*nas.Login)
	waiting []event
	tests   int
}

// event is the end of the wait for a transmission.
type event struct {
	at      time.Time
	login   *nas.Login // nil for the test of a server
	server  int
	outcome health.Outcome
	wait    time.Duration
}

// live lets the logins begin, spread evenly over the time.
func (l *life) live(from, to time.Time, t Test) {
	every := float64(to.Sub(from)) / float64(t.Logins)
	for i := range t.Logins {
		at := from.Add(time.Duration(float64(i) * every))
		l.until(at)
		user := nas.Nobody
		if t.Users > 0 {
			user = i % t.Users
		}
		l.step(l.client.Begin(user, at), at)
	}
	for len(l.waiting) > 0 {
		l.until(l.waiting[0].at)
	}
}

// until ends the waits that are over by a time.
func (l *life) until(end time.Time) {
	for len(l.waiting) > 0 && !l.waiting[0].at.After(end) {
		e := l.waiting[0]
		l.waiting = l.waiting[1:]
		if e.login == nil {
			l.client.Tested(e.server, e.outcome, e.at)
			continue
		}
		e.login.Heard(e.outcome, e.wait, e.at)
		l.step(e.login, e.at)
	}
}

// step goes on with a login until it waits or is over, and tests what is due.
func (l *life) step(login *nas.Login, now time.Time) {
	for {
		if server, due := l.client.Test(now); due {
			l.test(server, now)
		}
		server, ok := login.Next(now)
		if !ok {
			l.over(login)
			return
		}
		outcome := l.world.answer(flow{login.Number, login.Begun}, server, now)
		wait := l.client.Wait(outcome, 0)
		if wait > 0 {
			l.waiting = append(l.waiting, event{now.Add(wait), login, server, outcome, wait})
			return
		}
		login.Heard(outcome, 0, now)
	}
}

// test asks a server in quarantine.
func (l *life) test(server int, now time.Time) {
	l.tests++
	outcome := l.world.answer(flow{-l.tests, now}, server, now)
	if wait := l.client.Wait(outcome, 0); wait > 0 {
		l.waiting = append(l.waiting, event{now.Add(wait), nil, server, outcome, wait})
		return
	}
	l.client.Tested(server, outcome, now)
}
