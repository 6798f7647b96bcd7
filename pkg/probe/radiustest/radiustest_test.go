package radiustest

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"
)

// newRequest is an Access-Request as the server wants it.
func newRequest(t *testing.T, secret, user, password string) (*radius.Packet, []byte) {
	t.Helper()
	p := radius.New(radius.CodeAccessRequest, []byte(secret))
	p.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, 16))
	if err := rfc2865.UserName_SetString(p, user); err != nil {
		t.Fatal(err)
	}
	if err := rfc2865.UserPassword_SetString(p, password); err != nil {
		t.Fatal(err)
	}
	return p, encode(t, p)
}

// encode puts a request on the wire with its first attribute, the
// Message-Authenticator, made right.
func encode(t *testing.T, p *radius.Packet) []byte {
	t.Helper()
	wire, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	copy(wire[22:38], sum(wire, p.Secret))
	return wire
}

// ask sends a datagram and returns the answer, nil if there is none. Silence is
// told by a second request, which is answered.
func ask(t *testing.T, s *Server, request []byte) []byte {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	last, lastWire := newRequest(t, s.cfg.Secret, "nobody", "")
	for _, b := range [][]byte{request, lastWire} {
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	if radius.IsAuthenticResponse(answer[:n], lastWire, last.Secret) {
		return nil
	}
	return answer[:n]
}

func TestHonestServer(t *testing.T) {
	const secret = "shared"
	s := Start(t, Config{
		Secret:  secret,
		Users:   map[string]string{"bob": "right", "empty": "", "long": strings.Repeat("x", 128)},
		Welcome: strings.Repeat("w", 300), Refusal: "no",
	})
	tests := []struct {
		user, password string
		code           radius.Code
	}{
		{"bob", "right", radius.CodeAccessAccept},
		{"bob", "wrong", radius.CodeAccessReject},
		{"bob", "", radius.CodeAccessReject},
		{"bob", "right!", radius.CodeAccessReject},
		{"bob", "right\x00!", radius.CodeAccessReject},
		{"eve", "right", radius.CodeAccessReject},
		{"empty", "", radius.CodeAccessAccept},
		{"long", strings.Repeat("x", 128), radius.CodeAccessAccept},
		{"long", strings.Repeat("x", 127), radius.CodeAccessReject},
		{"long", "x", radius.CodeAccessReject},
	}
	for _, tt := range tests {
		_, wire := newRequest(t, secret, tt.user, tt.password)
		answer := ask(t, s, wire)
		if !radius.IsAuthenticResponse(answer, wire, []byte(secret)) {
			t.Fatalf("%s, %q: answer % x", tt.user, tt.password, answer)
		}
		p, err := radius.Parse(answer, []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		if p.Code != tt.code {
			t.Errorf("%s, %q: %v", tt.user, tt.password, p.Code)
		}
		if p.Attributes[0].Type != rfc2869.MessageAuthenticator_Type {
			t.Errorf("first attribute is %d", p.Attributes[0].Type)
		}
		want := map[radius.Code]string{radius.CodeAccessAccept: s.cfg.Welcome, radius.CodeAccessReject: s.cfg.Refusal}[tt.code]
		var text string
		for _, a := range p.Attributes[1:] {
			text += string(a.Attribute)
		}
		if text != want {
			t.Errorf("Reply-Message %q", text)
		}
	}
}

func TestDiscardedRequests(t *testing.T) {
	const secret = "shared"
	s := Start(t, Config{Secret: secret, Users: map[string]string{"bob": "right"}})
	tests := map[string]func(p *radius.Packet, wire []byte) []byte{
		"junk":                  func(*radius.Packet, []byte) []byte { return []byte("junk") },
		"truncated":             func(_ *radius.Packet, wire []byte) []byte { return wire[:len(wire)-1] },
		"wrong authenticator":   func(_ *radius.Packet, wire []byte) []byte { wire[22] ^= 1; return wire },
		"another shared secret": func(p *radius.Packet, _ []byte) []byte { p.Secret = []byte("other"); return encode(t, p) },
		"accounting":            func(p *radius.Packet, _ []byte) []byte { p.Code = radius.CodeAccountingRequest; return encode(t, p) },
		"Message-Authenticator is not first": func(p *radius.Packet, _ []byte) []byte {
			p.Attributes[0], p.Attributes[1] = p.Attributes[1], p.Attributes[0]
			wire, err := p.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			return wire
		},
		"no attribute": func(p *radius.Packet, _ []byte) []byte {
			p.Attributes = nil
			wire, err := p.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			return wire
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			if answer := ask(t, s, spoil(newRequest(t, secret, "bob", "right"))); answer != nil {
				t.Errorf("answered % x", answer)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	s := Start(t, Config{Secret: "shared"})
	for i := range history + 2 {
		s.record([]byte{byte(i), byte(i >> 8)})
	}
	requests := s.Requests()
	if s.Received() != history+2 || len(requests) != history {
		t.Fatalf("%d received, %d remembered", s.Received(), len(requests))
	}
	if !bytes.Equal(requests[0], []byte{2, 0}) || !bytes.Equal(requests[history-1], []byte{1, 4}) {
		t.Errorf("from % x to % x", requests[0], requests[history-1])
	}
}

func TestDropFirstCountsFromTheSwitch(t *testing.T) {
	s := Start(t, Config{Secret: "shared", Drop: 2, Fault: DropFirst})
	for round := range 2 {
		for i, want := range []Fault{DropAll, DropAll, None, None} {
			if got := s.record(nil); got != want {
				t.Errorf("round %d, request %d: %v", round, i+1, got)
			}
		}
		if err := s.SetFault(DropFirst); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFaultWords(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		got, err := ParseFault(f.String())
		if err != nil || got != f || f.String() == "" || seen[f.String()] {
			t.Errorf("%d: %q is %d, %v", int(f), f.String(), int(got), err)
		}
		seen[f.String()] = true
	}
	if _, err := ParseFault("fire"); err == nil || !strings.HasPrefix(err.Error(), `unknown fault "fire", known are none, reject-all, `) {
		t.Errorf("got %v", err)
	}
	for _, f := range []Fault{-1, Fault(len(Faults()))} {
		if !strings.HasPrefix(f.String(), "Fault(") {
			t.Errorf("got %s", f)
		}
	}
}

func TestRefusingServerKeepsItsPort(t *testing.T) {
	s := Start(t, Config{Secret: "shared", Fault: Refuse})
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.Addr()))
	if err == nil {
		_ = conn.Close()
		t.Error("another could take the port")
	}
	if err := s.SetFault(None); err != nil || s.Fault() != None {
		t.Errorf("got %v, %v", s.Fault(), err)
	}
}

func TestClosedServer(t *testing.T) {
	s, err := Listen("127.0.0.1:0", Config{Secret: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if err := s.SetFault(None); err == nil {
		t.Error("a closed server took a fault")
	}
}

func TestListenErrors(t *testing.T) {
	s := Start(t, Config{Secret: "shared"})
	for addr, secret := range map[string]string{"127.0.0.1:0": "", "localhost": "x", s.Addr().String(): "x"} {
		if other, err := Listen(addr, Config{Secret: secret}); err == nil {
			other.Close()
			t.Errorf("%s, secret %q: no error", addr, secret)
		} else if !strings.HasPrefix(err.Error(), "starting a RADIUS server: ") {
			t.Errorf("got %v", err)
		}
	}
}

func TestSwitchingUnderLoad(t *testing.T) { // for the race detector
	s := Start(t, Config{Secret: "shared", Users: map[string]string{"bob": "right"}})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.Addr()))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, wire := newRequest(t, "shared", "bob", "right")
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = conn.Write(wire) // fails while the port is closed
			}
		}
	}()
	for range 5 {
		for _, f := range Faults() {
			if err := s.SetFault(f); err != nil {
				t.Error(err)
			}
			_, _, _ = s.Fault(), s.Received(), s.Requests()
		}
	}
	close(stop)
	<-done
}
