// Package responder is a RADIUS server that costs as little as it can: it
// accepts every Access-Request, at any number of addresses, and looks at
// nothing in it but the presence of a Message-Authenticator. Benchmarks use it
// so that what they measure is the client.
package responder

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"net"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	batch        = 128     // datagrams of one system call
	buffer       = 4 << 20 // octets of the socket, for a burst of requests
	headerLength = 20      // of a RADIUS packet, RFC 2865 section 3

	codeAccessRequest        = 1
	codeAccessAccept         = 2
	typeMessageAuthenticator = 80
)

// Server answers on one port of all IPv4 addresses of the host; on Linux all of
// 127.0.0.0/8 is its own, so that it can stand for thousands of servers.
type Server struct {
	Secret []byte
	Delay  time.Duration // from request to answer
	Silent bool          // answer nothing

	conn *ipv4.PacketConn
}

// Listen opens the port; 0 takes a free one. It returns the port.
func (s *Server) Listen(port int) (int, error) {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		return 0, fmt.Errorf("opening the responder's port: %w", err)
	}
	if err := errors.Join(udp.SetReadBuffer(buffer), udp.SetWriteBuffer(buffer)); err != nil {
		return 0, fmt.Errorf("setting the responder's buffers: %w", err)
	}
	s.conn = ipv4.NewPacketConn(udp)
	// An answer must come from the address that was asked.
	if err := s.conn.SetControlMessage(ipv4.FlagDst, true); err != nil {
		return 0, fmt.Errorf("asking for destination addresses: %w", err)
	}
	return udp.LocalAddr().(*net.UDPAddr).Port, nil
}

// due is answers to send at a time.
type due struct {
	at      time.Time
	answers []ipv4.Message
}

// Serve answers until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	later := make(chan due, 1<<16)
	defer close(later)
	go func() {
		for d := range later {
			time.Sleep(time.Until(d.at))
			s.send(d.answers)
		}
	}()

	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, 4096)}
		messages[i].OOB = ipv4.NewControlMessage(ipv4.FlagDst)
	}
	signer := newSigner(s.Secret)
	for {
		n, err := s.conn.ReadBatch(messages, 0)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			continue // an ICMP error about an earlier answer
		}
		if s.Silent {
			continue
		}
		answers := make([]ipv4.Message, 0, n)
		for i := range messages[:n] {
			if a, ok := answerTo(&messages[i], signer); ok {
				answers = append(answers, a)
			}
		}
		if s.Delay > 0 {
			later <- due{time.Now().Add(s.Delay), answers}
			continue
		}
		s.send(answers)
	}
}

// send writes the answers; one that cannot be sent is lost, as on a network.
func (s *Server) send(answers []ipv4.Message) {
	for len(answers) > 0 {
		n, err := s.conn.WriteBatch(answers, 0)
		if err != nil {
			n = 1
		}
		answers = answers[n:]
	}
}

// answerTo makes the Access-Accept for a request.
func answerTo(m *ipv4.Message, s *signer) (ipv4.Message, bool) {
	request := m.Buffers[0][:m.N]
	var asked ipv4.ControlMessage
	if !complete(request) || asked.Parse(m.OOB[:m.NN]) != nil {
		return ipv4.Message{}, false
	}
	from := ipv4.ControlMessage{Src: asked.Dst}
	return ipv4.Message{Buffers: [][]byte{s.accept(request)}, Addr: m.Addr, OOB: from.Marshal()}, true
}

// complete tells whether a datagram is an Access-Request with a
// Message-Authenticator.
func complete(b []byte) bool {
	if len(b) < headerLength || b[0] != codeAccessRequest || int(binary.BigEndian.Uint16(b[2:])) != len(b) {
		return false
	}
	for at := headerLength; at+1 < len(b) && b[at+1] >= 2; at += int(b[at+1]) {
		if b[at] == typeMessageAuthenticator {
			return true
		}
	}
	return false
}

// signer makes answers under a shared secret.
type signer struct {
	secret []byte
	mac    hash.Hash
	sum    hash.Hash
}

func newSigner(secret []byte) *signer {
	return &signer{secret, hmac.New(md5.New, secret), md5.New()}
}

// accept is the Access-Accept to a request, with a Message-Authenticator, RFC
// 3579 section 3.2, and the Response Authenticator, RFC 2865 section 3.
func (s *signer) accept(request []byte) []byte {
	const length = headerLength + 2 + md5.Size
	b := make([]byte, length)
	b[0], b[1] = codeAccessAccept, request[1]
	binary.BigEndian.PutUint16(b[2:], length)
	copy(b[4:], request[4:headerLength])
	b[headerLength], b[headerLength+1] = typeMessageAuthenticator, 2+md5.Size
	s.mac.Reset()
	s.mac.Write(b)
	s.mac.Sum(b[:headerLength+2])
	s.sum.Reset()
	s.sum.Write(b)
	s.sum.Write(s.secret)
	s.sum.Sum(b[:4])
	return b
}
