package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"radwitness/pkg/health"
)

// The ways in which an exchange ends without an answer, bad or good.
var (
	errNoAnswer    = errors.New("no answer")
	errUnreachable = errors.New("ICMP unreachable")
)

// stallLimit is how late the end of the budget may be noticed. A prober that
// was stopped for longer cannot say that the server was silent.
const stallLimit = time.Second

// conn is what an exchange needs of a transport.Conn.
type conn interface {
	Send(request []byte) error
	Receive(ctx context.Context, deadline time.Time) ([]byte, error)
}

// exchange sends the request up to attempts times and returns the first valid
// answer, whichever transmission it is for, and the number of transmissions. Each
// transmission is the same datagram, and has timeout until the next one; the whole
// is over after attempts times timeout, and at the given end, whatever arrives.
// Bad answers are remembered and reported if no good one comes, as is an ICMP
// error that the next transmission may not meet any more.
func (t *transaction) exchange(ctx context.Context, c conn, attempts int, timeout time.Duration, end time.Time) (answer, int, error) {
	var refusal error
	begin := time.Now()
	if last := begin.Add(time.Duration(attempts) * timeout); last.Before(end) {
		end = last
	}
	sent := 0
	for next := begin; sent == 0 || sent < attempts && next.Before(end); {
		if err := c.Send(t.wire); err != nil {
			return answer{}, sent, sendingError(ctx, err)
		}
		sent++
		if next = begin.Add(time.Duration(sent) * timeout); next.After(end) {
			next = end
		}
		for {
			datagram, err := c.Receive(ctx, next)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if passing(err) {
				refusal = graver(refusal, receivingError(ctx, err))
				continue
			}
			if err != nil {
				return answer{}, sent, receivingError(ctx, err)
			}
			a, err := t.read(datagram)
			if err == nil {
				return a, sent, nil
			}
			refusal = graver(refusal, err)
		}
	}
	switch late := time.Since(end); {
	case late > stallLimit:
		return answer{}, sent, fmt.Errorf("the prober was stalled for %v", late.Round(time.Millisecond))
	case refusal != nil:
		return answer{}, sent, refusal
	}
	return answer{}, sent, fmt.Errorf("%w within %v", errNoAnswer, end.Sub(begin).Round(time.Millisecond))
}

// graver picks the refusal to report. One with a wrong authenticator tells
// more than one that does not parse, that more than "unreachable", and the newest
// tells most.
func graver(old, fresh error) error {
	order := []health.Outcome{health.Refused, health.Malformed, health.BadAuthenticator}
	if old != nil && slices.Index(order, outcomeOf(old)) > slices.Index(order, outcomeOf(fresh)) {
		return old
	}
	return fresh
}

// passing tells of an ICMP error that a change of routes may have caused: a hint,
// and no proof, that the server cannot be reached (RFC 1122 section 3.2.2.1).
func passing(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// outcomeOf is the one place that says what an error makes of a probe. An
// error that it does not know is the prober's own: unknown never means dead.
func outcomeOf(err error) health.Outcome {
	switch {
	case errors.Is(err, errNoAnswer):
		return health.Timeout
	case errors.Is(err, errUnreachable):
		return health.Refused
	case errors.Is(err, errResponseAuthenticator),
		errors.Is(err, errMessageAuthenticator),
		errors.Is(err, errMessageAuthenticatorMissing),
		errors.Is(err, errImpostor):
		return health.BadAuthenticator
	case errors.Is(err, errCertificate):
		return health.BadCertificate
	case errors.Is(err, errShort),
		errors.Is(err, errLength),
		errors.Is(err, errIdentifier),
		errors.Is(err, errCode),
		errors.Is(err, errAttribute),
		errors.Is(err, errMessageAuthenticatorForm),
		errors.Is(err, errEAP),
		errors.Is(err, errTLS):
		return health.Malformed
	}
	return health.ProberError
}

// sendingError explains a failed transmission. A connected socket may hand over
// the ICMP error of an earlier one here, and only "port unreachable" is certainly
// that: the others are also what a host without a route says to itself.
func sendingError(ctx context.Context, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", errUnreachable, cause(err))
	}
	return ownError(ctx, "sending the request", err)
}

// receivingError explains a failed read. After a transmission that went out,
// "unreachable" comes from the network, by ICMP.
func receivingError(ctx context.Context, err error) error {
	for _, icmp := range []error{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENOPROTOOPT,
	} {
		if errors.Is(err, icmp) {
			return fmt.Errorf("%w: %w", errUnreachable, cause(err))
		}
	}
	return ownError(ctx, "waiting for an answer", err)
}

// ownError explains a fault of the prober's own. If the context has ended,
// that is why.
func ownError(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", doing, cause(err))
}

// cause strips an error of the socket's addresses, whose port is another one
// each time, so that the same fault always reads the same.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if errors.Is(err, net.ErrClosed) {
		return net.ErrClosed
	}
	return err
}
