package transport

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// wait is longer than anything takes on loopback.
const wait = 3 * time.Second

// silentServer is a socket on loopback that nobody reads, and its address.
func silentServer(t testing.TB) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// shared is a transport until the test ends.
func shared(t testing.TB) *Shared {
	t.Helper()
	tr := &Shared{}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return tr
}

// begin opens a Conn and sends a request of a first transaction, which holds
// nothing but its identifier.
func begin(t testing.TB, tr *Shared, to netip.AddrPort) *sharedConn {
	t.Helper()
	c, err := tr.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	again(t, c.(*sharedConn))
	return c.(*sharedConn)
}

// again makes the next transaction.
func again(t testing.TB, c *sharedConn) {
	t.Helper()
	id, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(header(id)); err != nil {
		t.Fatal(err)
	}
}

func header(identifier byte) []byte {
	b := make([]byte, headerLength)
	b[1] = identifier
	return b
}

// client takes a request from the server's socket, and returns who sent it.
func client(t testing.TB, s *net.UDPConn) netip.AddrPort {
	t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	_, from, err := s.ReadFromUDPAddrPort(make([]byte, maxDatagram))
	if err != nil {
		t.Fatal(err)
	}
	return from
}

func answer(t testing.TB, s *net.UDPConn, b []byte, to netip.AddrPort) {
	t.Helper()
	if _, err := s.WriteToUDPAddrPort(b, to); err != nil {
		t.Fatal(err)
	}
}

// mustReceive checks what comes next.
func mustReceive(t testing.TB, c *sharedConn, want []byte) {
	t.Helper()
	if b, err := c.Receive(t.Context(), time.Now().Add(wait)); err != nil || !bytes.Equal(b, want) {
		t.Errorf("received % x, %v, want % x", b, err, want)
	}
}

// mustBeSilent checks that nothing has come. A later datagram of the same server
// has shown that what was sent before it has been read.
func mustBeSilent(t testing.TB, c *sharedConn) {
	t.Helper()
	if len(c.inbox) > 0 {
		a := <-c.inbox
		t.Errorf("received % x, %v", a.datagram, a.err)
	}
}

// Two probes of one server share its socket and are answered the other way round.
func TestTransactionsAtTheSameTime(t *testing.T) {
	tr := shared(t)
	s, addr := silentServer(t)
	one, two := begin(t, tr, addr), begin(t, tr, addr)
	defer one.Close()
	defer two.Close()
	if one.socket != two.socket || one.identifier == two.identifier {
		t.Fatalf("same socket: %v, identifiers %d and %d", one.socket == two.socket, one.identifier, two.identifier)
	}
	from := client(t, s)
	answer(t, s, header(two.identifier), from)
	mustReceive(t, two, header(two.identifier))
	mustBeSilent(t, one)
	answer(t, s, header(one.identifier), from)
	mustReceive(t, one, header(one.identifier))
	mustBeSilent(t, two)
}

// One socket has only so many identifiers for a server; what is more goes over
// others, and there is an end to that too.
func TestMoreTransactionsThanIdentifiers(t *testing.T) {
	tr := shared(t)
	s, addr := silentServer(t)
	type place struct {
		from       netip.AddrPort
		identifier byte
	}
	taken := map[place]bool{}
	var conns []*sharedConn
	for range maxWaiting * sharedSockets {
		c := begin(t, tr, addr)
		conns = append(conns, c)
		p := place{client(t, s), c.identifier}
		if taken[p] {
			t.Fatalf("two requests from %v have identifier %d", p.from, p.identifier)
		}
		taken[p] = true
	}
	c, err := tr.Open(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin(); !errors.Is(err, errIdentifiers) {
		t.Errorf("one more: %v", err)
	}
	for p := range taken {
		answer(t, s, header(p.identifier), p.from)
	}
	for _, c := range conns {
		mustReceive(t, c, header(c.identifier))
		c.Close()
	}
	if _, err := c.Begin(); err != nil { // all have been answered
		t.Errorf("after the answers: %v", err)
	}
}

// An answer to a transaction that is over is nothing to the next one.
func TestLateAnswer(t *testing.T) {
	tr := shared(t)
	s, addr := silentServer(t)
	c := begin(t, tr, addr)
	defer c.Close()
	late := c.identifier
	again(t, c)
	from := client(t, s)
	answer(t, s, header(late), from)
	answer(t, s, header(c.identifier), from)
	mustReceive(t, c, header(c.identifier))
	mustBeSilent(t, c)
}

// An identifier rests unless every transmission with it was answered.
func TestUnansweredIdentifiersRest(t *testing.T) {
	tr := shared(t)
	_, addr := silentServer(t)
	opened, err := tr.Open(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	c := opened.(*sharedConn)
	defer c.Close()
	for _, tt := range []struct {
		sent, answered int
		rests          bool
	}{{1, 1, false}, {1, 0, true}, {3, 2, true}, {2, 2, false}, {1, 2, false}, {1, 0, true}, {0, 0, false}} {
		id, err := c.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for range tt.sent {
			if err := c.Send(header(id)); err != nil {
				t.Fatal(err)
			}
		}
		for range tt.answered {
			c.socket.deliver(addr, header(id))
		}
		ids := c.socket.peers[addr]
		c.end()
		if got := ids.expected(id); got != tt.rests {
			t.Errorf("%d of %d answered: rests %v", tt.answered, tt.sent, got)
		}
	}
}

// What cannot be told apart is for every transaction with the server to judge.
func TestDatagramForAnybody(t *testing.T) {
	tr := shared(t)
	s, addr := silentServer(t)
	_, elsewhere := silentServer(t)
	one, two, other := begin(t, tr, addr), begin(t, tr, addr), begin(t, tr, elsewhere)
	defer one.Close()
	defer two.Close()
	defer other.Close()
	from := client(t, s)
	for _, b := range [][]byte{{}, {1}, header(one.identifier)[:headerLength-1], header(one.identifier + 100)} {
		answer(t, s, b, from)
		mustReceive(t, one, b)
		mustReceive(t, two, b)
	}
	mustBeSilent(t, other)
}

// A flood is dropped, as by a socket, and what comes after it is heard again.
func TestFlood(t *testing.T) {
	tr := shared(t)
	_, addr := silentServer(t)
	c := begin(t, tr, addr)
	defer c.Close()
	for range 3 * inboxSize {
		c.socket.deliver(addr, []byte("junk"))
	}
	for range inboxSize { // it does not keep the transaction from its end
		if b, err := c.Receive(t.Context(), time.Now()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("received % x, %v after the deadline", b, err)
		}
	}
	for range inboxSize {
		mustReceive(t, c, []byte("junk"))
	}
	c.socket.deliver(addr, header(c.identifier))
	mustReceive(t, c, header(c.identifier))
}

// A Conn is used again; the next transaction must not find what the last one left.
func TestInboxIsEmptied(t *testing.T) {
	tr := shared(t)
	_, addr := silentServer(t)
	c := begin(t, tr, addr)
	c.socket.deliver(addr, header(c.identifier))
	again(t, c)
	mustBeSilent(t, c)
	c.socket.deliver(addr, header(c.identifier))
	c.Close()
	mustBeSilent(t, c)
}

// A socket that breaks is the host's fault, and the next transaction has a new one.
func TestBrokenSocket(t *testing.T) {
	tr := shared(t)
	s, addr := silentServer(t)
	c := begin(t, tr, addr)
	defer c.Close()
	client(t, s)
	broken := c.socket
	_ = broken.conn.Close()
	if b, err := c.Receive(t.Context(), time.Now().Add(wait)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("received % x, %v", b, err)
	}
	if err := c.Send(header(c.identifier)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("sending: %v", err)
	}
	if r := tr.routes[addr]; !r.until.IsZero() {
		t.Error("the route is not looked up again")
	}
	if _, ok := broken.reserve(c); ok {
		t.Error("the broken socket has an identifier left")
	}
	again(t, c)
	if c.socket == broken {
		t.Error("the broken socket is used again")
	}
	answer(t, s, header(c.identifier), client(t, s))
	mustReceive(t, c, header(c.identifier))
}

// A server stays on its socket when its route is looked up again.
func TestHome(t *testing.T) {
	tr := shared(t)
	_, one := silentServer(t)
	_, two := silentServer(t)
	for range 2 {
		for home, addr := range []netip.AddrPort{one, two} {
			c := begin(t, tr, addr)
			c.socket.deliver(addr, header(c.identifier))
			c.Close()
			if got := tr.routes[addr].home; got != home {
				t.Errorf("server %d is at home on socket %d", home, got)
			}
			tr.forget(addr)
		}
	}
}

// A silent server is asked from another socket the next time, one that answers from
// the same.
func TestSilenceMoves(t *testing.T) {
	tr := shared(t)
	s, addr := silentServer(t)
	ports := map[uint16]bool{}
	for n := 1; n <= sharedSockets+1; n++ {
		c := begin(t, tr, addr)
		ports[client(t, s).Port()] = true
		c.Close()
		if want := min(n, sharedSockets); len(ports) != want {
			t.Fatalf("%d silent transactions from %d ports, want %d", n, len(ports), want)
		}
	}
	home := tr.routes[addr].home
	for range 3 {
		c := begin(t, tr, addr)
		answer(t, s, header(c.identifier), client(t, s))
		mustReceive(t, c, header(c.identifier))
		c.Close()
	}
	if got := tr.routes[addr].home; got != home {
		t.Errorf("a server that answers has moved from socket %d to %d", home, got)
	}
	one, other := begin(t, tr, addr), begin(t, tr, addr)
	one.Close()
	other.Close()
	if got, want := tr.routes[addr].home, (home+1)%sharedSockets; got != want {
		t.Errorf("two silent transactions at a time have moved a server from socket %d to %d, want %d", home, got, want)
	}
}

// descriptors counts those of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// However many servers are probed, the descriptors stay few, and Close gives them
// back.
func TestDescriptors(t *testing.T) {
	tr := shared(t)
	s, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	port := s.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	before := descriptors(t)
	for i := range 1000 { // addresses of this host, on Linux
		begin(t, tr, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(1 + i/250), byte(1 + i%250)}), port))
	}
	if got := descriptors(t) - before; got != sharedSockets {
		t.Errorf("%d descriptors for 1,000 servers, want %d", got, sharedSockets)
	}
	for _, socket := range tr.sockets {
		if n := len(socket.peers); n < 1000/sharedSockets || n > 1000/sharedSockets+1 {
			t.Errorf("%d servers on a socket", n)
		}
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	if got := descriptors(t) - before; got != 0 || len(tr.sockets) != 0 {
		t.Errorf("%d descriptors and %d sockets are left after Close", got, len(tr.sockets))
	}
}
