package probe

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"layeh.com/radius"

	"radwitness/pkg/probe/transport"
)

// question is one request, and the codes of the answers that fit it.
type question struct {
	code radius.Code
	fits []radius.Code
	// fill adds the method's own attributes. The identifier, the authenticator
	// and the secret are already there; what every request carries is added after.
	fill func(*radius.Packet) error
}

// conversation is the transactions of one probe. They share a way to the server
// and a budget: each may repeat its packet like any other, but the last answer must be
// there within the budget of the first.
type conversation struct {
	request Request
	signer  *signer
	local   netip.Addr
	begin   time.Time // of the first transaction; zero before it

	// identify begins a transaction and returns its identifier.
	identify func() (byte, error)
	// exchange makes the transaction on the wire and counts its transmissions.
	exchange func(t *transaction, end time.Time) (answer, int, error)

	result Result // what is known so far
}

// converse begins a conversation.
func converse(ctx context.Context, conn transport.Conn, r Request, s *signer) *conversation {
	c := &conversation{request: r, signer: s, local: conn.Local(), identify: conn.Begin}
	c.exchange = func(t *transaction, end time.Time) (answer, int, error) {
		return t.exchange(ctx, conn, c.request.Attempts, c.request.AttemptTimeout, end)
	}
	return c
}

// ask makes one transaction and returns the authentic answer to it.
func (c *conversation) ask(q question) (answer, error) {
	identifier, err := c.identify()
	if err != nil {
		return answer{}, fmt.Errorf("beginning a transaction: %w", cause(err))
	}
	t, err := newTransaction(c.request, q, c.signer, identifier, c.local)
	if err != nil {
		return answer{}, err
	}
	if c.begin.IsZero() {
		c.begin = time.Now()
	}
	a, transmissions, err := c.exchange(t, c.begin.Add(c.request.budget()))
	if transmissions > 0 {
		c.result.Transactions++
		c.result.Transmissions += transmissions
	}
	if err != nil {
		c.result.Latency = 0
		return answer{}, err
	}
	c.result.Latency = time.Since(c.begin)
	if text := a.text(); len(text) > 0 {
		c.result.ReplyMessage = printable([]byte(c.request.Credentials.redact(string(text))))
	}
	c.result.MessageAuthenticator = a.messageAuthenticator
	return a, nil
}
