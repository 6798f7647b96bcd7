package transport

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// ICMP quotes at least eight octets after the IP header, and that is the UDP
// header: the transaction may have to be guessed.
func TestErrorQuotes(t *testing.T) {
	for _, tt := range []struct {
		name     string
		quoted   func(one, two byte) []byte
		one, two bool
	}{
		{"nothing", func(_, _ byte) []byte { return nil }, true, true},
		{"the code", func(_, _ byte) []byte { return []byte{1} }, true, true},
		{"the identifier", func(one, _ byte) []byte { return header(one)[:2] }, true, false},
		{"the header", func(_, two byte) []byte { return header(two) }, false, true},
		{"a transaction that is over", func(one, _ byte) []byte { return header(one - 1) }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := shared(t)
			_, addr := silentServer(t)
			_, elsewhere := silentServer(t)
			one, two, other := begin(t, tr, addr), begin(t, tr, addr), begin(t, tr, elsewhere)
			one.socket.deliverError(addr, tt.quoted(one.identifier, two.identifier), syscall.EHOSTUNREACH)
			for c, want := range map[*sharedConn]bool{one: tt.one, two: tt.two, other: false} {
				if got := len(c.inbox) > 0; got != want {
					t.Errorf("told: %v, want %v", got, want)
				}
				if want {
					if _, err := c.Receive(t.Context(), time.Now().Add(wait)); !errors.Is(err, syscall.EHOSTUNREACH) {
						t.Errorf("got %v", err)
					}
				}
				c.Close()
			}
		})
	}
}

func TestICMPError(t *testing.T) {
	// struct sock_extended_err: errno, origin, type, code, pad, info, data; then the
	// address of who sent the ICMP message.
	message := func(level, kind int, errno syscall.Errno, origin byte) []byte {
		const length = 16 + syscall.SizeofSockaddrInet4
		b := make([]byte, syscall.CmsgSpace(length))
		binary.NativeEndian.PutUint64(b, uint64(syscall.CmsgLen(length)))
		binary.NativeEndian.PutUint32(b[8:], uint32(level))
		binary.NativeEndian.PutUint32(b[12:], uint32(kind))
		binary.NativeEndian.PutUint32(b[16:], uint32(errno))
		b[20] = origin
		return b
	}
	timestamp := message(syscall.SOL_SOCKET, syscall.SO_TIMESTAMP, 1, 2)
	tests := []struct {
		name    string
		control []byte
		want    syscall.Errno // 0 for none
	}{
		{"ICMP", message(syscall.IPPROTO_IP, syscall.IP_RECVERR, syscall.ECONNREFUSED, 2), syscall.ECONNREFUSED},
		{"ICMPv6", message(syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR, syscall.EHOSTUNREACH, 3), syscall.EHOSTUNREACH},
		{"after another message", append(timestamp, message(syscall.IPPROTO_IP, syscall.IP_RECVERR, syscall.ENETUNREACH, 2)...), syscall.ENETUNREACH},
		{"of this host", message(syscall.IPPROTO_IP, syscall.IP_RECVERR, syscall.EMSGSIZE, 1), 0},
		{"another message", timestamp, 0},
		{"none", nil, 0},
		{"cut off", message(syscall.IPPROTO_IP, syscall.IP_RECVERR, syscall.ECONNREFUSED, 2)[:20], 0},
	}
	for _, tt := range tests {
		if got, ok := icmpError(tt.control); got != tt.want || ok != (tt.want != 0) {
			t.Errorf("%s: got %v, %v", tt.name, got, ok)
		}
	}
}

// What routers say of a network, host or port is heard, for the transaction that
// it is about, though the socket is not connected. That a datagram was too long is
// nothing: the next transmission is fragmented.
func TestUnreachable(t *testing.T) {
	raw, err := net.ListenPacket("ip4:icmp", "127.0.0.1")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("no raw socket to send ICMP messages with: %v", err)
	}
	defer func() { _ = raw.Close() }()
	for code, want := range map[byte]syscall.Errno{
		0: syscall.ENETUNREACH, 1: syscall.EHOSTUNREACH, 3: syscall.ECONNREFUSED, 13: syscall.EHOSTUNREACH, // RFC 792, RFC 1812
	} {
		tr := shared(t)
		s, addr := silentServer(t)
		_, elsewhere := silentServer(t)
		one, other := begin(t, tr, addr), begin(t, tr, elsewhere)
		from := client(t, s)
		for _, code := range []byte{4, code} {
			if _, err := raw.WriteTo(unreachable(code, from, addr), &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := one.Receive(t.Context(), time.Now().Add(wait)); !errors.Is(err, want) {
			t.Errorf("code %d: received % x, %v, want %v", code, b, err, want)
		}
		mustBeSilent(t, other)
		one.Close()
		other.Close()
	}
}

// unreachable is the ICMP message that a datagram could not be delivered. It quotes
// as little of it as RFC 792 allows: the IP header and the UDP header.
func unreachable(code byte, from, to netip.AddrPort) []byte {
	b := []byte{3, code, 0, 0, 0, 0, 0xff, 0xff} // the end is the MTU, with code 4
	b = append(b, 0x45, 0, 0, 48, 0, 0, 0, 0, 64, syscall.IPPROTO_UDP, 0, 0)
	b = append(append(b, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = append(b, 0, 28, 0, 0)
	var sum uint32
	for at := 0; at < len(b); at += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[at:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum+sum>>16))
	return b
}
