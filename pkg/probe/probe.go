// Package probe asks a RADIUS server once, by one of several methods, and says
// what came of it. It knows RADIUS and nothing of AWS.
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

// Request is one probe to make.
type Request struct {
	Server                   netip.AddrPort
	Method                   fleet.Method
	AttemptTimeout           time.Duration              // wait after each transmission
	Attempts                 int                        // transmissions of the same packet, at least 1
	MessageAuthenticator     fleet.MessageAuthenticator // empty means auto
	MessageAuthenticatorSeen bool                       // an earlier answer of this server carried one
	NASIdentifier            string
	Attributes               []fleet.Attribute // to add to every packet
	Certificate              CertificatePolicy // of the TLS methods
	Credentials              Credentials
}

// budget is the longest that the transactions of the probe may take together.
func (r Request) budget() time.Duration {
	return time.Duration(r.Attempts) * r.AttemptTimeout
}

// Result is what came of a probe.
type Result struct {
	Outcome              health.Outcome
	Reason               string        // why, in a few words; empty for an answer that needs no explanation
	Latency              time.Duration // first transmission to the last valid answer; 0 without one
	Duration             time.Duration // of the whole probe
	Transactions         int           // requests that were made; the methods with one answer make one
	Transmissions        int           // datagrams sent
	ReplyMessage         string        // printable text of the answer's Reply-Message, at most 253 bytes
	MessageAuthenticator bool          // the answer carried a valid Message-Authenticator
	Certificate          Certificate   // zero unless the server showed one
}

// Prober makes probes. The zero value is ready to use, and any number of
// probes may run at the same time.
type Prober struct {
	Dialer net.Dialer // opens the sockets
}

// Probe makes one probe: a transaction, or as many as the method takes. It returns within the request's budget of
// Attempts times AttemptTimeout, or at once when ctx ends. An end of ctx within
// the budget is the prober's own error, so give it longer than that.
//
// If bad answers came and no good one, the outcome is BadAuthenticator if one of
// them had a wrong authenticator, else Malformed; the reason is that of the last
// such answer.
func (p *Prober) Probe(ctx context.Context, r Request) Result {
	begin := time.Now()
	res := r.judge(p.transact(ctx, r, nil))
	res.Duration = time.Since(begin)
	return res
}

// judge adds what an error makes of a result.
func (r Request) judge(res Result, err error) Result {
	if err != nil {
		res.Outcome = outcomeOf(err)
		res.Reason = r.Credentials.redact(err.Error())
	}
	return res
}

// transact opens a socket and has the method's conversation over it. prepare, if
// there is one, may change how the conversation makes its transactions.
func (p *Prober) transact(ctx context.Context, r Request, prepare func(*conversation, net.Conn)) (Result, error) {
	if err := r.check(); err != nil {
		return Result{}, err
	}
	ask, err := methodOf(r.Method)
	if err != nil {
		return Result{}, err
	}
	conn, err := p.Dialer.DialUDP(ctx, "udp", netip.AddrPort{}, r.Server)
	if err != nil {
		return Result{}, ownError(ctx, "opening a socket", err)
	}
	defer func() { _ = conn.Close() }()
	c := converse(ctx, conn, r, conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr())
	if prepare != nil {
		prepare(c, conn)
	}
	c.result.Outcome, err = ask(c)
	return c.result, err
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
