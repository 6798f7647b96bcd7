// Package nas behaves as the RADIUS client of a network access server (NAS)
// does: which server it asks first, how long it waits, whom it asks next, and
// what becomes of the user if nobody answers. It is pure: it has no socket and
// no clock but the times that are passed in, so that the same code asks live
// servers and lives through a recorded outage.
//
// Two vendors' ways are known. Where their documents leave something open, the
// comment of the strategy says what was chosen.
package nas

import (
	"errors"
	"fmt"
	"time"

	"radwitness/pkg/health"
)

// Strategy is a way of choosing servers.
type Strategy string

// The strategies.
const (
	Strict           Strategy = "strict"            // Meraki's strict priority order: the list from its top, each time
	RoundRobin       Strategy = "round-robin"       // Meraki's round robin: each login begins one further down the list
	LeastOutstanding Strategy = "least-outstanding" // Cisco IOS's load balancing, with its dead and quarantined servers
)

// Strategies lists every strategy.
func Strategies() []Strategy { return []Strategy{Strict, RoundRobin, LeastOutstanding} }

// Settings are what is configured on a NAS.
type Settings struct {
	Strategy Strategy
	Timeout  time.Duration // wait for an answer to one transmission
	Retries  int           // more rounds over the list; of LeastOutstanding, retransmissions to the same server

	// Of LeastOutstanding only.
	Batch           int           // logins in a row that a server is given
	IgnorePreferred bool          // do not send a user back to the server that answered it last
	DeadAfter       int           // retransmissions in a row without an answer that make a server dead
	DeadSilence     time.Duration // since its last answer, without which it is not dead either
	DeadTime        time.Duration // for which a dead server is not asked; 0 means that none is ever dead
}

// Check tells what cannot work.
func (s Settings) Check() error {
	switch s.Strategy {
	case Strict, RoundRobin, LeastOutstanding:
	default:
		return fmt.Errorf("strategy %q is not one of %v", s.Strategy, Strategies())
	}
	switch {
	case s.Timeout <= 0:
		return errors.New("the timeout must be positive")
	case s.Retries < 0:
		return errors.New("the number of retries must not be negative")
	case s.Strategy != LeastOutstanding:
		return nil
	case s.Batch < 1:
		return errors.New("the batch must be of at least 1")
	case s.DeadAfter < 1:
		return errors.New("a server cannot be dead after less than 1 retransmission")
	case s.DeadSilence < 0, s.DeadTime < 0:
		return errors.New("the times of dead servers must not be negative")
	}
	return nil
}

// Transmissions is the most that a login can make with so many servers.
func (s Settings) Transmissions(servers int) int { return (1 + s.Retries) * servers }

// WorstWait is the longest that a login can take with so many servers: each of
// its transmissions is waited for in vain.
func (s Settings) WorstWait(servers int) time.Duration {
	return time.Duration(s.Transmissions(servers)) * s.Timeout
}

// Heard is what a NAS makes of an outcome.
type Heard int

// What a NAS can hear.
const (
	Silence     Heard = iota // nothing, or nothing that it believes
	Unreachable              // an ICMP error
	Answer                   // a valid answer, which may be a reject
)

// Hears tells what a NAS hears where a probe has the outcome. An answer that does
// not verify is discarded (RFC 2865 section 3). A bad certificate concerns the
// user's device, which refuses it after the server has answered.
func Hears(o health.Outcome) Heard {
	switch o {
	case health.Accept, health.Reject, health.Challenge, health.Alive, health.BadCertificate:
		return Answer
	case health.Refused:
		return Unreachable
	}
	return Silence
}

// Client is a NAS with its list of servers, which are numbered from 0. It may be
// used by one goroutine at a time.
type Client struct {
	settings Settings
	servers  int
	logins   int
	policy   policy
	balancer *balancer // the policy, of LeastOutstanding only
}

// policy is what the strategies differ in.
type policy interface {
	// next picks the server of a login's next transmission; false if it is over.
	next(l *Login, now time.Time) (server int, ok bool)
	// heard takes in what came of a login's newest transmission.
	heard(l *Login, h Heard, now time.Time)
	// heedsICMP tells whether an ICMP error ends the wait for an answer.
	heedsICMP() bool
}

// New makes a NAS with so many servers.
func New(s Settings, servers int) (*Client, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if servers < 1 {
		return nil, errors.New("a NAS needs at least one server")
	}
	c := &Client{settings: s, servers: servers}
	if s.Strategy == LeastOutstanding {
		c.balancer = newBalancer(s, servers)
		c.policy = c.balancer
	} else {
		c.policy = list{rotate: s.Strategy == RoundRobin, rounds: 1 + s.Retries, servers: servers}
	}
	return c, nil
}

// Wait is how long a login waits for a transmission that had the outcome after
// the given time.
func (c *Client) Wait(o health.Outcome, took time.Duration) time.Duration {
	switch h := Hears(o); {
	case h == Answer, h == Unreachable && c.policy.heedsICMP():
		return min(took, c.settings.Timeout)
	}
	return c.settings.Timeout
}

// Test returns a server that has to be tested before it gets logins again, if
// there is one now. Whoever asks must send it a request and call Tested.
func (c *Client) Test(now time.Time) (server int, ok bool) {
	if c.balancer == nil {
		return 0, false
	}
	return c.balancer.test(now)
}

// Tested takes in what came of the test of a server that Test has returned.
func (c *Client) Tested(server int, o health.Outcome, now time.Time) {
	c.balancer.tested(server, Hears(o), now)
}

// Deaths is how often each server has become dead; nil if none ever does.
func (c *Client) Deaths() []int {
	if c.balancer == nil {
		return nil
	}
	deaths := make([]int, c.servers)
	for i, s := range c.balancer.servers {
		deaths[i] = s.deaths
	}
	return deaths
}

// Login is one user's authentication.
type Login struct {
	Number        int // from 0, in the order in which logins began
	User          int // as told to Begin
	Begun         time.Time
	Transmissions []Transmission

	client *Client
	sent   []int // transmissions so far, by server
}

// Transmission is one packet of a login, and what came of it.
type Transmission struct {
	Server  int
	At      time.Time
	Outcome health.Outcome // empty while it is under way
	Wait    time.Duration
}

// Nobody is a user who does not come back.
const Nobody = -1

// Begin begins the login of a user, who may have logged in before.
func (c *Client) Begin(user int, now time.Time) *Login {
	l := &Login{Number: c.logins, User: user, Begun: now, client: c, sent: make([]int, c.servers)}
	c.logins++
	return l
}

// Next picks the server to send to now; false once the login is over. What
// comes of it must be told by Heard before Next is called again.
func (l *Login) Next(now time.Time) (server int, ok bool) {
	if l.Answered() {
		return 0, false
	}
	server, ok = l.client.policy.next(l, now)
	if ok {
		l.sent[server]++
		l.Transmissions = append(l.Transmissions, Transmission{Server: server, At: now})
	}
	return server, ok
}

// Heard takes in what came of the newest transmission, and how long the login
// has waited for it: what Wait says.
func (l *Login) Heard(o health.Outcome, wait time.Duration, now time.Time) {
	newest := &l.Transmissions[len(l.Transmissions)-1]
	newest.Outcome, newest.Wait = o, wait
	l.client.policy.heard(l, Hears(o), now)
}

// newest is the newest transmission; false before the first.
func (l *Login) newest() (Transmission, bool) {
	if len(l.Transmissions) == 0 {
		return Transmission{}, false
	}
	return l.Transmissions[len(l.Transmissions)-1], true
}

// Answered tells whether a server has answered.
func (l *Login) Answered() bool {
	t, ok := l.newest()
	return ok && Hears(t.Outcome) == Answer
}

// Waited is how long the user has waited so far.
func (l *Login) Waited() time.Duration {
	var sum time.Duration
	for _, t := range l.Transmissions {
		sum += t.Wait
	}
	return sum
}
