// Package radiustest is a RADIUS server for tests, benchmarks and the local
// system: honest by default, with faults that can be switched while it runs.
//
// It is not a RADIUS server for anybody else: it knows PAP, one shared secret
// and users in memory. It shares no code with the prober that it is used to
// test, so that a mistake in one is not repeated in the other.
package radiustest

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"
)

// history is how many of the newest requests a server remembers.
const history = 1024

// headerLength is the number of octets before the attributes.
const headerLength = 20

// Config is what a server knows and how its faults behave.
type Config struct {
	Secret  string            // shared secret, any bytes but not empty
	Users   map[string]string // passwords by user name
	Welcome string            // Reply-Message of Access-Accept, none if empty
	Refusal string            // Reply-Message of Access-Reject, none if empty
	Fault   Fault             // fault from the start
	Delay   time.Duration     // of fault Slow; 0 means 400 ms
	Drop    int               // requests that fault DropFirst drops; 0 means 1
}

// Server is a running server. Its methods may be called at any time from any
// goroutine.
type Server struct {
	cfg     Config
	addr    netip.AddrPort
	serving sync.WaitGroup

	mu       sync.Mutex
	conn     *net.UDPConn // nil once closed
	fault    Fault
	dropped  int // by the present DropFirst
	received int
	requests [][]byte // the newest, oldest first
}

// TB is what Start needs of a testing.TB. It is an interface of its own so
// that a program with such servers does not link package testing.
type TB interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
}

// Start runs a server on 127.0.0.1 until the test ends.
func Start(tb TB, cfg Config) *Server {
	tb.Helper()
	s, err := Listen("127.0.0.1:0", cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Listen runs a server on the given IP address and port until Close. Port 0
// takes a free one.
func Listen(addr string, cfg Config) (*Server, error) {
	if cfg.Secret == "" {
		return nil, errors.New("starting a RADIUS server: shared secret is empty")
	}
	if cfg.Delay == 0 {
		cfg.Delay = 400 * time.Millisecond
	}
	if cfg.Drop == 0 {
		cfg.Drop = 1
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("starting a RADIUS server: %w", err)
	}
	s := &Server{cfg: cfg}
	if err := s.open(at); err != nil {
		return nil, fmt.Errorf("starting a RADIUS server: %w", err)
	}
	s.addr = netip.AddrPortFrom(at.Addr(), s.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	if err := s.SetFault(cfg.Fault); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Addr returns the address and port of the server. They never change.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Close stops the server. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Fault returns the fault in force.
func (s *Server) Fault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// SetFault switches the server to the fault, from the next request on. It
// fails if the server is closed, or if the port cannot be had back after Refuse.
func (s *Server) SetFault(f Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return errors.New("setting a fault: the server is closed")
	}
	if (f == Refuse) != (s.fault == Refuse) {
		_ = s.conn.Close()
		swap := s.open
		if f == Refuse {
			swap = s.block
		}
		if err := swap(s.addr); err != nil {
			s.conn = nil
			return fmt.Errorf("setting fault %v: %w", f, err)
		}
	}
	s.fault = f
	s.dropped = 0
	return nil
}

// Received returns how many datagrams have arrived so far.
func (s *Server) Received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// Requests returns the newest datagrams that arrived, at most 1,024, oldest
// first, as they were on the wire.
func (s *Server) Requests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// open binds the port and serves it.
func (s *Server) open(addr netip.AddrPort) error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return err
	}
	s.conn = conn
	s.serving.Go(func() { s.serve(conn) })
	return nil
}

// block keeps the port from others while no request is let in: a socket that
// is connected to itself takes datagrams from nobody else, and the kernel
// answers those as it does for a closed port.
func (s *Server) block(addr netip.AddrPort) error {
	udp := net.UDPAddrFromAddrPort(addr)
	conn, err := net.DialUDP("udp", udp, udp)
	if err != nil {
		return err
	}
	s.conn = conn
	return nil
}

// serve answers what arrives until the socket is closed.
func (s *Server) serve(conn *net.UDPConn) {
	datagram := make([]byte, radius.MaxPacketLength)
	for {
		n, client, err := conn.ReadFromUDPAddrPort(datagram)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error about an earlier answer
		}
		answer, delay := s.handle(slices.Clone(datagram[:n]))
		if answer == nil {
			continue
		}
		// A write fails only when the socket has been closed meanwhile.
		send := func() { _, _ = conn.WriteToUDPAddrPort(answer, client) }
		if delay > 0 {
			time.AfterFunc(delay, send)
			continue
		}
		send()
	}
}

// handle records a request and makes the datagram that answers it, nil for
// none, to be sent after the delay.
func (s *Server) handle(request []byte) (answer []byte, delay time.Duration) {
	fault := s.record(request)
	switch fault {
	case DropAll:
		return nil, 0
	case Slow:
		delay = s.cfg.Delay
	case Junk:
		return []byte{0xde, 0xad, 0xbe}, 0
	}
	p, err := radius.Parse(request, []byte(s.cfg.Secret))
	if err != nil || p.Code != radius.CodeAccessRequest || !authentic(request, p.Secret) {
		return nil, 0 // silently discarded, RFC 3579 section 3.2
	}
	return build(s.decide(p, fault), fault), delay
}

// record remembers a request and returns the fault to show for it.
func (s *Server) record(request []byte) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	if len(s.requests) == history {
		s.requests = slices.Delete(s.requests, 0, 1)
	}
	s.requests = append(s.requests, request)
	if s.fault != DropFirst {
		return s.fault
	}
	if s.dropped < s.cfg.Drop {
		s.dropped++
		return DropAll
	}
	return None
}

// decide checks user and password and returns the answer.
func (s *Server) decide(request *radius.Packet, fault Fault) *radius.Packet {
	code, text := radius.CodeAccessReject, s.cfg.Refusal
	switch {
	case fault == WrongCode:
		code, text = radius.CodeAccountingResponse, ""
	case fault == Challenge:
		code, text = radius.CodeAccessChallenge, "Enter the code"
	case fault != RejectAll && s.knows(request):
		code, text = radius.CodeAccessAccept, s.cfg.Welcome
	}
	answer := request.Response(code)
	if fault != NoMessageAuthenticator {
		answer.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, md5.Size))
	}
	if code == radius.CodeAccessChallenge {
		answer.Add(rfc2865.State_Type, radius.Attribute("challenge"))
	}
	for part := range slices.Chunk([]byte(text), 253) {
		answer.Add(rfc2865.ReplyMessage_Type, part)
	}
	return answer
}

// knows tells whether the request has the right password of a known user. It
// decrypts by hand: the trailing zeros are padding, those within are not.
func (s *Server) knows(request *radius.Packet) bool {
	password, known := s.cfg.Users[rfc2865.UserName_GetString(request)]
	hidden := request.Get(rfc2865.UserPassword_Type)
	if !known || len(hidden) == 0 || len(hidden)%md5.Size != 0 {
		return false
	}
	plain := make([]byte, 0, len(hidden))
	previous := request.Authenticator[:]
	for block := range slices.Chunk([]byte(hidden), md5.Size) {
		mask := md5.Sum(slices.Concat(request.Secret, previous))
		for i, b := range block {
			plain = append(plain, b^mask[i])
		}
		previous = block
	}
	padded := make([]byte, len(plain))
	return copy(padded, password) == len(password) && subtle.ConstantTimeCompare(padded, plain) == 1
}

// build signs the answer, puts it on the wire, and spoils it as the fault says.
func build(answer *radius.Packet, fault Fault) []byte {
	switch fault {
	case WrongSecret:
		answer.Secret = slices.Concat(answer.Secret, []byte("?"))
	case WrongIdentifier:
		answer.Identifier++
	}
	if len(answer.Attributes) > 0 && answer.Attributes[0].Type == rfc2869.MessageAuthenticator_Type {
		wire, err := answer.MarshalBinary()
		if err != nil {
			return nil
		}
		answer.Attributes[0].Attribute = sum(wire, answer.Secret)
		if fault == WrongMessageAuthenticator {
			answer.Attributes[0].Attribute[0] ^= 1
		}
	}
	wire, err := answer.Encode()
	if err != nil {
		return nil
	}
	switch fault {
	case Padded:
		return append(wire, 0, 0, 0, 0)
	case Truncated:
		return wire[:len(wire)-1]
	}
	return wire
}

// authentic tells whether the request begins with a valid
// Message-Authenticator, as the prober's must.
func authentic(request, secret []byte) bool {
	const end = headerLength + 2 + md5.Size
	if len(request) < end || request[headerLength] != byte(rfc2869.MessageAuthenticator_Type) ||
		request[headerLength+1] != 2+md5.Size {
		return false
	}
	zeroed := slices.Clone(request)
	clear(zeroed[headerLength+2 : end])
	return hmac.Equal(sum(zeroed, secret), request[headerLength+2:end])
}

// sum is the Message-Authenticator of a packet in which it is zero, RFC 3579
// section 3.2.
func sum(packet, secret []byte) []byte {
	mac := hmac.New(md5.New, secret)
	mac.Write(packet)
	return mac.Sum(nil)
}
