package probe_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/probe/transport"
)

const (
	secret   = "shared\x00secret\n"
	username = "bob"
	password = "pass\x00word \xff"
)

// config is a server that knows the user.
func config() radiustest.Config {
	return radiustest.Config{
		Secret:  secret,
		Users:   map[string]string{username: password},
		Welcome: "Welcome",
		Refusal: "Go\x07away",
		Delay:   30 * time.Millisecond,
		Drop:    2,
	}
}

// to is a request that the server accepts. Its budget is for servers that answer.
func to(server netip.AddrPort) probe.Request {
	return probe.Request{
		Server:         server,
		Method:         fleet.PAP,
		AttemptTimeout: 2 * time.Second,
		Attempts:       3,
		NASIdentifier:  "radwitness",
		Credentials: probe.Credentials{
			SharedSecret: probe.Secret(secret), Username: username, Password: probe.Secret(password),
		},
	}
}

// newProber is a prober until the test ends.
func newProber(t testing.TB, tr probe.Transport) *probe.Prober {
	p := &probe.Prober{Transport: tr}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the prober: %v", err)
		}
	})
	return p
}

// briefly gives a request a budget for servers that do not answer.
func briefly(r *probe.Request) { r.AttemptTimeout, r.Attempts = 25*time.Millisecond, 2 }

// set switches a server's fault.
func set(t testing.TB, s *radiustest.Server, f radiustest.Fault) {
	t.Helper()
	if err := s.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

func TestProbe(t *testing.T) {
	const wrongSecret = "wrong Response Authenticator, as from another shared secret"
	retried := func(r *probe.Request) { r.AttemptTimeout = 40 * time.Millisecond }
	tests := []struct {
		name          string
		fault         radiustest.Fault
		change        func(*probe.Request)
		outcome       health.Outcome
		reason        string
		reply         string
		transmissions int
	}{
		{"accept", radiustest.None, nil, health.Accept, "", "Welcome", 1},
		{"wrong password", radiustest.None, func(r *probe.Request) { r.Credentials.Password = probe.Secret("pass") },
			health.Reject, "", `Go\x07away`, 1},
		{"no password", radiustest.None, func(r *probe.Request) { r.Credentials.Password = nil },
			health.Reject, "", `Go\x07away`, 1},
		{"unknown user", radiustest.None, func(r *probe.Request) { r.Credentials.Username = "eve" },
			health.Reject, "", `Go\x07away`, 1},
		{"reject all", radiustest.RejectAll, nil, health.Reject, "", `Go\x07away`, 1},
		{"challenge", radiustest.Challenge, nil, health.Challenge, "", "Enter the code", 1}, // F09
		{"slow", radiustest.Slow, nil, health.Accept, "", "Welcome", 1},
		{"first two lost", radiustest.DropFirst, retried, health.Accept, "", "Welcome", 3}, // F11
		{"silent", radiustest.DropAll, briefly, health.Timeout, "no answer within 50ms", "", 2},
		{"refused", radiustest.Refuse, nil, health.Refused, "ICMP unreachable: connection refused", "", 1},
		{"answers with another secret", radiustest.WrongSecret, briefly, health.BadAuthenticator, wrongSecret, "", 2}, // F02
		{"discards another secret", radiustest.None,
			func(r *probe.Request) { briefly(r); r.Credentials.SharedSecret = probe.Secret("shared\x00secret") },
			health.Timeout, "no answer within 50ms", "", 2},
		{"junk", radiustest.Junk, briefly, health.Malformed, "answer is shorter than 20 octets", "", 2},
		{"wrong identifier", radiustest.WrongIdentifier, briefly,
			health.Malformed, "answer has another Identifier than the request", "", 2},
		{"wrong code", radiustest.WrongCode, briefly,
			health.Malformed, "answer's Code does not fit the request: Accounting-Response", "", 2},
		{"padded", radiustest.Padded, nil, health.Accept, "", "Welcome", 1}, // F01
		{"truncated", radiustest.Truncated, briefly, health.Malformed, "answer's Length does not fit the datagram", "", 2},
		{"wrong Message-Authenticator", radiustest.WrongMessageAuthenticator, briefly,
			health.BadAuthenticator, "wrong Message-Authenticator", "", 2},
		{"wrong Message-Authenticator, off", radiustest.WrongMessageAuthenticator,
			func(r *probe.Request) { r.MessageAuthenticator = fleet.MessageAuthenticatorOff },
			health.Accept, "", "Welcome", 1},
		{"no Message-Authenticator, auto", radiustest.NoMessageAuthenticator, nil, health.Accept, "", "Welcome", 1},
		{"no Message-Authenticator any more", radiustest.NoMessageAuthenticator,
			func(r *probe.Request) { briefly(r); r.MessageAuthenticatorSeen = true },
			health.BadAuthenticator, "answer without Message-Authenticator", "", 2},
		{"no Message-Authenticator, required", radiustest.NoMessageAuthenticator,
			func(r *probe.Request) { briefly(r); r.MessageAuthenticator = fleet.MessageAuthenticatorRequired },
			health.BadAuthenticator, "answer without Message-Authenticator", "", 2},
		{"password of 129 octets", radiustest.None,
			func(r *probe.Request) { r.Credentials.Password = make(probe.Secret, 129) },
			health.ProberError, "password is longer than 128 octets", "", 0},
		{"no shared secret", radiustest.None,
			func(r *probe.Request) { r.Credentials.SharedSecret = nil },
			health.ProberError, "shared secret is empty", "", 0},
		{"unknown method", radiustest.None, func(r *probe.Request) { r.Method = "kerberos" },
			health.ProberError, `method "kerberos" is not supported`, "", 0},
		{"no address", radiustest.None, func(r *probe.Request) { r.Server = netip.AddrPort{} },
			health.ProberError, "server has no address or no port", "", 0},
		{"no port", radiustest.None,
			func(r *probe.Request) { r.Server = netip.AddrPortFrom(r.Server.Addr(), 0) },
			health.ProberError, "server has no address or no port", "", 0},
	}
	probers := map[string]*probe.Prober{"": newProber(t, nil), ", connected": newProber(t, &transport.Connected{})}
	for _, tt := range tests {
		for over, prober := range probers {
			t.Run(tt.name+over, func(t *testing.T) {
				t.Parallel()
				server := radiustest.Start(t, config())
				set(t, server, tt.fault)
				r := to(server.Addr())
				if tt.change != nil {
					tt.change(&r)
				}
				res := prober.Probe(t.Context(), r)
				if res.Outcome != tt.outcome || res.Reason != tt.reason || res.ReplyMessage != tt.reply {
					t.Errorf("got %s (%s) %q, want %s (%s) %q", res.Outcome, res.Reason, res.ReplyMessage, tt.outcome, tt.reason, tt.reply)
				}
				if res.Transmissions != tt.transmissions {
					t.Errorf("%d transmissions, want %d", res.Transmissions, tt.transmissions)
				}
				checkTimes(t, r, res)
				answered := res.Reason == ""
				carried := tt.fault != radiustest.NoMessageAuthenticator && tt.fault != radiustest.WrongMessageAuthenticator
				if res.MessageAuthenticator != (answered && carried) {
					t.Errorf("Message-Authenticator %v", res.MessageAuthenticator)
				}
			})
		}
	}
}

// checkTimes checks that the times of a result agree with each other.
func checkTimes(t *testing.T, r probe.Request, res probe.Result) {
	t.Helper()
	answered := res.Reason == ""
	if (res.Latency > 0) != answered || res.Latency > res.Duration || res.Duration <= 0 {
		t.Errorf("latency %v, duration %v", res.Latency, res.Duration)
	}
	budget := time.Duration(r.Attempts) * r.AttemptTimeout
	switch res.Outcome {
	case health.Timeout, health.BadAuthenticator, health.Malformed:
		if res.Duration < budget {
			t.Errorf("gave up after %v of %v", res.Duration, budget)
		}
	}
}

// F10, F11: a lost datagram is repeated octet by octet, and the server need not
// answer twice.
func TestRetransmissionsAreIdentical(t *testing.T) {
	cfg := config()
	cfg.Fault = radiustest.DropFirst
	server := radiustest.Start(t, cfg)
	r := to(server.Addr())
	r.AttemptTimeout = 30 * time.Millisecond
	prober := newProber(t, nil)
	if res := prober.Probe(t.Context(), r); res.Outcome != health.Accept {
		t.Fatalf("got %+v", res)
	}
	requests := server.Requests()
	if len(requests) != 3 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, b := range requests {
		if !bytes.Equal(b, requests[0]) {
			t.Errorf("retransmitted % x as % x", requests[0], b)
		}
		if b[20] != 80 || b[21] != 18 {
			t.Errorf("first attribute % x", b[20:22])
		}
	}
}

// A server whose daemon was gone for a while is found again on its old port.
func TestRefusedAndBack(t *testing.T) {
	server := radiustest.Start(t, config())
	prober := newProber(t, nil)
	for range 3 {
		set(t, server, radiustest.Refuse)
		if res := prober.Probe(t.Context(), to(server.Addr())); res.Outcome != health.Refused {
			t.Errorf("gone: got %+v", res)
		}
		set(t, server, radiustest.None)
		if res := prober.Probe(t.Context(), to(server.Addr())); res.Outcome != health.Accept {
			t.Errorf("back: got %+v", res)
		}
	}
}

func TestIPv6(t *testing.T) { // F16
	server, err := radiustest.Listen("[::1]:0", config())
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	defer server.Close()
	prober := newProber(t, nil)
	if res := prober.Probe(t.Context(), to(server.Addr())); res.Outcome != health.Accept {
		t.Fatalf("got %+v", res)
	}
	p, err := radius.Parse(server.Requests()[0], []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	if got := rfc3162.NASIPv6Address_Get(p); !got.Equal(net.IPv6loopback) {
		t.Errorf("NAS-IPv6-Address %v", got)
	}
}

// relay listens on a port of its own and has every datagram that it gets
// answered by the server, but hands the answer to reply.
func relay(t *testing.T, server netip.AddrPort, reply func(own *net.UDPConn, client netip.AddrPort, answer []byte)) netip.AddrPort {
	t.Helper()
	own, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	up, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		request, answer := make([]byte, 4096), make([]byte, 4096)
		for {
			n, client, err := own.ReadFromUDPAddrPort(request)
			if err != nil {
				return
			}
			if _, err := up.Write(request[:n]); err != nil {
				return
			}
			if n, err = up.Read(answer); err != nil {
				return
			}
			reply(own, client, answer[:n])
		}
	})
	t.Cleanup(func() { _ = own.Close(); _ = up.Close(); serving.Wait() })
	return own.LocalAddr().(*net.UDPAddr).AddrPort()
}

// send sends datagrams, whatever comes of them.
func send(from *net.UDPConn, client netip.AddrPort, datagrams ...[]byte) {
	for _, b := range datagrams {
		_, _ = from.WriteToUDPAddrPort(b, client)
	}
}

// An answer counts only if it comes from the address that was asked, however
// authentic it is.
func TestAnswerFromAnotherSource(t *testing.T) {
	server := radiustest.Start(t, config())
	other, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	addr := relay(t, server.Addr(), func(_ *net.UDPConn, client netip.AddrPort, answer []byte) { send(other, client, answer) })
	r := to(addr)
	briefly(&r)
	prober := newProber(t, nil)
	if res := prober.Probe(t.Context(), r); res.Outcome != health.Timeout {
		t.Errorf("got %+v", res)
	}
}

// F02: one bad datagram is no reason to give up.
func TestJunkBeforeTheAnswer(t *testing.T) {
	server := radiustest.Start(t, config())
	addr := relay(t, server.Addr(), func(own *net.UDPConn, client netip.AddrPort, answer []byte) {
		spoiled := bytes.Clone(answer)
		spoiled[19] ^= 1
		send(own, client, nil, []byte("\xde\xad\xbe"), answer[:20], spoiled, answer)
	})
	prober := newProber(t, nil)
	if res := prober.Probe(t.Context(), to(addr)); res.Outcome != health.Accept || res.Transmissions != 1 {
		t.Errorf("got %+v", res)
	}
}

func TestFloodDoesNotExtendTheBudget(t *testing.T) {
	server := radiustest.Start(t, config())
	over := make(chan struct{})
	addr := relay(t, server.Addr(), func(own *net.UDPConn, client netip.AddrPort, _ []byte) {
		for {
			select {
			case <-over:
				return
			default:
				send(own, client, []byte("\xde\xad\xbe"))
			}
		}
	})
	r := to(addr)
	briefly(&r)
	prober := newProber(t, nil)
	res := prober.Probe(t.Context(), r)
	close(over)
	if res.Outcome != health.Malformed || res.Transmissions != 2 {
		t.Errorf("got %+v", res)
	}
	if res.Duration > time.Second { // of 50 ms; the rest is for a busy machine
		t.Errorf("took %v", res.Duration)
	}
}

func TestContextEndsAProbe(t *testing.T) {
	server := radiustest.Start(t, config())
	set(t, server, radiustest.DropAll)
	r := to(server.Addr())
	r.AttemptTimeout = time.Minute
	prober := newProber(t, nil)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	res := prober.Probe(ctx, r)
	if res.Outcome != health.ProberError || res.Reason != "waiting for an answer: context deadline exceeded" || res.Transmissions != 1 {
		t.Errorf("in the middle: got %+v", res)
	}
	if res.Duration > 10*time.Second {
		t.Errorf("in the middle: took %v", res.Duration)
	}

	before := server.Received()
	res = prober.Probe(ctx, r)
	if res.Outcome != health.ProberError || res.Reason != "opening a socket: context deadline exceeded" || res.Transmissions != 0 {
		t.Errorf("before: got %+v", res)
	}
	if got := server.Received() - before; got != 0 {
		t.Errorf("before: %d datagrams were sent", got)
	}
}

// What keeps a socket from being opened is the prober's own fault.
func TestNoSocket(t *testing.T) {
	for _, tt := range []struct {
		errno  syscall.Errno
		reason string
	}{
		{syscall.EMFILE, "opening a socket: too many open files"},
		{syscall.ENETUNREACH, "opening a socket: network is unreachable"},
		{syscall.EHOSTUNREACH, "opening a socket: no route to host"},
		{syscall.EADDRNOTAVAIL, "opening a socket: cannot assign requested address"},
	} {
		prober := probe.Prober{Transport: &transport.Connected{
			Control: func(string, string, syscall.RawConn) error { return tt.errno },
		}}
		res := prober.Probe(t.Context(), to(netip.MustParseAddrPort("127.0.0.1:1812")))
		if res.Outcome != health.ProberError || res.Reason != tt.reason {
			t.Errorf("%v: got %s (%s)", tt.errno, res.Outcome, res.Reason)
		}
	}
}

// F11: servers that are silent at the same time take one budget together.
func TestProbesAtTheSameTime(t *testing.T) {
	silent := radiustest.Start(t, config())
	set(t, silent, radiustest.DropAll)
	honest := radiustest.Start(t, config())
	prober := newProber(t, nil)
	var probes sync.WaitGroup
	begin := time.Now()
	for range 20 {
		probes.Go(func() {
			r := to(silent.Addr())
			r.AttemptTimeout, r.Attempts = 100*time.Millisecond, 2
			if res := prober.Probe(t.Context(), r); res.Outcome != health.Timeout {
				t.Errorf("silent: got %+v", res)
			}
		})
		probes.Go(func() {
			if res := prober.Probe(t.Context(), to(honest.Addr())); res.Outcome != health.Accept {
				t.Errorf("honest: got %+v", res)
			}
		})
	}
	probes.Wait()
	if took := time.Since(begin); took > 2*time.Second { // 20 budgets are 4 s
		t.Errorf("took %v", took)
	}
}

// The secrets are in no result, whatever the server makes of them.
func TestResultHasNoSecrets(t *testing.T) {
	server := radiustest.Start(t, config())
	prober := newProber(t, nil)
	for _, fault := range radiustest.Faults() {
		set(t, server, fault)
		for _, m := range probe.Supported() {
			r := to(server.Addr())
			r.Method, r.AttemptTimeout, r.Attempts = m, 10*time.Millisecond, 1
			res := prober.Probe(t.Context(), r)
			shown := res.Reason + res.ReplyMessage
			for _, hidden := range []string{secret, password, hex.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(password))} {
				if strings.Contains(shown, hidden) {
					t.Errorf("%v, %s: a secret is in %q", fault, m, shown)
				}
			}
		}
	}
}

// BlastRADIUS, CVE-2024-3596: a forger in the path can turn one answer into
// another under a right Response Authenticator, with attributes that he chose,
// Proxy-State for noise among them. He cannot make a Message-Authenticator. Here
// he knows the secret, so that the Response Authenticator is right, and does all
// but that.
func TestForgedAnswers(t *testing.T) {
	const (
		auto     = fleet.MessageAuthenticatorAuto
		required = fleet.MessageAuthenticatorRequired
		off      = fleet.MessageAuthenticatorOff
	)
	// forge makes an accept of a reject, signed, with other attributes.
	forge := func(keep func(a *radius.AVP) bool, add ...*radius.AVP) func(request, answer []byte) []byte {
		return func(request, answer []byte) []byte {
			p, err := radius.Parse(answer, []byte(secret))
			if err != nil {
				t.Fatal(err)
			}
			p.Code = radius.CodeAccessAccept
			copy(p.Authenticator[:], request[4:20])
			p.Attributes = slices.DeleteFunc(p.Attributes, func(a *radius.AVP) bool { return !keep(a) })
			p.Attributes = append(p.Attributes, add...)
			forged, err := p.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return forged
		}
	}
	noise := &radius.AVP{Type: rfc2865.ProxyState_Type, Attribute: bytes.Repeat([]byte("collision"), 20)}
	all := func(*radius.AVP) bool { return true }
	unauthenticated := func(a *radius.AVP) bool { return a.Type != rfc2869.MessageAuthenticator_Type }
	wrong := &radius.AVP{Type: rfc2869.MessageAuthenticator_Type, Attribute: bytes.Repeat([]byte("x"), 16)}
	reflected := func(request, answer []byte) []byte { // everything that the prober sent, sent back
		p, err := radius.Parse(request, []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return forge(func(*radius.AVP) bool { return false }, p.Attributes...)(request, answer)
	}
	tests := []struct {
		name   string
		policy fleet.MessageAuthenticator
		seen   bool
		forge  func(request, answer []byte) []byte
		want   health.Outcome
	}{
		{"with the reject's own", auto, false, forge(all), health.BadAuthenticator},
		{"with the reject's own, required", required, false, forge(all), health.BadAuthenticator},
		{"with a wrong one", auto, false, forge(unauthenticated, wrong), health.BadAuthenticator},
		{"with a wrong one after Proxy-State", auto, false, forge(unauthenticated, noise, noise, wrong), health.BadAuthenticator},
		{"with the request's own", auto, false, reflected, health.BadAuthenticator},
		{"without, required", required, false, forge(unauthenticated, noise), health.BadAuthenticator},
		{"without, from a server that sends it", auto, true, forge(unauthenticated, noise), health.BadAuthenticator},
		// What the policies cannot tell: a server that never sends one is not told
		// from a forger by auto, and off asks for nothing.
		{"without, from a server that never did", auto, false, forge(unauthenticated, noise), health.Accept},
		{"with a wrong one, off", off, true, forge(unauthenticated, wrong, noise), health.Accept},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := radiustest.Start(t, config())
			set(t, server, radiustest.RejectAll)
			addr := relay(t, server.Addr(), func(own *net.UDPConn, client netip.AddrPort, answer []byte) {
				requests := server.Requests()
				send(own, client, tt.forge(requests[len(requests)-1], answer))
			})
			r := to(addr)
			briefly(&r)
			r.MessageAuthenticator, r.MessageAuthenticatorSeen = tt.policy, tt.seen
			prober := newProber(t, nil)
			if res := prober.Probe(t.Context(), r); res.Outcome != tt.want {
				t.Errorf("got %+v, want %s", res, tt.want)
			}
		})
	}
}
