package probe

import (
	"crypto/hmac"
	"crypto/md5"
	"errors"
	"fmt"
	"net/netip"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"

	"radwitness/pkg/fleet"
)

const (
	headerLength               = 20       // octets before the attributes, RFC 2865 section 3
	messageAuthenticatorLength = md5.Size // octets of the value, RFC 3579 section 3.2
)

// transaction is a request as it goes on the wire, with all that is needed to
// tell its answers from others. It is bytes in, bytes out: it has no socket.
type transaction struct {
	method method
	wire   []byte // the encoded request
	secret Secret
	policy fleet.MessageAuthenticator
	seen   bool // policy auto: an answer without Message-Authenticator is wrong
}

// newTransaction encodes a new request of the host with the given local
// address: random identifier and authenticator, Message-Authenticator first.
func newTransaction(r Request, local netip.Addr) (*transaction, error) {
	m, err := newMethod(r.Method)
	if err != nil {
		return nil, err
	}
	if len(r.Credentials.SharedSecret) == 0 {
		return nil, errors.New("shared secret is empty")
	}
	p := radius.New(0, r.Credentials.SharedSecret)
	wire, err := encode(p, m, r, local)
	if err != nil {
		return nil, err
	}
	return &transaction{
		method: m,
		wire:   wire,
		secret: r.Credentials.SharedSecret,
		policy: r.MessageAuthenticator,
		seen:   r.MessageAuthenticatorSeen,
	}, nil
}

// encode fills the packet and returns it in wire format.
func encode(p *radius.Packet, m method, r Request, local netip.Addr) ([]byte, error) {
	// First in the packet, where an attacker cannot put a chosen prefix before
	// it (CVE-2024-3596). It counts as zeros in its own calculation.
	p.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, messageAuthenticatorLength))
	if err := m.fill(p, r.Credentials); err != nil {
		return nil, err
	}
	if err := addNAS(p, r.NASIdentifier, local); err != nil {
		return nil, err
	}
	wire, err := p.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	mac := hmac.New(md5.New, p.Secret)
	mac.Write(wire)
	value := wire[headerLength+2:]
	mac.Sum(value[:0])
	return wire, nil
}

// addNAS adds what identifies the prober: NAS-Identifier unless it is empty,
// and the address of the family in use (RFC 2865 section 5.4, RFC 3162 section 2.1).
func addNAS(p *radius.Packet, identifier string, local netip.Addr) error {
	if len(identifier) > maxAttributeValue {
		return fmt.Errorf("NAS-Identifier is longer than %d octets", maxAttributeValue)
	}
	if identifier != "" {
		if err := rfc2865.NASIdentifier_AddString(p, identifier); err != nil {
			return fmt.Errorf("adding NAS-Identifier: %w", err)
		}
	}
	switch local = local.Unmap(); {
	case local.Is4():
		p.Add(rfc2865.NASIPAddress_Type, local.AsSlice())
	case local.Is6():
		p.Add(rfc3162.NASIPv6Address_Type, local.AsSlice())
	}
	return nil
}
