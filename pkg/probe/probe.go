// Package probe makes one RADIUS transaction and says what came of it. It
// knows RADIUS and nothing of AWS.
//
// It differs from a RADIUS client in what it is asked: not "may this user log
// in" but "does this server answer, and if it does not, why". So it keeps the
// reason of every bad answer, reports ICMP errors, and never gives up on a
// transaction because of one bad datagram.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// Request is one transaction to make.
type Request struct {
	Server                   netip.AddrPort
	Method                   fleet.Method
	AttemptTimeout           time.Duration              // wait after each transmission
	Attempts                 int                        // transmissions of the same packet, at least 1
	MessageAuthenticator     fleet.MessageAuthenticator // empty means auto
	MessageAuthenticatorSeen bool                       // an earlier answer of this server carried one
	NASIdentifier            string
	Credentials              Credentials
}

// Result is what came of a transaction.
type Result struct {
	Outcome              health.Outcome
	Reason               string        // why, in a few words; empty for an answer that needs no explanation
	Latency              time.Duration // first transmission to valid answer; 0 without one
	Duration             time.Duration // of the whole probe
	Transmissions        int           // datagrams sent
	ReplyMessage         string        // printable text of the answer's Reply-Message, at most 253 bytes
	MessageAuthenticator bool          // the answer carried a valid Message-Authenticator
}

// Prober makes probes. The zero value is ready to use, and any number of
// probes may run at the same time.
type Prober struct {
	Dialer net.Dialer // opens the sockets
}

// Probe makes one transaction. It returns within the request's budget of
// Attempts times AttemptTimeout, or at once when ctx ends. An end of ctx within
// the budget is the prober's own error, so give it longer than that.
//
// If bad answers came and no good one, the outcome is BadAuthenticator if one of
// them had a wrong authenticator, else Malformed; the reason is that of the last
// such answer.
func (p *Prober) Probe(ctx context.Context, r Request) Result {
	begin := time.Now()
	res, err := p.transact(ctx, r)
	if err != nil {
		res.Outcome = outcomeOf(err)
		res.Reason = err.Error()
	}
	res.Duration = time.Since(begin)
	return res
}

// transact opens a socket, encodes the request and exchanges it.
func (p *Prober) transact(ctx context.Context, r Request) (Result, error) {
	if err := r.check(); err != nil {
		return Result{}, err
	}
	conn, err := p.Dialer.DialUDP(ctx, "udp", netip.AddrPort{}, r.Server)
	if err != nil {
		return Result{}, ownError(ctx, "opening a socket", err)
	}
	defer func() { _ = conn.Close() }()
	t, err := newTransaction(r, conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr())
	if err != nil {
		return Result{}, err
	}
	return t.exchange(ctx, conn, r.Attempts, r.AttemptTimeout)
}

// check refuses what cannot be probed, before a socket is opened.
func (r Request) check() error {
	switch {
	case !r.Server.IsValid(), r.Server.Port() == 0:
		return errors.New("server has no address or no port")
	case r.Attempts < 1:
		return errors.New("attempts is less than 1")
	case r.AttemptTimeout <= 0:
		return errors.New("attempt timeout is not positive")
	}
	switch r.MessageAuthenticator {
	case "", fleet.MessageAuthenticatorAuto, fleet.MessageAuthenticatorRequired, fleet.MessageAuthenticatorOff:
		return nil
	}
	return fmt.Errorf("unknown Message-Authenticator policy %q", r.MessageAuthenticator)
}
