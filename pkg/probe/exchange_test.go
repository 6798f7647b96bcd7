package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"layeh.com/radius"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// socket is a conn without a network, for use in a synctest bubble: what happens
// on it is scheduled on the bubble's clock.
type socket struct {
	begin  time.Time
	inbox  chan arrival
	sent   [][]byte
	sentAt []time.Duration // since begin

	oversleep  time.Duration // by which a receiver notices its deadline too late
	writeErr   error         // of the transmission with the number writeErrAt, from 1
	writeErrAt int
}

// arrival is what Receive returns once.
type arrival struct {
	datagram []byte
	err      error
}

func newSocket() *socket {
	return &socket{begin: time.Now(), inbox: make(chan arrival, 4096)}
}

// arrives schedules an arrival, counted from the start.
func (s *socket) arrives(after time.Duration, datagram []byte, err error) {
	time.AfterFunc(after, func() { s.inbox <- arrival{datagram, err} })
}

func (s *socket) Send(b []byte) error {
	if s.writeErr != nil && len(s.sent)+1 == s.writeErrAt {
		return &net.OpError{Op: "write", Net: "udp", Err: os.NewSyscallError("write", s.writeErr)}
	}
	s.sent = append(s.sent, bytes.Clone(b))
	s.sentAt = append(s.sentAt, time.Since(s.begin))
	return nil
}

func (s *socket) Receive(ctx context.Context, deadline time.Time) ([]byte, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		if len(s.sent) == 3 {
			time.Sleep(s.oversleep)
		}
		return nil, os.ErrDeadlineExceeded
	case a := <-s.inbox:
		if a.err != nil {
			return nil, &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("read", a.err)}
		}
		return a.datagram, nil
	}
}

// spoil is an answer with a wrong Response Authenticator.
func spoil(answer []byte) []byte {
	answer = bytes.Clone(answer)
	answer[4] ^= 1
	return answer
}

// Three transmissions with a second for each: sent at 0, 1 and 2 s, over at 3 s.
func TestExchange(t *testing.T) {
	const second = time.Second
	junk := []byte("\xde\xad\xbe")
	tests := []struct {
		name          string
		schedule      func(s *socket, accept, reject []byte)
		outcome       health.Outcome
		reason        string
		latency       time.Duration
		transmissions int
		ends          time.Duration // when the exchange is over
	}{
		{
			name:     "answered at once",
			schedule: func(s *socket, accept, _ []byte) { s.arrives(3*time.Millisecond, accept, nil) },
			outcome:  health.Accept, latency: 3 * time.Millisecond, transmissions: 1, ends: 3 * time.Millisecond,
		},
		{
			name:     "just before the first retransmission",
			schedule: func(s *socket, accept, _ []byte) { s.arrives(999*time.Millisecond, accept, nil) },
			outcome:  health.Accept, latency: 999 * time.Millisecond, transmissions: 1, ends: 999 * time.Millisecond,
		},
		{ // F11: the reject delay of FreeRADIUS is one second
			name:     "just after it",
			schedule: func(s *socket, _, reject []byte) { s.arrives(1001*time.Millisecond, reject, nil) },
			outcome:  health.Reject, latency: 1001 * time.Millisecond, transmissions: 2, ends: 1001 * time.Millisecond,
		},
		{ // F11
			name:     "late",
			schedule: func(s *socket, accept, _ []byte) { s.arrives(2400*time.Millisecond, accept, nil) },
			outcome:  health.Accept, latency: 2400 * time.Millisecond, transmissions: 3, ends: 2400 * time.Millisecond,
		},
		{
			name:     "just before the end",
			schedule: func(s *socket, accept, _ []byte) { s.arrives(2999*time.Millisecond, accept, nil) },
			outcome:  health.Accept, latency: 2999 * time.Millisecond, transmissions: 3, ends: 2999 * time.Millisecond,
		},
		{
			name:     "just after the end",
			schedule: func(s *socket, accept, _ []byte) { s.arrives(3001*time.Millisecond, accept, nil) },
			outcome:  health.Timeout, reason: "no answer within 3s", transmissions: 3, ends: 3 * second,
		},
		{
			name:     "silence",
			schedule: func(*socket, []byte, []byte) {},
			outcome:  health.Timeout, reason: "no answer within 3s", transmissions: 3, ends: 3 * second,
		},
		{ // the answers of all transmissions may arrive
			name: "first answer wins",
			schedule: func(s *socket, accept, reject []byte) {
				s.arrives(1500*time.Millisecond, reject, nil)
				s.arrives(1501*time.Millisecond, accept, nil)
			},
			outcome: health.Reject, latency: 1500 * time.Millisecond, transmissions: 2, ends: 1500 * time.Millisecond,
		},
		{ // F02
			name: "junk, then an answer",
			schedule: func(s *socket, accept, _ []byte) {
				s.arrives(1*time.Millisecond, junk, nil)
				s.arrives(2*time.Millisecond, nil, nil)
				s.arrives(3*time.Millisecond, accept[:20], nil)
				s.arrives(4*time.Millisecond, spoil(accept), nil)
				s.arrives(5*time.Millisecond, accept, nil)
			},
			outcome: health.Accept, latency: 5 * time.Millisecond, transmissions: 1, ends: 5 * time.Millisecond,
		},
		{ // F02
			name:     "wrong secret",
			schedule: func(s *socket, _, reject []byte) { s.arrives(second/2, spoil(reject), nil) },
			outcome:  health.BadAuthenticator, reason: errResponseAuthenticator.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name:     "only junk",
			schedule: func(s *socket, _, _ []byte) { s.arrives(second/2, junk, nil) },
			outcome:  health.Malformed, reason: errShort.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name: "junk, the last reason counts",
			schedule: func(s *socket, accept, _ []byte) {
				s.arrives(1*second, junk, nil)
				s.arrives(2*second, accept[:20], nil)
			},
			outcome: health.Malformed, reason: errLength.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name: "wrong secret, then junk",
			schedule: func(s *socket, accept, _ []byte) {
				s.arrives(1*time.Millisecond, spoil(accept), nil)
				s.arrives(2*time.Millisecond, junk, nil)
			},
			outcome: health.BadAuthenticator, reason: errResponseAuthenticator.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name: "junk, then wrong secret",
			schedule: func(s *socket, accept, _ []byte) {
				s.arrives(1*time.Millisecond, junk, nil)
				s.arrives(2*time.Millisecond, spoil(accept), nil)
			},
			outcome: health.BadAuthenticator, reason: errResponseAuthenticator.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name: "a flood of junk does not move the end",
			schedule: func(s *socket, _, _ []byte) {
				for at := time.Duration(0); at < 4*second; at += 2 * time.Millisecond {
					s.arrives(at+time.Microsecond, junk, nil)
				}
			},
			outcome: health.Malformed, reason: errShort.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name:     "port unreachable",
			schedule: func(s *socket, _, _ []byte) { s.arrives(time.Millisecond, nil, syscall.ECONNREFUSED) },
			outcome:  health.Refused, reason: "ICMP unreachable: connection refused", transmissions: 1, ends: time.Millisecond,
		},
		{
			name:     "host unreachable",
			schedule: func(s *socket, _, _ []byte) { s.arrives(1500*time.Millisecond, nil, syscall.EHOSTUNREACH) },
			outcome:  health.Refused, reason: "ICMP unreachable: no route to host", transmissions: 3, ends: 3 * second,
		},
		{
			name:     "network unreachable",
			schedule: func(s *socket, _, _ []byte) { s.arrives(time.Millisecond, nil, syscall.ENETUNREACH) },
			outcome:  health.Refused, reason: "ICMP unreachable: network is unreachable", transmissions: 3, ends: 3 * second,
		},
		{ // a route that changes is no reason to fail a server
			name: "host and network unreachable, then an answer",
			schedule: func(s *socket, accept, _ []byte) {
				s.arrives(time.Millisecond, nil, syscall.EHOSTUNREACH)
				s.arrives(1001*time.Millisecond, nil, syscall.ENETUNREACH)
				s.arrives(2003*time.Millisecond, accept, nil)
			},
			outcome: health.Accept, latency: 2003 * time.Millisecond, transmissions: 3, ends: 2003 * time.Millisecond,
		},
		{ // a server that answers, if badly, was reached
			name: "junk, then host unreachable",
			schedule: func(s *socket, _, _ []byte) {
				s.arrives(time.Millisecond, junk, nil)
				s.arrives(1001*time.Millisecond, nil, syscall.EHOSTUNREACH)
			},
			outcome: health.Malformed, reason: errShort.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name: "host unreachable, then junk",
			schedule: func(s *socket, _, _ []byte) {
				s.arrives(time.Millisecond, nil, syscall.EHOSTUNREACH)
				s.arrives(1001*time.Millisecond, junk, nil)
			},
			outcome: health.Malformed, reason: errShort.Error(), transmissions: 3, ends: 3 * second,
		},
		{
			name: "host unreachable, then port unreachable",
			schedule: func(s *socket, _, _ []byte) {
				s.arrives(time.Millisecond, nil, syscall.EHOSTUNREACH)
				s.arrives(1001*time.Millisecond, nil, syscall.ECONNREFUSED)
			},
			outcome: health.Refused, reason: "ICMP unreachable: connection refused", transmissions: 2, ends: 1001 * time.Millisecond,
		},
		{
			name:     "host down",
			schedule: func(s *socket, _, _ []byte) { s.arrives(time.Millisecond, nil, syscall.EHOSTDOWN) },
			outcome:  health.Refused, reason: "ICMP unreachable: host is down", transmissions: 1, ends: time.Millisecond,
		},
		{
			name:     "protocol unreachable",
			schedule: func(s *socket, _, _ []byte) { s.arrives(time.Millisecond, nil, syscall.ENOPROTOOPT) },
			outcome:  health.Refused, reason: "ICMP unreachable: protocol not available", transmissions: 1, ends: time.Millisecond,
		},
		{ // junk before it is no reason to go on
			name: "junk, then port unreachable",
			schedule: func(s *socket, _, _ []byte) {
				s.arrives(time.Millisecond, junk, nil)
				s.arrives(2*time.Millisecond, nil, syscall.ECONNREFUSED)
			},
			outcome: health.Refused, reason: "ICMP unreachable: connection refused", transmissions: 1, ends: 2 * time.Millisecond,
		},
		{
			name:     "any other error of a read",
			schedule: func(s *socket, _, _ []byte) { s.arrives(time.Millisecond, nil, syscall.ENOBUFS) },
			outcome:  health.ProberError, reason: "waiting for an answer: no buffer space available", transmissions: 1, ends: time.Millisecond,
		},
		{
			name:     "no route for the first transmission",
			schedule: func(s *socket, _, _ []byte) { s.writeErr, s.writeErrAt = syscall.ENETUNREACH, 1 },
			outcome:  health.ProberError, reason: "sending the request: network is unreachable",
		},
		{
			name:     "no route for the second",
			schedule: func(s *socket, _, _ []byte) { s.writeErr, s.writeErrAt = syscall.EHOSTUNREACH, 2 },
			outcome:  health.ProberError, reason: "sending the request: no route to host", transmissions: 1, ends: second,
		},
		{
			name:     "ICMP error handed over by a write",
			schedule: func(s *socket, _, _ []byte) { s.writeErr, s.writeErrAt = syscall.ECONNREFUSED, 2 },
			outcome:  health.Refused, reason: "ICMP unreachable: connection refused", transmissions: 1, ends: second,
		},
		{
			name:     "stopped for a second after the end",
			schedule: func(s *socket, _, _ []byte) { s.oversleep = stallLimit },
			outcome:  health.Timeout, reason: "no answer within 3s", transmissions: 3, ends: 4 * second,
		},
		{
			name:     "stopped for longer",
			schedule: func(s *socket, _, _ []byte) { s.oversleep = stallLimit + time.Millisecond },
			outcome:  health.ProberError, reason: "the prober was stalled for 1.001s", transmissions: 3, ends: 4*second + time.Millisecond,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := mustTransact(t, testRequest())
				s := newSocket()
				tt.schedule(s, reply(t, tr, radius.CodeAccessAccept, messageAuthenticator()), reply(t, tr, radius.CodeAccessReject))
				var res Result
				a, sent, err := tr.exchange(t.Context(), s, 3, second, s.begin.Add(time.Hour))
				res.Transmissions = sent
				if err != nil {
					res.Outcome, res.Reason = outcomeOf(err), err.Error()
				} else {
					res.Outcome, res.Latency = accessOutcome(a.code), time.Since(s.begin)
				}
				if res.Outcome != tt.outcome || res.Reason != tt.reason {
					t.Errorf("got %s (%s), want %s (%s)", res.Outcome, res.Reason, tt.outcome, tt.reason)
				}
				if res.Latency != tt.latency || res.Transmissions != tt.transmissions {
					t.Errorf("latency %v and %d transmissions, want %v and %d", res.Latency, res.Transmissions, tt.latency, tt.transmissions)
				}
				if ends := time.Since(s.begin); ends != tt.ends {
					t.Errorf("over after %v, want %v", ends, tt.ends)
				}
				checkTransmissions(t, s, tr.wire, res.Transmissions)
			})
		})
	}
}

// A later transaction of a conversation has only what is left of its budget.
func TestExchangeIsOverAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		end           time.Duration
		transmissions int
		reason        string
	}{
		{1500 * time.Millisecond, 2, "no answer within 1.5s"},
		{2 * time.Second, 2, "no answer within 2s"},
		{2*time.Second + time.Millisecond, 3, "no answer within 2.001s"},
		{0, 1, "no answer within 0s"}, // no time is left, but what was begun is sent
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := mustTransact(t, testRequest())
			s := newSocket()
			_, sent, err := tr.exchange(t.Context(), s, 3, time.Second, s.begin.Add(tt.end))
			if err == nil || err.Error() != tt.reason || sent != tt.transmissions || time.Since(s.begin) != tt.end {
				t.Errorf("end %v: %d transmissions, over after %v, %v", tt.end, sent, time.Since(s.begin), err)
			}
		})
	}
}

// checkTransmissions checks that the request went out count times, unchanged,
// a second apart.
func checkTransmissions(t *testing.T, s *socket, wire []byte, count int) {
	t.Helper()
	if len(s.sent) != count {
		t.Fatalf("%d datagrams were sent, %d counted", len(s.sent), count)
	}
	for i, b := range s.sent {
		if !bytes.Equal(b, wire) {
			t.Errorf("transmission %d is another datagram", i+1)
		}
		if want := time.Duration(i) * time.Second; s.sentAt[i] != want {
			t.Errorf("transmission %d at %v, want %v", i+1, s.sentAt[i], want)
		}
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	tests := []struct {
		name   string
		start  func(context.Context) (context.Context, context.CancelFunc)
		reason string
	}{
		{
			"deadline",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 1500*time.Millisecond)
			},
			"waiting for an answer: context deadline exceeded",
		},
		{
			"cancelled",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(1500*time.Millisecond, cancel)
				return ctx, cancel
			},
			"waiting for an answer: context canceled",
		},
		{
			"cancelled with a cause",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(1500*time.Millisecond, func() { cancel(errors.New("the minute is over")) })
				return ctx, func() { cancel(nil) }
			},
			"waiting for an answer: the minute is over",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := mustTransact(t, testRequest())
				s := newSocket()
				s.arrives(time.Millisecond, []byte("junk"), nil) // is no verdict on an exchange that did not finish
				ctx, cancel := tt.start(t.Context())
				defer cancel()
				_, sent, err := tr.exchange(ctx, s, 3, time.Second, s.begin.Add(time.Hour))
				if err == nil || err.Error() != tt.reason || outcomeOf(err) != health.ProberError {
					t.Errorf("got %v, want %s", err, tt.reason)
				}
				if ends := time.Since(s.begin); ends != 1500*time.Millisecond || sent != 2 {
					t.Errorf("over after %v and %d transmissions", ends, sent)
				}
			})
		})
	}
}

func TestOutcomeOf(t *testing.T) {
	tests := []struct {
		err  error
		want health.Outcome
	}{
		{errNoAnswer, health.Timeout},
		{errUnreachable, health.Refused},
		{errResponseAuthenticator, health.BadAuthenticator},
		{errMessageAuthenticator, health.BadAuthenticator},
		{errMessageAuthenticatorMissing, health.BadAuthenticator},
		{errMessageAuthenticatorForm, health.Malformed},
		{errShort, health.Malformed},
		{errLength, health.Malformed},
		{errIdentifier, health.Malformed},
		{errCode, health.Malformed},
		{errAttribute, health.Malformed},
		{errEAP, health.Malformed},
		{errTLS, health.Malformed},
		{errImpostor, health.BadAuthenticator},
		{errCertificate, health.BadCertificate},
		{context.Canceled, health.ProberError},
		{syscall.EMFILE, health.ProberError},
		{io.ErrUnexpectedEOF, health.ProberError}, // nobody knows what it means here
	}
	for _, tt := range tests {
		for _, err := range []error{tt.err, fmt.Errorf("wrapped: %w", tt.err)} {
			if got := outcomeOf(err); got != tt.want {
				t.Errorf("%v is %s, want %s", err, got, tt.want)
			}
		}
	}
}

// Every error that a probe can end with must be safe to log: none has a byte
// of the secrets, whatever is wrong with them.
func TestErrorsHaveNoSecrets(t *testing.T) {
	const secret, password, user = "TopSecretShared", "TopSecretPassword", "TopSecretUser"
	long := strings.Repeat(password, 100)
	changes := []func(*Request){
		func(r *Request) { r.Credentials.Password = Secret(long) },
		func(r *Request) { r.Credentials.Username = strings.Repeat(user, 100) },
		func(r *Request) { r.NASIdentifier = strings.Repeat("x", 300) },
	}
	for i, change := range changes {
		r := testRequest()
		r.Credentials = Credentials{SharedSecret: Secret(secret), Username: user, Password: Secret(password)}
		change(&r)
		_, err := newTransaction(r, papQuestion(r.Credentials), newSigner(r.Credentials.SharedSecret), 1, localhost)
		if err == nil {
			t.Fatalf("change %d: no error", i)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "TopSecret") {
			t.Errorf("change %d: the error shows a secret", i)
		}
	}
}

func TestRequestCheck(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
		reason string // none if empty
	}{
		{"as it is", func(*Request) {}, ""},
		{"required", func(r *Request) { r.MessageAuthenticator = fleet.MessageAuthenticatorRequired }, ""},
		{"off", func(r *Request) { r.MessageAuthenticator = fleet.MessageAuthenticatorOff }, ""},
		{"one attempt", func(r *Request) { r.Attempts = 1 }, ""},
		{"no attempt", func(r *Request) { r.Attempts = 0 }, "attempts is less than 1"},
		{"no timeout", func(r *Request) { r.AttemptTimeout = 0 }, "attempt timeout is not positive"},
		{"unknown policy", func(r *Request) { r.MessageAuthenticator = "sometimes" }, `unknown Message-Authenticator policy "sometimes"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testRequest()
			r.Server = netip.MustParseAddrPort("127.0.0.1:1812")
			r.Attempts, r.AttemptTimeout = 3, time.Second
			tt.change(&r)
			switch err := r.check(); {
			case tt.reason == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.reason != "" && (err == nil || err.Error() != tt.reason):
				t.Errorf("got %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestCauseHasNoAddresses(t *testing.T) {
	err := &net.OpError{Op: "write", Net: "udp", Source: &net.UDPAddr{Port: 4711}, Err: os.NewSyscallError("write", syscall.EPERM)}
	if got := cause(err).Error(); got != "operation not permitted" {
		t.Errorf("got %q", got)
	}
	plain := errors.New("plain")
	if got := cause(plain); got != plain {
		t.Errorf("got %v", got)
	}
}
