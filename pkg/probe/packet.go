package probe

import (
	"crypto/md5"
	"errors"
	"fmt"
	"net/netip"
	"slices"

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
	*signer
	fits   []radius.Code // of the answers
	wire   []byte        // the encoded request
	policy fleet.MessageAuthenticator
	seen   bool // policy auto: an answer without Message-Authenticator is wrong
}

// newTransaction encodes a new request of the host with the given local
// address: random authenticator, Message-Authenticator first.
func newTransaction(r Request, q question, s *signer, identifier byte, local netip.Addr) (*transaction, error) {
	if len(s.secret) == 0 {
		return nil, errors.New("shared secret is empty")
	}
	p := radius.New(q.code, s.secret)
	p.Identifier = identifier
	wire, err := encode(p, q, s, r, local)
	if err != nil {
		return nil, err
	}
	return &transaction{
		signer: s,
		fits:   q.fits,
		wire:   wire,
		policy: r.MessageAuthenticator,
		seen:   r.MessageAuthenticatorSeen,
	}, nil
}

// encode fills the packet and returns it in wire format.
func encode(p *radius.Packet, q question, s *signer, r Request, local netip.Addr) ([]byte, error) {
	// First in the packet, where an attacker cannot put a chosen prefix before
	// it (CVE-2024-3596). It counts as zeros in its own calculation.
	p.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, messageAuthenticatorLength))
	if err := q.fill(p); err != nil {
		return nil, err
	}
	if err := addNAS(p, r, local); err != nil {
		return nil, err
	}
	if err := addAttributes(p, r.Attributes); err != nil {
		return nil, err
	}
	hashed := p.Code == radius.CodeAccountingRequest
	if hashed {
		// The authenticator is a hash of the packet, in which it is zeros itself.
		p.Authenticator = [16]byte{}
	}
	wire, err := p.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	copy(wire[headerLength+2:], s.messageAuthenticator(wire))
	if hashed {
		copy(wire[4:headerLength], s.authenticator(wire))
	}
	return wire, nil
}

// addNAS adds what identifies the prober: NAS-Identifier unless it is empty,
// and the address of the family in use (RFC 2865 section 5.4, RFC 3162 section
// 2.1) unless the request has one of its own.
func addNAS(p *radius.Packet, r Request, local netip.Addr) error {
	if len(r.NASIdentifier) > maxAttributeValue {
		return fmt.Errorf("NAS-Identifier is longer than %d octets", maxAttributeValue)
	}
	if r.NASIdentifier != "" {
		if err := rfc2865.NASIdentifier_AddString(p, r.NASIdentifier); err != nil {
			return fmt.Errorf("adding NAS-Identifier: %w", err)
		}
	}
	if r.has(rfc2865.NASIPAddress_Type) || r.has(rfc3162.NASIPv6Address_Type) {
		return nil
	}
	switch local = local.Unmap(); {
	case local.Is4():
		p.Add(rfc2865.NASIPAddress_Type, local.AsSlice())
	case local.Is6():
		p.Add(rfc3162.NASIPv6Address_Type, local.AsSlice())
	}
	return nil
}

// addAttributes adds the attributes that the configuration asks for.
func addAttributes(p *radius.Packet, list []fleet.Attribute) error {
	for _, a := range list {
		if len(a.Value) > maxAttributeValue {
			return fmt.Errorf("attribute %s is longer than %d octets", a.Name, maxAttributeValue)
		}
		if a.Vendor == 0 {
			p.Add(radius.Type(a.Type), a.Value)
			continue
		}
		// RFC 2865 section 5.26: type and length of the vendor's attribute, its value.
		value, err := radius.NewVendorSpecific(a.Vendor, append([]byte{a.Type, byte(2 + len(a.Value))}, a.Value...))
		if err != nil {
			return fmt.Errorf("adding attribute %s: %w", a.Name, err)
		}
		p.Add(rfc2865.VendorSpecific_Type, value)
	}
	return nil
}

// has tells whether the configuration asks for a standard attribute.
func (r Request) has(kind radius.Type) bool {
	return slices.ContainsFunc(r.Attributes, func(a fleet.Attribute) bool {
		return a.Vendor == 0 && radius.Type(a.Type) == kind
	})
}
