package probe

import (
	"encoding/binary"
	"fmt"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"

	"radwitness/pkg/health"
)

// avpMandatory is the flag that tells the server not to ignore an AVP, RFC 5281
// section 10.1.
const avpMandatory = 0x40

// ttlsPAP is EAP-TTLSv0 with the password inside, RFC 5281 section 11.2.5.
func ttlsPAP(c *conversation) (health.Outcome, error) {
	if len(c.request.Credentials.Password) > maxUserPassword {
		return "", fmt.Errorf("password is longer than %d octets", maxUserPassword)
	}
	p, err := offer(c, eapTTLS)
	if err != nil || p.over {
		return p.outcomeBefore(err)
	}
	t, conn, err := openTunnel(p, eapTTLS)
	if err != nil || t.over {
		return t.outcomeBefore(err)
	}
	if _, err := conn.Write(ttlsPassword(c.request.Credentials)); err != nil {
		return "", t.explain(err)
	}
	message, err := t.receiveMessage(conn)
	switch {
	case err != nil:
		return "", err
	case message != nil:
		return health.Challenge, nil // the server asks for more, such as a second factor
	}
	return t.concluded(true)
}

// outcomeBefore ends a conversation that did not get to the password.
func (p *peer) outcomeBefore(err error) (health.Outcome, error) {
	if err != nil {
		return "", err
	}
	return p.concluded(false)
}

// ttlsPassword is what goes through the tunnel: User-Name and User-Password,
// the latter filled up with zeros to hide its length.
func ttlsPassword(c Credentials) []byte {
	padded := make([]byte, max(16, (len(c.Password)+15)/16*16))
	copy(padded, c.Password)
	return append(encodeAVP(rfc2865.UserName_Type, []byte(c.Username)), encodeAVP(rfc2865.UserPassword_Type, padded)...)
}

// encodeAVP encodes an attribute as RFC 5281 section 10.1 has it: code, flags,
// length without padding, value, and zeros up to a multiple of four octets.
func encodeAVP(kind radius.Type, value []byte) []byte {
	const header = 8
	length := header + len(value)
	b := make([]byte, header, (length+3)/4*4)
	binary.BigEndian.PutUint32(b, uint32(kind))
	binary.BigEndian.PutUint32(b[4:], avpMandatory<<24|uint32(length))
	b = append(b, value...)
	return b[:cap(b)]
}
