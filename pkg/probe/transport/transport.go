// Package transport carries RADIUS requests to servers over UDP, and what comes
// back: datagrams, and ICMP errors. It reads of a packet nothing but its
// Identifier.
//
// It differs from a connected socket for each probe in what it costs. A socket
// takes more time than the packets of a probe, and a Lambda function has 1,024
// descriptors, so on Linux a few sockets are kept and shared by all servers.
package transport

import (
	"context"
	"net/netip"
	"syscall"
	"time"
)

const (
	headerLength = 20   // octets before the attributes, RFC 2865 section 3
	maxDatagram  = 4096 // octets of a packet, RFC 2865 section 3; what is beyond can only be padding
)

// Conn is a way to one server, for one transaction at a time. It is for use by
// one goroutine.
type Conn interface {
	// Local is the address that the server is asked from.
	Local() netip.Addr

	// Begin begins a transaction, after the one before it if there was one, and
	// returns the Identifier that its requests must carry. No other transaction
	// with the server that could be mistaken for it has the same.
	Begin() (identifier byte, err error)

	// Send sends a request. An error is one of this host; that of an earlier
	// datagram, which the network reported, is left to Receive.
	Send(request []byte) error

	// Receive waits for the next datagram of the server that may be for the
	// transaction. The error is os.ErrDeadlineExceeded at the deadline, the cause of
	// the context's end, or wraps the errno of the socket: what the network reported
	// by ICMP, or a fault of this host.
	Receive(ctx context.Context, deadline time.Time) ([]byte, error)

	// Close ends the transaction. The Conn must not be used after it.
	Close()
}

// Control is called with every new socket, as that of net.Dialer is. It may be nil.
type Control func(network, address string, c syscall.RawConn) error
