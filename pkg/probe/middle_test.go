package probe_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// meddling is what a middle does to the datagrams that pass. The zero meddling
// is nothing. Requests and answers are counted from 0.
type meddling struct {
	drop      func(request int) bool
	answer    func(b []byte) [][]byte // what arrives instead of an answer
	delay     func(answer int) time.Duration
	elsewhere bool // answers come from another port
}

// middle stands between a client and a server, and remembers what passed.
type middle struct {
	addr netip.AddrPort

	mu     sync.Mutex
	client netip.AddrPort
	passed []datagram
}

// datagram is one that passed, as it was on the wire.
type datagram struct {
	from, to netip.AddrPort
	payload  []byte
}

// between puts a middle in front of a server until the test ends.
func between(t testing.TB, server netip.AddrPort, what meddling) *middle {
	t.Helper()
	listen := func() *net.UDPConn {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	own, other := listen(), listen()
	up, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{addr: own.LocalAddr().(*net.UDPAddr).AddrPort()}
	from := own
	if what.elsewhere {
		from = other
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		b := make([]byte, 4096)
		for request := 0; ; request++ {
			n, client, err := own.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			m.record(datagram{client, m.addr, append([]byte(nil), b[:n]...)}, client)
			if what.drop == nil || !what.drop(request) {
				_, _ = up.Write(b[:n]) // the server may be gone
			}
		}
	})
	serving.Go(func() {
		b := make([]byte, 4096)
		for answer := 0; ; answer++ {
			n, err := up.Read(b)
			if err != nil {
				return
			}
			parts := [][]byte{append([]byte(nil), b[:n]...)}
			client := m.record(datagram{m.addr, netip.AddrPort{}, parts[0]}, netip.AddrPort{})
			if what.answer != nil {
				parts = what.answer(parts[0])
			}
			if what.delay != nil && what.delay(answer) > 0 {
				time.AfterFunc(what.delay(answer), func() { send(from, client, parts...) })
				continue
			}
			send(from, client, parts...)
		}
	})
	t.Cleanup(func() { _ = own.Close(); _ = up.Close(); _ = other.Close(); serving.Wait() })
	return m
}

// record remembers a datagram, and who the client is once one is known. It
// returns the client.
func (m *middle) record(d datagram, client netip.AddrPort) netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	if client.IsValid() {
		m.client = client
	}
	if !d.to.IsValid() {
		d.to = m.client
	}
	m.passed = append(m.passed, d)
	return m.client
}

// writePCAP writes a capture of UDP over IPv4 without a link layer, LINKTYPE_RAW.
func writePCAP(t testing.TB, path string, datagrams []datagram) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = append(b, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0)
	for i, d := range datagrams {
		length := 28 + len(d.payload)
		for _, field := range []int{i, 0, length, length} { // a second apart
			b = binary.LittleEndian.AppendUint32(b, uint32(field))
		}
		ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
		binary.BigEndian.PutUint16(ip[2:], uint16(length))
		ip = append(ip, d.from.Addr().Unmap().AsSlice()...)
		ip = append(ip, d.to.Addr().Unmap().AsSlice()...)
		var sum uint32
		for at := 0; at < len(ip); at += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[at:]))
		}
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
		b = append(b, ip...)
		for _, field := range []int{int(d.from.Port()), int(d.to.Port()), 8 + len(d.payload), 0} {
			b = binary.BigEndian.AppendUint16(b, uint16(field))
		}
		b = append(b, d.payload...)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
