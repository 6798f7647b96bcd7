// Package live lets a NAS log users in at real servers, at a given rate, and
// counts what becomes of them.
package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
	"radwitness/pkg/probe"
)

// Name is the name of the view that a test gives.
const Name = "live servers"

// Network leads to the servers of the NAS's list.
type Network interface {
	// Open prepares one login, which is over when the context ends.
	Open(ctx context.Context) Path
}

// Path is what one login sends by. It is used by one goroutine at a time.
type Path interface {
	// Transmit sends the login's request to a server, or sends it again, and
	// returns what came of it within the NAS's timeout.
	Transmit(server int) probe.Result
	Close()
}

// Test is a test to make.
type Test struct {
	Settings    nas.Settings
	Servers     []nas.Server // as the Network numbers them
	Network     Network
	Logins      int
	Rate        float64 // logins that begin in a second
	Outstanding int     // logins at the same time; more have to wait until one is over
	Users       int     // who log in in turn; 0 if nobody comes back
	MaxRejects  int     // in a row, without an accept between them, that end the test; 0 for no limit
	Trace       bool    // keep every transmission
}

// maxFaults is how many logins may fail by this machine's own fault, such as a
// moment in which it was stalled. More end the test.
const maxFaults = 5

// errRejects ends a test that might lock an account.
var errRejects = errors.New("too many rejects in a row")

// Result is what a test found.
type Result struct {
	View  nas.View
	Notes []string // why it is less than was asked for
}

// run is a test under way.
type run struct {
	Test
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	client  *nas.Client
	tally   *nas.Tally
	tests   sync.WaitGroup
	rejects int     // in a row
	faults  []error // of this machine's own
}

// Run makes the test. It ends early with its context, and then reports what is
// over by then. An error is a fault of this machine's: nothing is known of the
// servers by it.
func (t Test) Run(ctx context.Context) (Result, error) {
	client, err := nas.New(t.Settings, len(t.Servers))
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Test: t, cancel: cancel, client: client, tally: nas.NewTally(Name, t.Settings, t.Servers, t.Trace)}
	held := r.logins(ctx)
	cause := context.Cause(ctx)
	cancel(nil) // ends what servers in quarantine are still asked
	r.tests.Wait()

	res := Result{View: r.tally.View(client.Deaths())}
	switch {
	case errors.Is(cause, errRejects) && res.View.Logins == t.Logins:
	case errors.Is(cause, errRejects):
		res.Notes = append(res.Notes, fmt.Sprintf("stopped after %d rejects in a row, so that the account is not locked", t.MaxRejects))
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		res.Notes = append(res.Notes, "interrupted")
	case cause != nil:
		return Result{}, cause
	}
	switch n := len(r.faults); {
	case n > 0 && res.View.Logins == 0:
		return Result{}, r.faults[0]
	case n > 0:
		res.Notes = append(res.Notes, fmt.Sprintf("%d logins are not counted, by a fault of this machine: %v", n, r.faults[0]))
	}
	if held > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%d logins began late, because %d were waiting already", held, t.Outstanding))
	}
	return res, nil
}

// logins makes all logins, and returns how many had to begin late.
func (r *run) logins(ctx context.Context) (held int) {
	var logins sync.WaitGroup
	defer logins.Wait()
	slots := make(chan struct{}, r.Outstanding)
	begin := time.Now()
	for i := range r.Logins {
		due := begin.Add(time.Duration(float64(i) / r.Rate * float64(time.Second)))
		if sleep(ctx, time.Until(due)) != nil {
			return held
		}
		select {
		case slots <- struct{}{}:
		default:
			held++
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return held
			}
		}
		user := nas.Nobody
		if r.Users > 0 {
			user = i % r.Users
		}
		logins.Go(func() {
			defer func() { <-slots }()
			r.login(ctx, user)
		})
	}
	return held
}

// login logs a user in.
func (r *run) login(ctx context.Context, user int) {
	path := r.Network.Open(ctx)
	defer path.Close()
	r.mu.Lock()
	l := r.client.Begin(user, time.Now())
	r.mu.Unlock()
	for {
		server, ok := r.next(ctx, l)
		if !ok {
			return
		}
		res := path.Transmit(server)
		if ctx.Err() != nil {
			return
		}
		if res.Outcome == health.ProberError {
			r.fault(l, fmt.Errorf("sending to %s: %s", r.Servers[server].Name, res.Reason))
			return
		}
		wait := r.client.Wait(res.Outcome, res.Duration)
		if sleep(ctx, wait-res.Duration) != nil {
			return
		}
		r.mu.Lock()
		l.Heard(res.Outcome, wait, time.Now())
		r.mu.Unlock()
	}
}

// fault gives up a login by this machine's own fault. It is not counted.
func (r *run) fault(l *nas.Login, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Heard(health.ProberError, 0, time.Now())
	if r.faults = append(r.faults, err); len(r.faults) > maxFaults {
		r.cancel(err)
	}
}

// next picks the server of the login's next transmission, or counts the login
// if it is over. On the way it tests servers that are due for it.
func (r *run) next(ctx context.Context, l *nas.Login) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if server, due := r.client.Test(time.Now()); due {
		r.tests.Go(func() { r.test(ctx, server) })
	}
	server, ok := l.Next(time.Now())
	if !ok {
		r.tally.Add(l)
		r.countRejects(l)
	}
	return server, ok
}

// test asks a server in quarantine.
func (r *run) test(ctx context.Context, server int) {
	path := r.Network.Open(ctx)
	defer path.Close()
	res := path.Transmit(server)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client.Tested(server, res.Outcome, time.Now())
}

// countRejects ends the test after too many logins in a row that were rejected.
func (r *run) countRejects(l *nas.Login) {
	switch l.Transmissions[len(l.Transmissions)-1].Outcome {
	case health.Reject:
		r.rejects++
	case health.Accept:
		r.rejects = 0
	}
	if r.MaxRejects > 0 && r.rejects >= r.MaxRejects {
		r.cancel(errRejects)
	}
}

// sleep waits, or returns why the context ended before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
