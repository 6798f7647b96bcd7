package transport

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// sharedSockets is the number of sockets of each address family. The kernel
	// counts up to 4 KiB for a small datagram, so that one default receive buffer
	// takes about 50: this many take the answers of 1,000 servers at once.
	sharedSockets = 32
	// routeLife is how long the local address towards a server is remembered.
	routeLife = time.Minute
	// inboxSize is how many datagrams of a server wait for one transaction.
	inboxSize = 32
)

var errIdentifiers = errors.New("too many requests wait for the server: no Identifier is free")

// Shared sends from a few sockets that all servers share. The zero value is ready
// to use, by any number of goroutines.
type Shared struct {
	Control Control

	mu      sync.Mutex
	routes  map[netip.AddrPort]*route
	sockets map[socketKey]*socket
	readers sync.WaitGroup

	conns sync.Pool // of *sharedConn
}

// socketKey is a place for a socket.
type socketKey struct {
	network string // udp4 or udp6
	index   int    // below sharedSockets
}

// route is the way to a server.
type route struct {
	local   netip.Addr
	network string
	home    int       // index of the socket to begin with
	until   time.Time // when local is to be looked up again
}

// Open prepares transactions with a server. It fails if there is no route to it.
func (t *Shared) Open(ctx context.Context, server netip.AddrPort) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	server = netip.AddrPortFrom(server.Addr().Unmap(), server.Port())
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.route(ctx, server)
	if err != nil {
		return nil, err
	}
	c, ok := t.conns.Get().(*sharedConn)
	if !ok {
		c = &sharedConn{transport: t, inbox: make(chan arrival, inboxSize), timer: time.NewTimer(0)}
	}
	c.server, c.route = server, r
	return c, nil
}

// route finds the way to a server: what a socket that is connected to it says
// about itself. A server has its own home as far as there are enough.
func (t *Shared) route(ctx context.Context, server netip.AddrPort) (*route, error) {
	r := t.routes[server]
	if r != nil && time.Now().Before(r.until) {
		return r, nil
	}
	dialer := net.Dialer{Control: t.Control}
	conn, err := dialer.DialUDP(ctx, "udp", netip.AddrPort{}, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	fresh := &route{
		local:   conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(),
		network: "udp6",
		until:   time.Now().Add(routeLife),
	}
	if server.Addr().Is4() {
		fresh.network = "udp4"
	}
	if r != nil {
		fresh.home = r.home
	} else {
		fresh.home = len(t.routes) % sharedSockets
	}
	if t.routes == nil {
		t.routes = map[netip.AddrPort]*route{}
	}
	t.routes[server] = fresh
	return fresh, nil
}

// forget has the route looked up anew.
func (t *Shared) forget(server netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.routes[server]; r != nil {
		stale := *r
		stale.until = time.Time{}
		t.routes[server] = &stale
	}
}

// move has the next transactions with a server begin on another socket, unless
// that has been done since the route was taken. What is in between may keep sending
// a flow that never rests to where nobody is any more, such as a firewall that
// failed: silence must be of the server, not of one port here.
func (t *Shared) move(server netip.AddrPort, from *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.routes[server]; r != nil && r.home == from.home {
		moved := *r
		moved.home = (r.home + 1) % sharedSockets
		t.routes[server] = &moved
	}
}

// socket returns the one with the given key, and opens it if need be.
func (t *Shared) socket(key socketKey) (*socket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sockets[key]; s != nil {
		return s, nil
	}
	s, err := listen(key.network, t.Control)
	if err != nil {
		return nil, err
	}
	if t.sockets == nil {
		t.sockets = map[socketKey]*socket{}
	}
	t.sockets[key] = s
	t.readers.Go(func() {
		err := s.read()
		t.mu.Lock()
		if t.sockets[key] == s {
			delete(t.sockets, key) // the next transaction opens another one
		}
		t.mu.Unlock()
		s.fail(err)
	})
	return s, nil
}

// Close closes the sockets. Transactions under way fail; later ones open new
// sockets.
func (t *Shared) Close() error {
	t.mu.Lock()
	var err error
	for _, s := range t.sockets {
		err = cmp.Or(err, s.conn.Close())
	}
	t.mu.Unlock()
	t.readers.Wait()
	return err
}

// arrival is what a transaction waits for.
type arrival struct {
	datagram []byte
	err      error
}

// sharedConn is a Conn over shared sockets.
type sharedConn struct {
	transport  *Shared
	server     netip.AddrPort
	route      *route
	socket     *socket // of the transaction; nil if there is none
	identifier byte
	sent       int
	answered   int // datagrams with the identifier; the socket's lock guards it
	inbox      chan arrival
	timer      *time.Timer
}

func (c *sharedConn) Local() netip.Addr { return c.route.local }

func (c *sharedConn) Begin() (byte, error) {
	c.end()
	for i := range sharedSockets {
		s, err := c.transport.socket(socketKey{c.route.network, (c.route.home + i) % sharedSockets})
		if err != nil {
			return 0, err
		}
		if id, ok := s.reserve(c); ok {
			c.socket, c.identifier, c.sent = s, id, 0
			return id, nil
		}
	}
	return 0, errIdentifiers
}

func (c *sharedConn) Send(request []byte) error {
	err := c.socket.send(request, c.server)
	if err != nil {
		c.transport.forget(c.server)
		return err
	}
	c.sent++
	return nil
}

func (c *sharedConn) Receive(ctx context.Context, deadline time.Time) ([]byte, error) {
	left := time.Until(deadline)
	if left <= 0 {
		return nil, os.ErrDeadlineExceeded // however many datagrams wait
	}
	c.timer.Reset(left)
	select {
	case a := <-c.inbox:
		return a.datagram, a.err
	case <-c.timer.C:
		return nil, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *sharedConn) Close() {
	c.end()
	c.transport.conns.Put(c)
}

// end ends the transaction, if there is one.
func (c *sharedConn) end() {
	if c.socket == nil {
		return
	}
	if heard := c.socket.release(c); c.sent > 0 && !heard {
		c.transport.move(c.server, c.route)
	}
	c.socket = nil
	for len(c.inbox) > 0 {
		<-c.inbox
	}
}

// put hands something to the transaction, or drops it if too much waits, as a
// socket does.
func (c *sharedConn) put(a arrival) {
	select {
	case c.inbox <- a:
	default:
	}
}
