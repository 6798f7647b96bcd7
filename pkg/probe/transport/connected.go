package transport

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Connected opens a connected socket for each Conn, on which the kernel reports
// ICMP errors without ado, and which is a flow of its own to what is in between.
// The zero value is ready to use, by any number of goroutines.
type Connected struct {
	Control Control
	Limit   int // sockets open at once, for one more Open waits; 0 means any number

	setup sync.Once
	free  *semaphore.Weighted
}

// Open opens a socket.
func (t *Connected) Open(ctx context.Context, server netip.AddrPort) (Conn, error) {
	t.setup.Do(func() { t.free = semaphore.NewWeighted(int64(cmp.Or(t.Limit, math.MaxInt))) })
	if err := t.free.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	dialer := net.Dialer{Control: t.Control}
	socket, err := dialer.DialUDP(ctx, "udp", netip.AddrPort{}, server)
	if err != nil {
		t.free.Release(1)
		return nil, err
	}
	return &connectedConn{transport: t, socket: socket, identifier: byte(rand.Uint32())}, nil
}

// Close has nothing to do: a socket is closed with its Conn.
func (t *Connected) Close() error { return nil }

// connectedConn is a Conn with a socket of its own.
type connectedConn struct {
	transport  *Connected
	socket     *net.UDPConn
	identifier byte
	datagram   [maxDatagram]byte
}

func (c *connectedConn) Local() netip.Addr {
	return c.socket.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

func (c *connectedConn) Begin() (byte, error) {
	c.identifier++
	return c.identifier, nil
}

func (c *connectedConn) Send(request []byte) error {
	_, err := c.socket.Write(request)
	return err
}

func (c *connectedConn) Receive(ctx context.Context, deadline time.Time) ([]byte, error) {
	if err := c.socket.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.socket.SetReadDeadline(time.Unix(0, 0)) })
	defer stop()
	n, err := c.socket.Read(c.datagram[:])
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c.datagram[:n], nil
}

func (c *connectedConn) Close() {
	_ = c.socket.Close()
	c.transport.free.Release(1)
}
