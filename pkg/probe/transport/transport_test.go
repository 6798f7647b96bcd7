package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"radwitness/pkg/probe/transport"
)

// opener is what the transports have in common.
type opener interface {
	Open(ctx context.Context, server netip.AddrPort) (transport.Conn, error)
	Close() error
}

// each runs a test with every transport.
func each(t *testing.T, test func(t *testing.T, tr opener)) {
	for name, tr := range openers(nil) {
		t.Run(name, func(t *testing.T) {
			test(t, tr)
			if err := tr.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
}

// server is a socket on loopback.
type server struct {
	*net.UDPConn
	t testing.TB
}

// serve opens a socket on the given address, at a free port if it has none.
func serve(t testing.TB, address string) server {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return server{conn, t}
}

// refuse has the server's port refuse datagrams, and keeps it from others: a
// socket that is connected to itself takes datagrams from nobody else.
func (s server) refuse() {
	s.t.Helper()
	addr := net.UDPAddrFromAddrPort(s.addr())
	_ = s.Close()
	conn, err := net.DialUDP("udp", addr, addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
}

func (s server) addr() netip.AddrPort {
	a := s.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// next is the next request, and who sent it.
func (s server) next() ([]byte, netip.AddrPort) {
	s.t.Helper()
	b := make([]byte, 4096)
	if err := s.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	n, from, err := s.ReadFromUDPAddrPort(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return b[:n], from
}

func (s server) answer(b []byte, to netip.AddrPort) {
	s.t.Helper()
	if _, err := s.WriteToUDPAddrPort(b, to); err != nil {
		s.t.Fatal(err)
	}
}

// packet has the given identifier and is as long as a header. The text tells it
// from others.
func packet(identifier byte, text string) []byte {
	b := make([]byte, 20)
	b[1] = identifier
	copy(b[4:], text)
	return b
}

func open(t testing.TB, tr opener, to netip.AddrPort) transport.Conn {
	t.Helper()
	c, err := tr.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// send begins a transaction and sends its request.
func send(t testing.TB, c transport.Conn, text string) byte {
	t.Helper()
	id, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(packet(id, text)); err != nil {
		t.Fatal(err)
	}
	return id
}

// receive waits for a datagram that must come.
func receive(t testing.TB, c transport.Conn) []byte {
	t.Helper()
	b, err := c.Receive(t.Context(), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// silent checks that nothing comes. What is on its way on loopback has arrived
// before the call that sent it returns.
func silent(t testing.TB, c transport.Conn) {
	t.Helper()
	if b, err := c.Receive(t.Context(), time.Now().Add(20*time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("received %q, %v", b, err)
	}
}

func TestTransaction(t *testing.T) {
	each(t, func(t *testing.T, tr opener) {
		for _, loopback := range []string{"127.0.0.1:0", "[::1]:0"} {
			s := serve(t, loopback)
			c := open(t, tr, s.addr())
			if c.Local() != s.addr().Addr() {
				t.Errorf("local address %v", c.Local())
			}
			var from netip.AddrPort
			identifiers := map[byte]bool{}
			for range 3 { // transactions of one conversation
				id := send(t, c, "request")
				identifiers[id] = true
				request, client := s.next()
				if !bytes.Equal(request, packet(id, "request")) || from.IsValid() && client != from {
					t.Errorf("request % x from %v", request, client)
				}
				from = client
				s.answer(packet(id, "answer"), client)
				if got := receive(t, c); !bytes.Equal(got, packet(id, "answer")) {
					t.Errorf("answer % x", got)
				}
			}
			if len(identifiers) != 3 {
				t.Errorf("%d identifiers of 3 transactions", len(identifiers))
			}
			c.Close()
		}
	})
}

// fleet.yaml may give a server's IPv4 address in IPv6 form.
func TestMappedAddress(t *testing.T) {
	each(t, func(t *testing.T, tr opener) {
		s := serve(t, "127.0.0.1:0")
		c := open(t, tr, netip.AddrPortFrom(netip.AddrFrom16(s.addr().Addr().As16()), s.addr().Port()))
		defer c.Close()
		id := send(t, c, "request")
		_, client := s.next()
		s.answer(packet(id, "answer"), client)
		receive(t, c)
		if c.Local() != s.addr().Addr() {
			t.Errorf("local address %v", c.Local())
		}
	})
}

func TestAnswerOfAnotherAddressOrPort(t *testing.T) {
	each(t, func(t *testing.T, tr opener) {
		s, port, address := serve(t, "127.0.0.1:0"), serve(t, "127.0.0.1:0"), serve(t, "127.0.0.2:0")
		c := open(t, tr, s.addr())
		defer c.Close()
		id := send(t, c, "request")
		_, client := s.next()
		port.answer(packet(id, "forged"), client)
		address.answer(packet(id, "forged"), client)
		silent(t, c)
		s.answer(packet(id, "answer"), client)
		if got := receive(t, c); !bytes.Equal(got, packet(id, "answer")) {
			t.Errorf("answer % x", got)
		}
	})
}

func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, tr opener) {
		for _, loopback := range []string{"127.0.0.1:0", "[::1]:0"} {
			s := serve(t, loopback)
			s.refuse()
			c := open(t, tr, s.addr())
			for range 3 {
				send(t, c, "request")
				if b, err := c.Receive(t.Context(), time.Now().Add(10*time.Second)); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%v: got %q, %v", s.addr(), b, err)
				}
			}
			c.Close()
		}
	})
}

func TestContextEnds(t *testing.T) {
	over := errors.New("the minute is over")
	each(t, func(t *testing.T, tr opener) {
		s := serve(t, "127.0.0.1:0")
		c := open(t, tr, s.addr())
		defer c.Close()
		id := send(t, c, "request")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(over) })
		if _, err := c.Receive(ctx, time.Now().Add(10*time.Second)); !errors.Is(err, over) {
			t.Errorf("receiving: got %v", err)
		}
		if _, err := tr.Open(ctx, s.addr()); err == nil {
			t.Error("opened after the end")
		}
		// Another context goes on where the first one ended.
		_, client := s.next()
		s.answer(packet(id, "answer"), client)
		receive(t, c)
	})
}

func TestDeadline(t *testing.T) {
	each(t, func(t *testing.T, tr opener) {
		s := serve(t, "127.0.0.1:0")
		c := open(t, tr, s.addr())
		defer c.Close()
		id := send(t, c, "request")
		for _, deadline := range []time.Time{time.Now(), time.Now().Add(time.Millisecond)} {
			if b, err := c.Receive(t.Context(), deadline); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("received % x, %v", b, err)
			}
		}
		_, client := s.next()
		s.answer(packet(id, "answer"), client)
		receive(t, c)
	})
}

func TestNoSocket(t *testing.T) {
	for name, tr := range openers(func(string, string, syscall.RawConn) error { return syscall.EMFILE }) {
		if _, err := tr.Open(t.Context(), netip.MustParseAddrPort("127.0.0.1:1812")); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// With no socket left Open waits, and ends with its context.
func TestLimit(t *testing.T) {
	s := serve(t, "127.0.0.1:0")
	tr := &transport.Connected{Limit: 2}
	one, two := open(t, tr, s.addr()), open(t, tr, s.addr())
	defer two.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Open(ctx, s.addr()); !errors.Is(err, context.Canceled) {
		t.Errorf("a third: %v", err)
	}
	one.Close()
	open(t, tr, s.addr()).Close()
}

// Many servers at once, some of them refusing: every transaction hears of its own
// server only.
func TestManyServers(t *testing.T) {
	each(t, func(t *testing.T, tr opener) {
		var work sync.WaitGroup
		for i := range 100 {
			s := serve(t, "127.0.0.1:0")
			refuses := i%3 == 0 // so that one that refuses shares a socket with one that does not
			if refuses {
				s.refuse()
			} else {
				work.Go(func() {
					for b := make([]byte, 4096); ; {
						n, client, err := s.ReadFromUDPAddrPort(b)
						if err != nil {
							return
						}
						_, _ = s.WriteToUDPAddrPort(b[:n], client)
					}
				})
			}
			work.Go(func() {
				defer func() { _ = s.Close() }()
				for range 3 {
					answered, err := ask(t.Context(), tr, s.addr())
					switch {
					case refuses && !errors.Is(err, syscall.ECONNREFUSED):
						t.Errorf("%v refuses: got %v, %v", s.addr(), answered, err)
					case !refuses && (err != nil || !answered):
						t.Errorf("%v: got %v, %v", s.addr(), answered, err)
					}
				}
			})
		}
		work.Wait()
	})
}

// ask makes one transaction with a server that echoes, and tells whether its own
// request came back.
func ask(ctx context.Context, tr opener, to netip.AddrPort) (bool, error) {
	c, err := tr.Open(ctx, to)
	if err != nil {
		return false, err
	}
	defer c.Close()
	id, err := c.Begin()
	if err != nil {
		return false, err
	}
	request := packet(id, to.String())
	if err := c.Send(request); err != nil {
		return false, err
	}
	b, err := c.Receive(ctx, time.Now().Add(10*time.Second))
	return bytes.Equal(b, request), err
}
