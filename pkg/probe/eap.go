package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"

	"radwitness/pkg/health"
)

// errEAP is an answer whose EAP content does not parse or does not fit.
var errEAP = errors.New("bad EAP")

// eapCode is the Code of an EAP packet, RFC 3748 section 4.
type eapCode byte

const (
	eapRequest  eapCode = 1
	eapResponse eapCode = 2
)

// eapType is the Type of an EAP request or response, RFC 3748 section 5.
type eapType byte

const (
	eapIdentity     eapType = 1
	eapNotification eapType = 2
	eapNAK          eapType = 3
	eapMD5          eapType = 4
	eapTTLS         eapType = 21 // RFC 5281
	eapPEAP         eapType = 25
	eapMSCHAPv2     eapType = 26
	eapExtensions   eapType = 33 // the result TLV of PEAP
)

const (
	eapHeaderLength = 4 // code, identifier, length
	// maxEAPMessages bounds a conversation that a server never ends.
	maxEAPMessages = 64
	// framedMTU tells the server how long its EAP packets may be, RFC 3579 section
	// 2.4: short enough that no datagram is fragmented on the way.
	framedMTU = 1344
)

// eapPacket is an EAP request or response.
type eapPacket struct {
	code       eapCode
	identifier byte
	kind       eapType
	data       []byte // after the type
}

// parseEAP reads an EAP request or response. Octets beyond its length are
// padding of the lower layer, RFC 3748 section 4.
func parseEAP(b []byte) (eapPacket, error) {
	if len(b) < eapHeaderLength+1 {
		return eapPacket{}, fmt.Errorf("%w: packet of %d octets", errEAP, len(b))
	}
	length := int(binary.BigEndian.Uint16(b[2:]))
	if length < eapHeaderLength+1 || length > len(b) {
		return eapPacket{}, fmt.Errorf("%w: length %d in %d octets", errEAP, length, len(b))
	}
	return eapPacket{
		code: eapCode(b[0]), identifier: b[1], kind: eapType(b[eapHeaderLength]), data: b[eapHeaderLength+1 : length],
	}, nil
}

// encode returns the packet on the wire.
func (p eapPacket) encode() []byte {
	b := make([]byte, eapHeaderLength, eapHeaderLength+1+len(p.data))
	b[0], b[1] = byte(p.code), p.identifier
	binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
	b = append(b, byte(p.kind))
	return append(b, p.data...)
}

// peer is the client's end of an EAP conversation inside RADIUS, RFC 3579.
type peer struct {
	*conversation
	latest  eapPacket // the newest request of the server's
	state   radius.Attribute
	asked   int
	over    bool           // the server has accepted or rejected
	outcome health.Outcome // once over
}

// offer begins the conversation and leads the server to a method; it returns
// the peer with the server's first request of that method.
func offer(c *conversation, kind eapType) (*peer, error) {
	p := &peer{conversation: c, latest: eapPacket{identifier: 1}}
	if err := p.respond(eapIdentity, []byte(c.request.Credentials.Username)); err != nil || p.over {
		return p, err
	}
	if p.latest.kind != kind {
		// The server began with another method: ask for ours, RFC 3748 section 5.3.1.
		if err := p.respond(eapNAK, []byte{byte(kind)}); err != nil || p.over {
			return p, err
		}
	}
	if p.latest.kind != kind {
		return p, fmt.Errorf("%w: the server wants type %d", errEAP, p.latest.kind)
	}
	return p, nil
}

// respond answers the server's newest request and gets the next one, or the
// end of the conversation. Notifications are acknowledged on the way.
func (p *peer) respond(kind eapType, data []byte) error {
	for {
		if err := p.turn(kind, data); err != nil || p.over || p.latest.kind != eapNotification {
			return err
		}
		kind, data = eapNotification, nil
	}
}

// turn is one transaction.
func (p *peer) turn(kind eapType, data []byte) error {
	if p.asked++; p.asked > maxEAPMessages {
		return fmt.Errorf("%w: no end after %d messages", errEAP, maxEAPMessages)
	}
	message := eapPacket{code: eapResponse, identifier: p.latest.identifier, kind: kind, data: data}.encode()
	a, err := p.ask(accessRequest(func(packet *radius.Packet) error {
		if err := addUserName(packet, p.request.Credentials.Username); err != nil {
			return err
		}
		if !p.request.has(rfc2865.FramedMTU_Type) {
			packet.Add(rfc2865.FramedMTU_Type, radius.NewInteger(framedMTU))
		}
		if len(p.state) > 0 {
			packet.Add(rfc2865.State_Type, p.state)
		}
		// A message may take several attributes, RFC 3579 section 3.1.
		for part := range slices.Chunk(message, maxAttributeValue) {
			packet.Add(rfc2869.EAPMessage_Type, part)
		}
		return nil
	}))
	if err != nil {
		return err
	}
	if a.code != radius.CodeAccessChallenge {
		p.over, p.outcome = true, accessOutcome(a.code)
		return nil
	}
	p.state = a.attributes.Get(rfc2865.State_Type)
	request, err := parseEAP(eapMessage(a.attributes))
	if err != nil {
		return err
	}
	if request.code != eapRequest {
		return fmt.Errorf("%w: a challenge with code %d", errEAP, request.code)
	}
	p.latest = request
	return nil
}

// eapMessage joins the EAP-Message attributes of a packet, RFC 3579 section 3.1.
func eapMessage(attributes radius.Attributes) []byte {
	var message []byte
	for _, a := range attributes {
		if a.Type == rfc2869.EAPMessage_Type {
			message = append(message, a.Attribute...)
		}
	}
	return message
}

// concluded reads the end of a conversation in which the server has proven
// itself or not. An early accept is an impostor's.
func (p *peer) concluded(proven bool) (health.Outcome, error) {
	if p.outcome == health.Accept && !proven {
		return "", errImpostor
	}
	return p.outcome, nil
}
