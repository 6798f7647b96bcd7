package fleet

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"layeh.com/radius/debug"
	"layeh.com/radius/dictionary"
)

// The octets that a value may have, RFC 2865 section 5, and what one of a
// vendor's has around it, section 5.26.
const (
	maxAttributeLength = 253
	vendorHeaderLength = 6
)

// ownAttributes are set by the prober itself, or would spoil what it measures.
func ownAttributes() []string {
	return []string{
		"User-Name", "User-Password", "CHAP-Password", "CHAP-Challenge", "State", "Proxy-State", "EAP-Message",
		"Message-Authenticator", "NAS-Identifier", "Acct-Status-Type", "Acct-Session-Id", "Acct-Session-Time", "Vendor-Specific",
	}
}

// vendorDictionary holds the attributes of vendors that policies of common
// servers look at in requests. The standard ones come with layeh.com/radius.
func vendorDictionary() []*dictionary.Vendor {
	attribute := func(name string, kind int, of dictionary.AttributeType) *dictionary.Attribute {
		return &dictionary.Attribute{Name: name, OID: dictionary.OID{kind}, Type: of}
	}
	return []*dictionary.Vendor{
		{Name: "Cisco", Number: 9, Attributes: []*dictionary.Attribute{
			attribute("Cisco-AVPair", 1, dictionary.AttributeString),
			attribute("Cisco-NAS-Port", 2, dictionary.AttributeString),
		}},
		{Name: "Airespace", Number: 14179, Attributes: []*dictionary.Attribute{
			attribute("Airespace-Wlan-Id", 1, dictionary.AttributeInteger),
		}},
		{Name: "Aruba", Number: 14823, Attributes: []*dictionary.Attribute{
			attribute("Aruba-Essid-Name", 5, dictionary.AttributeString),
			attribute("Aruba-Location-Id", 6, dictionary.AttributeString),
			attribute("Aruba-AP-Group", 10, dictionary.AttributeString),
		}},
	}
}

// lookUp finds an attribute by its name, and its vendor's number; 0 for none.
func lookUp(name string) (*dictionary.Attribute, int) {
	if a := dictionary.AttributeByName(debug.IncludedDictionary.Attributes, name); a != nil {
		return a, 0
	}
	for _, v := range vendorDictionary() {
		if a := dictionary.AttributeByName(v.Attributes, name); a != nil {
			return a, v.Number
		}
	}
	return nil, 0
}

// knownAttributes lists the names that lookUp finds.
func knownAttributes() []string {
	var names []string
	for _, a := range debug.IncludedDictionary.Attributes {
		names = append(names, a.Name)
	}
	for _, v := range vendorDictionary() {
		for _, a := range v.Attributes {
			names = append(names, a.Name)
		}
	}
	return names
}

// encodeAttribute encodes one value of a dictionary's attribute.
func encodeAttribute(name, text string) (Attribute, error) {
	entry, vendor := lookUp(name)
	switch {
	case entry == nil:
		return Attribute{}, fmt.Errorf("%s is not an attribute of the dictionary%s", quote(name), suggest(name, knownAttributes()))
	case slices.Contains(ownAttributes(), name):
		return Attribute{}, errors.New("is set by the prober itself")
	case entry.FlagEncrypt.Valid:
		return Attribute{}, errors.New("is encrypted, which is not supported here")
	case len(entry.OID) != 1:
		return Attribute{}, errors.New("is a part of another attribute, which is not supported here")
	}
	value, err := encodeValue(entry, text)
	if err != nil {
		return Attribute{}, err
	}
	longest := maxAttributeLength
	if vendor != 0 {
		longest -= vendorHeaderLength
	}
	if len(value) < 1 || len(value) > longest {
		return Attribute{}, fmt.Errorf("must be 1 to %d bytes long, not %d", longest, len(value))
	}
	return Attribute{Name: name, Vendor: uint32(vendor), Type: uint8(entry.OID[0]), Value: value}, nil
}

// encodeValue encodes text as the type of the attribute asks for.
func encodeValue(entry *dictionary.Attribute, text string) ([]byte, error) {
	switch entry.Type {
	case dictionary.AttributeString:
		return []byte(text), nil
	case dictionary.AttributeOctets:
		if digits, isHex := strings.CutPrefix(text, "0x"); isHex {
			value, err := hex.DecodeString(digits)
			if err != nil {
				return nil, fmt.Errorf("%s is not hex after 0x", quote(text))
			}
			return value, nil
		}
		return []byte(text), nil
	case dictionary.AttributeInteger:
		return encodeInteger(entry.Name, text)
	case dictionary.AttributeIPAddr, dictionary.AttributeIPv6Addr:
		addr, err := netip.ParseAddr(text)
		if v4 := entry.Type == dictionary.AttributeIPAddr; err != nil || addr.Zone() != "" || addr.Is4() != v4 {
			family := "IPv6"
			if v4 {
				family = "IPv4"
			}
			return nil, fmt.Errorf("must be an %s address, not %s", family, quote(text))
		}
		return addr.AsSlice(), nil
	case dictionary.AttributeDate:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.Unix() < 0 || at.Unix() > math.MaxUint32 {
			return nil, fmt.Errorf("must be a time like 2026-01-31T12:00:00Z, not %s", quote(text))
		}
		return binary.BigEndian.AppendUint32(nil, uint32(at.Unix())), nil
	}
	return nil, fmt.Errorf("has the type %s, which is not supported here", entry.Type)
}

// encodeInteger encodes a number, or a value's name in the dictionary.
func encodeInteger(name, text string) ([]byte, error) {
	values := dictionary.ValuesByAttribute(debug.IncludedDictionary.Values, name)
	var names []string
	for _, v := range values {
		if strings.EqualFold(v.Name, text) {
			return binary.BigEndian.AppendUint32(nil, uint32(v.Number)), nil
		}
		names = append(names, v.Name)
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		known := "a whole number"
		if len(names) > 0 {
			known += " or one of " + strings.Join(names, ", ")
		}
		return nil, fmt.Errorf("must be %s, not %s", known, quote(text))
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
}

// attributes encodes the attributes of a probe, sorted by name.
func (r *resolver) attributes(given setting[map[string]attributeForm]) []Attribute {
	var list []Attribute
	for _, name := range slices.Sorted(maps.Keys(given.value)) {
		at := r.at(join(given.key, name))
		r.checkFilled(at, len(given.value[name]), "value")
		for _, value := range given.value[name] {
			a, err := encodeAttribute(name, value.text)
			if err != nil {
				r.fail(at, "%v", err)
				break
			}
			list = append(list, a)
		}
	}
	return list
}
