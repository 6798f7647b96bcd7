package probe

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"

	"radwitness/pkg/health"
)

// The messages of EAP-MSCHAPv2 (draft-kamath-pppext-eap-mschapv2).
const (
	opChallenge byte = 1
	opResponse  byte = 2
	opSuccess   byte = 3
	opFailure   byte = 4
)

// The statuses in the result TLV that ends the inner method.
const (
	resultSuccess byte = 1
	resultFailure byte = 2
)

// peapMSCHAPv2 is PEAPv0 with EAP-MSCHAPv2 inside (draft-kamath-pppext-peapv0),
// as Windows does it. The server proves itself twice: by its certificate, if the
// policy asks for that, and by knowing the password.
func peapMSCHAPv2(c *conversation) (health.Outcome, error) {
	p, err := offer(c, eapPEAP)
	if err != nil || p.over {
		return p.outcomeBefore(err)
	}
	t, conn, err := openTunnel(p, eapPEAP)
	if err != nil || t.over {
		return t.outcomeBefore(err)
	}
	inner := innerMethod{credentials: c.request.Credentials}
	for {
		message, err := t.receiveMessage(conn)
		if err != nil {
			return "", err
		}
		if message == nil {
			break
		}
		reply, err := inner.answer(message, t.latest.identifier)
		if err != nil {
			return "", err
		}
		if err := send(t, conn, reply); err != nil {
			return "", err
		}
	}
	if t.outcome == health.Reject {
		c.result.Reason = inner.reason
	}
	return t.concluded(inner.proven)
}

// send writes a message into the tunnel.
func send(t *tunnel, conn *tls.Conn, message []byte) error {
	_, err := conn.Write(message)
	return t.explain(err)
}

// innerMethod is the peer of the method inside PEAP: bytes in, bytes out.
type innerMethod struct {
	credentials Credentials
	response    mschapResponse
	proven      bool   // the server has shown that it knows the password
	reason      string // why it rejects
}

// answer returns the response to an inner request. outer is the identifier of
// the request around it, which PEAPv0 leaves out inside.
func (m *innerMethod) answer(message []byte, outer byte) ([]byte, error) {
	request, whole, err := parseInner(message, outer)
	if err != nil {
		return nil, err
	}
	response := eapPacket{code: eapResponse, identifier: request.identifier, kind: request.kind}
	switch request.kind {
	case eapIdentity:
		response.data = []byte(m.credentials.Username)
	case eapNotification:
	case eapMSCHAPv2:
		if response.data, err = m.mschap(request.data); err != nil {
			return nil, err
		}
	case eapExtensions:
		status, err := parseResult(request.data)
		if err != nil {
			return nil, err
		}
		if status == resultSuccess && !m.proven {
			return nil, errImpostor
		}
		response.data = request.data
	default:
		response.kind, response.data = eapNAK, []byte{byte(eapMSCHAPv2)}
	}
	encoded := response.encode()
	if whole {
		return encoded, nil
	}
	return encoded[eapHeaderLength:], nil
}

// parseInner reads an inner request. PEAPv0 leaves out the EAP header of all but
// the result TLV; some servers have one around the identity request as well, and
// then, as with the peers of those servers, the response has none. whole says
// that the response needs the header.
func parseInner(message []byte, outer byte) (request eapPacket, whole bool, err error) {
	if p, err := parseEAP(message); err == nil && p.code == eapRequest && int(binary.BigEndian.Uint16(message[2:])) == len(message) {
		if p.kind == eapExtensions {
			return p, true, nil
		}
		if p.kind == eapIdentity && len(p.data) == 0 {
			return p, false, nil
		}
	}
	if len(message) == 0 {
		return eapPacket{}, false, fmt.Errorf("%w: an empty message in the tunnel", errEAP)
	}
	return eapPacket{code: eapRequest, identifier: outer, kind: eapType(message[0]), data: message[1:]}, false, nil
}

// mschap answers a message of EAP-MSCHAPv2: operation, identifier, length, and
// what the operation has.
func (m *innerMethod) mschap(b []byte) ([]byte, error) {
	const header = 4
	if len(b) < header || int(binary.BigEndian.Uint16(b[2:])) != len(b) {
		return nil, fmt.Errorf("%w: EAP-MSCHAPv2 does not parse", errEAP)
	}
	body := b[header:]
	switch b[0] {
	case opChallenge:
		if len(body) < 1+challengeLength || body[0] != challengeLength {
			return nil, fmt.Errorf("%w: a challenge that is not of %d octets", errEAP, challengeLength)
		}
		var err error
		if m.response, err = newMSCHAPResponse(m.credentials, body[1:1+challengeLength]); err != nil {
			return nil, err
		}
		reply := []byte{opResponse, b[1], 0, 0, mschapResponseLength + 1}
		reply = append(reply, m.response.wire()...)
		reply = append(reply, 0) // flags
		reply = append(reply, m.credentials.Username...)
		binary.BigEndian.PutUint16(reply[2:], uint16(len(reply)))
		return reply, nil
	case opSuccess:
		if len(m.response.proof) == 0 || !m.response.proves(body) {
			return nil, errImpostor
		}
		m.proven = true
		return []byte{opSuccess}, nil
	case opFailure:
		m.reason = parseMSCHAPFailure(body).reason()
		return []byte{opFailure}, nil
	}
	return nil, fmt.Errorf("%w: EAP-MSCHAPv2 operation %d", errEAP, b[0])
}

// parseResult reads the status of a result TLV: type 3 with the mandatory bit,
// length 2, status.
func parseResult(b []byte) (byte, error) {
	if len(b) < 6 || binary.BigEndian.Uint16(b)&0x3fff != 3 || binary.BigEndian.Uint16(b[2:]) != 2 || b[4] != 0 {
		return 0, fmt.Errorf("%w: a result TLV does not parse", errEAP)
	}
	switch b[5] {
	case resultSuccess, resultFailure:
		return b[5], nil
	}
	return 0, fmt.Errorf("%w: result %d", errEAP, b[5])
}
