package probe

import (
	"context"
	"errors"
	"iter"
	"net"
	"time"

	"radwitness/pkg/health"
)

// errSessionOver ends a probe whose session was closed, or was used on.
var errSessionOver = errors.New("the session is over")

// Session is a probe whose transmissions its caller makes one by one, as a NAS
// does that asks other servers in between. It repeats the same packet from the
// same socket, so that the server knows it for a duplicate (RFC 5080 section
// 2.2.2), and an answer that came too late for one transmission is found by the
// next. It must be closed, and be used by one goroutine at a time.
type Session struct {
	timeout  time.Duration
	deadline time.Time // of the transmission under way
	next     func() (Result, bool)
	stop     func()
}

// Open begins a session. The request's AttemptTimeout is what a transmission
// waits, and its Attempts are not looked at. The session ends with its context.
func (p *Prober) Open(ctx context.Context, r Request) *Session {
	r.Attempts = 1
	s := &Session{timeout: r.AttemptTimeout}
	s.next, s.stop = iter.Pull(func(yield func(Result) bool) {
		res, err := p.transact(ctx, r, func(c *conversation, conn net.Conn) {
			c.exchange = func(t *transaction, _ time.Time) (answer, int, error) {
				return s.exchange(ctx, conn, t, func(err error) bool { return yield(r.judge(Result{}, err)) })
			}
		})
		if !errors.Is(err, errSessionOver) {
			yield(r.judge(res, err))
		}
	})
	return s
}

// Transmit sends the packet, again if it was sent before, and returns what came
// of it within the timeout. A method of several transactions goes on from there,
// and must be over by then: if it is not, the next transmission repeats the
// packet that is not answered yet. After an answer there is nothing to transmit.
func (s *Session) Transmit() Result {
	begin := time.Now()
	s.deadline = begin.Add(s.timeout)
	res, ok := s.next()
	if !ok {
		res = Result{Outcome: health.ProberError, Reason: errSessionOver.Error()}
	}
	res.Duration = time.Since(begin)
	return res
}

// Close frees the socket. It may be called more than once.
func (s *Session) Close() { s.stop() }

// exchange makes one transaction in as many transmissions as the session's user
// asks for. What came of each but the last is handed out by silent, which tells
// whether there will be another one.
func (s *Session) exchange(ctx context.Context, conn net.Conn, t *transaction, silent func(error) bool) (answer, int, error) {
	for sent := 1; ; sent++ {
		a, _, err := t.exchange(ctx, conn, 1, s.timeout, s.deadline)
		if err == nil || outcomeOf(err) == health.ProberError {
			return a, sent, err
		}
		if !silent(err) {
			return answer{}, sent, errSessionOver
		}
	}
}
