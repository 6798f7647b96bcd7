package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"layeh.com/radius"

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

// exchange sends the request up to attempts times over a connected socket and
// returns the first valid answer, whichever transmission it is for. Each
// transmission is the same datagram, and has timeout until the next one; the
// whole takes no longer than attempts times timeout, whatever arrives. Bad
// answers are remembered and reported if no good one comes.
//
// The socket is closed when the context ends. The result has what is known at
// the end of the exchange, with an error or without.
func (t *transaction) exchange(ctx context.Context, conn net.Conn, attempts int, timeout time.Duration) (Result, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	var res Result
	var refusal error
	datagram := make([]byte, radius.MaxPacketLength) // what is beyond it can only be padding
	begin := time.Now()
	for attempt := range attempts {
		if _, err := conn.Write(t.wire); err != nil {
			return res, sendingError(ctx, err)
		}
		res.Transmissions++
		if err := conn.SetReadDeadline(begin.Add(time.Duration(attempt+1) * timeout)); err != nil {
			return res, ownError(ctx, "setting the read deadline", err)
		}
		for {
			n, err := conn.Read(datagram)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return res, receivingError(ctx, err)
			}
			a, err := t.read(datagram[:n])
			if err == nil {
				res.Latency = time.Since(begin)
				res.Outcome = a.outcome
				res.ReplyMessage = a.replyMessage
				res.MessageAuthenticator = a.messageAuthenticator
				return res, nil
			}
			refusal = graver(refusal, err)
		}
	}
	budget := time.Duration(attempts) * timeout
	switch late := time.Since(begin) - budget; {
	case late > stallLimit:
		return res, fmt.Errorf("the prober was stalled for %v", late.Round(time.Millisecond))
	case refusal != nil:
		return res, refusal
	}
	return res, fmt.Errorf("%w within %v", errNoAnswer, budget)
}

// graver picks the refusal to report. One with a wrong authenticator tells
// more than one that does not parse, and the newest tells most.
func graver(old, fresh error) error {
	if outcomeOf(old) == health.BadAuthenticator && outcomeOf(fresh) != health.BadAuthenticator {
		return old
	}
	return fresh
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
		errors.Is(err, errMessageAuthenticatorMissing):
		return health.BadAuthenticator
	case errors.Is(err, errShort),
		errors.Is(err, errLength),
		errors.Is(err, errIdentifier),
		errors.Is(err, errCode),
		errors.Is(err, errAttribute),
		errors.Is(err, errMessageAuthenticatorForm):
		return health.Malformed
	}
	return health.ProberError
}

// sendingError explains a failed transmission. The socket may hand over the
// ICMP error of an earlier one here, and only "port unreachable" is certainly
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
	return err
}
