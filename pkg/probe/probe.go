// Package probe asks a RADIUS server once, by one of several methods, and says
// what came of it. It knows RADIUS and nothing of AWS.
//
// It differs from a RADIUS client in what it is asked: not "may this user log
// in" but "does this server answer, and if it does not, why". So it keeps the
// reason of every bad answer, reports ICMP errors, and never gives up on a
// transaction because of one bad datagram.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe/transport"
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

// Transport opens ways to servers.
type Transport interface {
	Open(ctx context.Context, server netip.AddrPort) (transport.Conn, error)
	Close() error
}

// Prober makes probes. The zero value is ready to use, and any number of
// probes may run at the same time.
type Prober struct {
	Transport Transport // nil means the best one for this operating system

	setup   sync.Once
	signers sync.Pool // of *signer
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

// Close gives up what is kept between probes. No probe may be under way.
func (p *Prober) Close() error { return p.transport().Close() }

func (p *Prober) transport() Transport {
	p.setup.Do(func() {
		if p.Transport == nil {
			p.Transport = newTransport()
		}
	})
	return p.Transport
}

// transact has the method's conversation with the server. prepare, if there is
// one, may change how the conversation makes its transactions.
func (p *Prober) transact(ctx context.Context, r Request, prepare func(*conversation, conn)) (Result, error) {
	if err := r.check(); err != nil {
		return Result{}, err
	}
	ask, err := methodOf(r.Method)
	if err != nil {
		return Result{}, err
	}
	conn, err := p.transport().Open(ctx, r.Server)
	if err != nil {
		return Result{}, ownError(ctx, "opening a socket", err)
	}
	defer conn.Close()
	s := p.signer(r.Credentials.SharedSecret)
	defer p.signers.Put(s)
	c := converse(ctx, conn, r, s)
	if prepare != nil {
		prepare(c, conn)
	}
	c.result.Outcome, err = ask(c)
	return c.result, err
}

// signer returns one that no probe uses. Most fleets have one secret.
func (p *Prober) signer(secret Secret) *signer {
	if s, ok := p.signers.Get().(*signer); ok && bytes.Equal(s.secret, secret) {
		return s
	}
	return newSigner(secret)
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
