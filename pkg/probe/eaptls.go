package probe

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// errTLS is a TLS handshake or record that failed.
var errTLS = errors.New("TLS failed")

// errOver ends the TLS connection when the server has concluded.
var errOver = errors.New("the server has concluded the conversation")

// The flags that begin the data of a TLS method, RFC 5281 section 9.1, with the
// method's version in the lowest bits. Version 0 is all that is spoken here, and
// a server of a later one must come down to it.
const (
	flagLength = 0x80 // four octets with the length of the whole message follow
	flagMore   = 0x40 // more fragments follow
	flagStart  = 0x20
)

const (
	maxFragment   = 1024    // octets of TLS in one EAP packet, far below framedMTU
	maxTLSMessage = 1 << 16 // octets of one reassembled message, RFC 5216 section 2.1.5 asks for a limit
)

// tunnel carries TLS in EAP messages of one type. It is the net.Conn under
// crypto/tls: writes gather a flight, and a read that finds nothing sends it and
// waits for the server's.
type tunnel struct {
	*peer
	kind    eapType
	out, in bytes.Buffer
	err     error // the first that ended it; TLS may wrap it out of sight
}

// openTunnel makes a TLS handshake with the server and returns the connection
// inside. Check over and err of the tunnel when the connection fails.
func openTunnel(p *peer, kind eapType) (*tunnel, *tls.Conn, error) {
	t := &tunnel{peer: p, kind: kind}
	if len(p.latest.data) < 1 || p.latest.data[0]&flagStart == 0 {
		return t, nil, fmt.Errorf("%w: type %d does not begin with a start", errEAP, kind)
	}
	policy := p.request.Certificate
	conn := tls.Client(t, &tls.Config{
		MinVersion: tls.VersionTLS12,
		// EAP knows no host name, so the chain is checked by the policy below.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			seen, err := policy.check(state, time.Now())
			p.result.Certificate = seen
			if err != nil {
				t.err = err
			}
			return err
		},
	})
	return t, conn, t.explain(conn.Handshake())
}

// explain returns the error that ended the tunnel instead of what TLS made of
// it, and none if the server has concluded.
func (t *tunnel) explain(err error) error {
	switch {
	case err == nil, t.over:
		return nil
	case t.err != nil:
		return t.err
	}
	return fmt.Errorf("%w: %s", errTLS, printable([]byte(err.Error())))
}

// Write adds to the flight.
func (t *tunnel) Write(b []byte) (int, error) { return t.out.Write(b) }

// Read returns what the server sent, after a turn if there is nothing yet.
func (t *tunnel) Read(b []byte) (int, error) {
	for t.in.Len() == 0 {
		if t.err == nil {
			t.err = t.flush()
		}
		if t.err != nil {
			return 0, t.err
		}
		if t.over {
			return 0, errOver
		}
	}
	return t.in.Read(b)
}

// flush sends the flight, in fragments, and receives the server's. An empty
// flight acknowledges, which lets the server go on.
func (t *tunnel) flush() error {
	first, total := true, t.out.Len()
	for {
		fragment := t.out.Next(maxFragment)
		message := []byte{0}
		if t.out.Len() > 0 {
			message[0] |= flagMore
			if first {
				message[0] |= flagLength
				message = binary.BigEndian.AppendUint32(message, uint32(total))
			}
		}
		if err := t.respond(t.kind, append(message, fragment...)); err != nil || t.over {
			return err
		}
		if t.latest.kind != t.kind {
			return fmt.Errorf("%w: type %d within type %d", errEAP, t.latest.kind, t.kind)
		}
		if t.out.Len() == 0 {
			return t.receive()
		}
		first = false
	}
}

// receive takes the server's flight out of the newest request, and asks for
// the fragments that are still to come.
func (t *tunnel) receive() error {
	received, announced := 0, -1
	for {
		f, err := parseFragment(t.latest.data)
		if err != nil {
			return err
		}
		if f.total >= 0 && announced < 0 {
			announced = f.total
		}
		if received += len(f.data); received > maxTLSMessage {
			return fmt.Errorf("%w: a TLS message of more than %d octets", errEAP, maxTLSMessage)
		}
		t.in.Write(f.data)
		if !f.more {
			break
		}
		if err := t.respond(t.kind, []byte{0}); err != nil || t.over {
			return err
		}
		if t.latest.kind != t.kind {
			return fmt.Errorf("%w: type %d within type %d", errEAP, t.latest.kind, t.kind)
		}
	}
	if announced >= 0 && announced != received {
		return fmt.Errorf("%w: %d octets of TLS, %d were announced", errEAP, received, announced)
	}
	return nil
}

// fragment is the data of one EAP packet of a TLS method.
type fragment struct {
	more  bool
	total int // announced length of the whole message, -1 if it is not
	data  []byte
}

// parseFragment reads the data after the EAP type.
func parseFragment(b []byte) (fragment, error) {
	if len(b) < 1 {
		return fragment{}, fmt.Errorf("%w: a TLS fragment without flags", errEAP)
	}
	f := fragment{more: b[0]&flagMore != 0, total: -1, data: b[1:]}
	if b[0]&flagLength != 0 {
		if len(f.data) < 4 {
			return fragment{}, fmt.Errorf("%w: a TLS fragment without its length", errEAP)
		}
		total := binary.BigEndian.Uint32(f.data)
		if total > maxTLSMessage {
			return fragment{}, fmt.Errorf("%w: a TLS message of %d octets", errEAP, total)
		}
		f.total, f.data = int(total), f.data[4:]
	}
	return f, nil
}

// The rest of net.Conn: a tunnel has no socket of its own, and its deadline is
// the conversation's.

// Close does nothing.
func (t *tunnel) Close() error { return nil }

// LocalAddr returns no address.
func (t *tunnel) LocalAddr() net.Addr { return nil }

// RemoteAddr returns no address.
func (t *tunnel) RemoteAddr() net.Addr { return nil }

// SetDeadline does nothing.
func (t *tunnel) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (t *tunnel) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }

// receiveMessage reads one message of the method inside the tunnel: the content
// of one TLS record. It is nil if the server has concluded.
func (t *tunnel) receiveMessage(conn io.Reader) ([]byte, error) {
	buffer := make([]byte, maxTLSMessage)
	n, err := conn.Read(buffer)
	if err := t.explain(err); err != nil || t.over {
		return nil, err
	}
	return buffer[:n], nil
}
