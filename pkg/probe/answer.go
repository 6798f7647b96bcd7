package probe

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"

	"radwitness/pkg/fleet"
)

// The reasons to refuse a datagram. outcomeOf says what each makes of a probe.
var (
	errShort                       = errors.New("answer is shorter than 20 octets")
	errLength                      = errors.New("answer's Length does not fit the datagram")
	errIdentifier                  = errors.New("answer has another Identifier than the request")
	errCode                        = errors.New("answer's Code does not fit the request")
	errAttribute                   = errors.New("answer has an attribute that does not parse")
	errMessageAuthenticatorForm    = errors.New("answer has more than one Message-Authenticator or one of a wrong length")
	errResponseAuthenticator       = errors.New("wrong Response Authenticator, as from another shared secret")
	errMessageAuthenticator        = errors.New("wrong Message-Authenticator")
	errMessageAuthenticatorMissing = errors.New("answer without Message-Authenticator")
)

// maxReplyMessage is the longest text that is kept of an answer, in bytes.
const maxReplyMessage = 253

// answer is an authentic answer to a transaction.
type answer struct {
	code                 radius.Code
	attributes           radius.Attributes
	messageAuthenticator bool // it carried a valid one
}

// text is the answer's Reply-Message; several are joined by a space.
func (a answer) text() []byte {
	var parts [][]byte
	for _, avp := range a.attributes {
		if avp.Type == rfc2865.ReplyMessage_Type && len(avp.Attribute) > 0 {
			parts = append(parts, avp.Attribute)
		}
	}
	return bytes.Join(parts, []byte(" "))
}

// read judges a datagram: the answer, or the reason to refuse it. What cannot
// be an answer is told before what is not authentic, so that an echo of the
// request does not look like a wrong secret.
func (t *transaction) read(datagram []byte) (answer, error) {
	if len(datagram) < headerLength {
		return answer{}, errShort
	}
	length := int(binary.BigEndian.Uint16(datagram[2:]))
	if length < headerLength || length > min(len(datagram), radius.MaxPacketLength) {
		return answer{}, errLength
	}
	// Octets beyond Length are padding (RFC 2865 section 3) and in no hash.
	b := datagram[:length]
	if b[1] != t.wire[1] {
		return answer{}, errIdentifier
	}
	code := radius.Code(b[0])
	if !slices.Contains(t.fits, code) {
		return answer{}, fmt.Errorf("%w: %v", errCode, code)
	}
	found, err := scan(b)
	if err != nil {
		return answer{}, err
	}
	if !t.authentic(b) {
		return answer{}, errResponseAuthenticator
	}
	present, err := t.checkMessageAuthenticator(b, found)
	if err != nil {
		return answer{}, err
	}
	attributes, err := radius.ParseAttributes(b[headerLength:])
	if err != nil {
		return answer{}, errAttribute
	}
	return answer{code: code, attributes: attributes, messageAuthenticator: present}, nil
}

// authentic tells whether the Response Authenticator of a packet is right, RFC
// 2865 section 3.
func (t *transaction) authentic(b []byte) bool {
	want := t.authenticator(b[:4], t.wire[4:headerLength], b[headerLength:])
	return hmac.Equal(want, b[4:headerLength])
}

// checkMessageAuthenticator applies the policy and tells whether the packet
// has a valid Message-Authenticator.
func (t *transaction) checkMessageAuthenticator(b []byte, found layout) (bool, error) {
	switch {
	case t.policy == fleet.MessageAuthenticatorOff:
		return false, nil
	case len(found.messageAuthenticators) > 1:
		return false, errMessageAuthenticatorForm
	case len(found.messageAuthenticators) == 1:
		return t.verifyMessageAuthenticator(b, found.messageAuthenticators[0])
	case t.policy == fleet.MessageAuthenticatorRequired, t.seen, found.eap: // RFC 3579 section 3.1 for EAP
		return false, errMessageAuthenticatorMissing
	}
	return false, nil
}

// verifyMessageAuthenticator checks the attribute at s, RFC 3579 section 3.2:
// an HMAC over the packet with the authenticator of the request and with zeros
// in place of the value. In an Accounting-Response, which that RFC does not
// speak of, FreeRADIUS has zeros in place of the authenticator too.
func (t *transaction) verifyMessageAuthenticator(b []byte, s span) (bool, error) {
	if s.end-s.start != messageAuthenticatorLength {
		return false, errMessageAuthenticatorForm
	}
	matches := func(authenticator []byte) bool {
		want := t.messageAuthenticator(b[:4], authenticator, b[headerLength:s.start], zeros(), b[s.end:])
		return hmac.Equal(want, b[s.start:s.end])
	}
	accounting := radius.Code(b[0]) == radius.CodeAccountingResponse
	if matches(t.wire[4:headerLength]) || accounting && matches(zeros()) {
		return true, nil
	}
	return false, errMessageAuthenticator
}

// span is where the value of an attribute stands in a packet.
type span struct{ start, end int }

// layout is what an answer holds that bears on its authenticity.
type layout struct {
	messageAuthenticators []span
	eap                   bool // it has an EAP-Message
}

// scan walks the attributes of a packet. All of them must parse.
func scan(b []byte) (layout, error) {
	var found layout
	for at := headerLength; at < len(b); {
		if len(b)-at < 2 {
			return layout{}, errAttribute
		}
		value := span{at + 2, at + int(b[at+1])}
		if value.end < value.start || value.end > len(b) {
			return layout{}, errAttribute
		}
		switch radius.Type(b[at]) {
		case rfc2869.MessageAuthenticator_Type:
			found.messageAuthenticators = append(found.messageAuthenticators, value)
		case rfc2869.EAPMessage_Type:
			found.eap = true
		}
		at = value.end
	}
	return found, nil
}

// printable turns text from the network into text that is safe to show: what
// is not printable or not UTF-8 is escaped as in a Go string, and so is the
// backslash, so that an escape cannot be forged. It is cut to maxReplyMessage
// bytes, never within a character or an escape.
func printable(text []byte) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		shown := string(text[:size])
		switch {
		case r == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x%02x`, text[0])
		case r < utf8.RuneSelf && !strconv.IsPrint(r):
			shown = fmt.Sprintf(`\x%02x`, r)
		case r == '\\':
			shown = `\\`
		case !strconv.IsPrint(r):
			shown = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if out.Len()+len(shown) > maxReplyMessage {
			break
		}
		out.WriteString(shown)
		text = text[size:]
	}
	return out.String()
}
