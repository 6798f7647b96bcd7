package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// receiveBuffer is what is asked of the kernel, which gives as much as it may.
	receiveBuffer = 1 << 20
	// sendAttempts bounds how often a datagram is sent again because the socket
	// reports the error of another one.
	sendAttempts = 16
)

// socket is one that several servers share.
type socket struct {
	conn *net.UDPConn
	raw  syscall.RawConn

	mu     sync.Mutex
	peers  map[netip.AddrPort]*identifiers
	failed bool
}

// listen opens a socket that hears of ICMP errors, with the address each is about
// (ip(7) and ipv6(7), IP_RECVERR and IPV6_RECVERR).
func listen(network string, control Control) (*socket, error) {
	level, option := syscall.IPPROTO_IP, syscall.IP_RECVERR
	if network == "udp6" {
		level, option = syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR
	}
	config := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		if control != nil {
			if err := control(network, address, c); err != nil {
				return err
			}
		}
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), level, option, 1) }), err)
	}}
	packets, err := config.ListenPacket(context.Background(), network, ":0")
	if err != nil {
		return nil, err
	}
	conn := packets.(*net.UDPConn)
	raw, err := conn.SyscallConn()
	if err = errors.Join(err, conn.SetReadBuffer(receiveBuffer)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &socket{conn: conn, raw: raw, peers: map[netip.AddrPort]*identifiers{}}, nil
}

// reserve begins a transaction; false if the socket has no identifier for it.
func (s *socket) reserve(c *sharedConn) (byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed {
		return 0, false
	}
	ids := s.peers[c.server]
	if ids == nil {
		ids = &identifiers{next: byte(rand.Uint32()), waiting: map[byte]*sharedConn{}, late: map[byte]time.Time{}}
		s.peers[c.server] = ids
	}
	c.answered = 0
	return ids.reserve(c)
}

// release ends a transaction, and tells whether the server has answered it. Nothing
// is put into its inbox from then on.
func (s *socket) release(c *sharedConn) (heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[c.server].release(c.identifier, c.answered >= c.sent)
	return c.answered > 0
}

// send sends a datagram. A socket reports the ICMP error of any earlier one
// instead of sending, so then it is tried again.
func (s *socket) send(datagram []byte, to netip.AddrPort) error {
	for attempt := 1; ; attempt++ {
		_, err := s.conn.WriteToUDPAddrPort(datagram, to)
		if err == nil || !isICMP(err) || attempt == sendAttempts {
			return err
		}
		s.readErrors()
	}
}

// read hands out what arrives until the socket fails, and returns why.
func (s *socket) read() error {
	b := make([]byte, maxDatagram)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		switch {
		case err == nil:
			s.deliver(from, b[:n])
		case isICMP(err):
			s.readErrors()
		default:
			_ = s.conn.Close()
			return err
		}
	}
}

// deliver gives a datagram to whom it may be for. One of an address that nobody
// asked is for nobody.
func (s *socket) deliver(from netip.AddrPort, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ids := s.peers[from]; ids != nil {
		ids.addressees(b, func(c *sharedConn) { c.put(arrival{datagram: bytes.Clone(b)}) })
	}
}

// fail tells all transactions that the socket is of no use any more.
func (s *socket) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
	for _, ids := range s.peers {
		for _, c := range ids.waiting {
			c.put(arrival{err: err})
		}
	}
}

// readErrors empties the socket's error queue. Whoever was told of an error by
// the socket must do so: the socket tells of each only once.
func (s *socket) readErrors() {
	// The name is where the datagram went, the data what the error quotes of it.
	quoted, control := make([]byte, headerLength), make([]byte, 256)
	_ = s.raw.Control(func(fd uintptr) {
		for {
			n, controls, _, to, err := syscall.Recvmsg(int(fd), quoted, control, syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return // empty, or closed
			}
			// After "fragmentation needed" the kernel fragments what is sent again.
			if errno, ok := icmpError(control[:controls]); ok && errno != syscall.EMSGSIZE {
				s.deliverError(addrPort(to), quoted[:n], errno)
			}
		}
	})
}

// deliverError gives an ICMP error to the transaction whose datagram it quotes,
// or to all with that server if it quotes too little to tell.
func (s *socket) deliverError(to netip.AddrPort, quoted []byte, errno syscall.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.peers[to]
	if ids == nil {
		return
	}
	failure := arrival{err: fmt.Errorf("ICMP: %w", errno)}
	if len(quoted) > 1 {
		if c := ids.waiting[quoted[1]]; c != nil {
			c.put(failure)
		}
		return
	}
	for _, c := range ids.waiting {
		c.put(failure)
	}
}

// icmpError finds the error among the control messages of an entry of the error
// queue, if it came from the network (struct sock_extended_err of recv(2)).
func icmpError(control []byte) (syscall.Errno, bool) {
	const originICMP, originICMP6 = 2, 3
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for _, m := range messages {
		ipv4 := m.Header.Level == syscall.IPPROTO_IP && m.Header.Type == syscall.IP_RECVERR
		ipv6 := m.Header.Level == syscall.IPPROTO_IPV6 && m.Header.Type == syscall.IPV6_RECVERR
		if (ipv4 || ipv6) && len(m.Data) >= 5 && (m.Data[4] == originICMP || m.Data[4] == originICMP6) {
			return syscall.Errno(binary.NativeEndian.Uint32(m.Data)), true
		}
	}
	return 0, false
}

func addrPort(sa syscall.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// isICMP tells whether an error of the socket may be one that the kernel makes of
// an ICMP message. This host's own lack of a route looks the same.
func isICMP(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains([]syscall.Errno{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENOPROTOOPT,
		syscall.ENONET, syscall.EOPNOTSUPP, syscall.EPROTO, syscall.EACCES, syscall.EMSGSIZE,
	}, errno)
}
