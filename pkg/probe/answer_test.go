package probe

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// reply makes an authentic answer to a transaction by other code than the one
// under test: with the given attributes, and with a Message-Authenticator that
// is right wherever one of 16 zeros stands.
func reply(t testing.TB, tr *transaction, code radius.Code, attributes ...radius.AVP) []byte {
	t.Helper()
	p := &radius.Packet{Code: code, Identifier: tr.wire[1], Secret: tr.secret}
	copy(p.Authenticator[:], tr.wire[4:20])
	for _, a := range attributes {
		p.Add(a.Type, bytes.Clone(a.Attribute))
	}
	for _, a := range p.Attributes {
		if a.Type == rfc2869.MessageAuthenticator_Type && bytes.Equal(a.Attribute, make([]byte, 16)) {
			wire, err := p.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			mac := hmac.New(md5.New, tr.secret)
			mac.Write(wire)
			a.Attribute = mac.Sum(nil)
		}
	}
	wire, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// sign makes the Response Authenticator of an answer right again.
func sign(tr *transaction, wire []byte) []byte {
	copy(wire[4:20], tr.wire[4:20])
	sum := md5.Sum(append(bytes.Clone(wire), tr.secret...))
	copy(wire[4:20], sum[:])
	return wire
}

// avp is an attribute with text as its value.
func avp(kind radius.Type, value string) radius.AVP {
	return radius.AVP{Type: kind, Attribute: radius.Attribute(value)}
}

// messageAuthenticator is one that reply fills in.
func messageAuthenticator() radius.AVP {
	return avp(rfc2869.MessageAuthenticator_Type, strings.Repeat("\x00", 16))
}

func TestReadOutcomes(t *testing.T) {
	tests := []struct {
		code radius.Code
		want health.Outcome
		err  error
	}{
		{radius.CodeAccessAccept, health.Accept, nil},
		{radius.CodeAccessReject, health.Reject, nil},
		{radius.CodeAccessChallenge, health.Challenge, nil}, // F09
		{radius.CodeAccountingResponse, "", errCode},
		{radius.CodeDisconnectACK, "", errCode},
	}
	for _, tt := range tests {
		t.Run(tt.code.String(), func(t *testing.T) {
			tr := mustTransact(t, testRequest())
			got, err := tr.read(reply(t, tr, tt.code, messageAuthenticator(), avp(rfc2865.ReplyMessage_Type, "text")))
			if !errors.Is(err, tt.err) || err == nil && accessOutcome(got.code) != tt.want {
				t.Fatalf("got %v, %v", got.code, err)
			}
			if err == nil && (!got.messageAuthenticator || string(got.text()) != "text") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestReadRefusals(t *testing.T) {
	// change spoils an honest Access-Accept of 47 octets: Message-Authenticator
	// at 20, Reply-Message "authentic" at 38.
	type change func(tr *transaction, b []byte) []byte
	signed := func(f func(b []byte)) change {
		return func(tr *transaction, b []byte) []byte { f(b); return sign(tr, b) }
	}
	tests := []struct {
		name   string
		change change
		want   error
	}{
		{"honest", func(_ *transaction, b []byte) []byte { return b }, nil},
		{"nothing", func(*transaction, []byte) []byte { return nil }, errShort},
		{"19 octets", func(_ *transaction, b []byte) []byte { return b[:19] }, errShort},
		{"20 octets of a longer packet", func(_ *transaction, b []byte) []byte { return b[:20] }, errLength},
		{"one octet short", func(_ *transaction, b []byte) []byte { return b[:len(b)-1] }, errLength},
		{"one octet of padding", func(_ *transaction, b []byte) []byte { return append(b, 7) }, nil},
		{"padded to 4096", func(_ *transaction, b []byte) []byte { return append(b, make([]byte, 4096-len(b))...) }, nil},
		{"padded beyond 4096", func(_ *transaction, b []byte) []byte { return append(b, make([]byte, 4097-len(b))...) }, nil},
		{"Length 19", signed(func(b []byte) { b[3] = 19 }), errLength},
		{"Length 0", signed(func(b []byte) { b[3] = 0 }), errLength},
		{"next Identifier", signed(func(b []byte) { b[1]++ }), errIdentifier},
		{"Access-Request", signed(func(b []byte) { b[0] = 1 }), errCode},
		{"Code 0", signed(func(b []byte) { b[0] = 0 }), errCode},
		{"echo of the request", func(tr *transaction, _ []byte) []byte { return tr.wire }, errCode},
		{"attribute longer than the packet", signed(func(b []byte) { b[39]++ }), errAttribute},
		{"attribute that leaves one octet", signed(func(b []byte) { b[39]-- }), errAttribute},
		{"attribute of length 1", signed(func(b []byte) { b[39] = 1 }), errAttribute},
		{"attribute of length 0", signed(func(b []byte) { b[39] = 0 }), errAttribute},
		{"wrong Response Authenticator", func(_ *transaction, b []byte) []byte { b[4] ^= 1; return b }, errResponseAuthenticator},
		{"last octet of it wrong", func(_ *transaction, b []byte) []byte { b[19] ^= 1; return b }, errResponseAuthenticator},
		{"text changed on the way", func(_ *transaction, b []byte) []byte { b[40] ^= 1; return b }, errResponseAuthenticator},
		{"another answer's code", func(_ *transaction, b []byte) []byte { b[0] = 3; return b }, errResponseAuthenticator},
		{"wrong Message-Authenticator", signed(func(b []byte) { b[22] ^= 1 }), errMessageAuthenticator},
		{"last octet of it wrong", signed(func(b []byte) { b[37] ^= 1 }), errMessageAuthenticator},
		{"text changed and signed anew", signed(func(b []byte) { b[40] ^= 1 }), errMessageAuthenticator},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := mustTransact(t, testRequest())
			honest := reply(t, tr, radius.CodeAccessAccept, messageAuthenticator(), avp(rfc2865.ReplyMessage_Type, "authentic"))
			_, err := tr.read(tt.change(tr, honest))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// F01: Length 20 in a datagram of 24 is an answer, Length 30 is not.
func TestReadPadding(t *testing.T) {
	tr := mustTransact(t, testRequest())
	bare := reply(t, tr, radius.CodeAccessAccept)
	if len(bare) != 20 {
		t.Fatalf("%d octets", len(bare))
	}
	padded := append(bytes.Clone(bare), 1, 2, 3, 4)
	if got, err := tr.read(padded); err != nil || got.code != radius.CodeAccessAccept {
		t.Errorf("Length 20 in 24: %v, %v", got.code, err)
	}
	long := bytes.Clone(padded)
	binary.BigEndian.PutUint16(long[2:], 30)
	if _, err := tr.read(sign(tr, long)); !errors.Is(err, errLength) {
		t.Errorf("Length 30 in 24: %v", err)
	}
}

// The longest packet is 4,096 octets, RFC 2865 section 3.
func TestReadLongest(t *testing.T) {
	for _, tt := range []struct {
		length int
		want   error
	}{{4095, nil}, {4096, nil}, {4097, errLength}} {
		tr := mustTransact(t, testRequest())
		b := reply(t, tr, radius.CodeAccessAccept)
		for len(b) < tt.length {
			n := min(tt.length-len(b), 255)
			if rest := tt.length - len(b) - n; rest == 1 {
				n-- // an attribute has two octets at least
			}
			b = append(b, append([]byte{26, byte(n)}, make([]byte, n-2)...)...)
		}
		binary.BigEndian.PutUint16(b[2:], uint16(tt.length))
		if _, err := tr.read(sign(tr, b)); !errors.Is(err, tt.want) {
			t.Errorf("%d octets: got %v, want %v", tt.length, err, tt.want)
		}
	}
}

func TestMessageAuthenticatorPolicies(t *testing.T) {
	right := messageAuthenticator()
	wrong := avp(rfc2869.MessageAuthenticator_Type, strings.Repeat("\x01", 16))
	short := avp(rfc2869.MessageAuthenticator_Type, strings.Repeat("\x01", 15))
	long := avp(rfc2869.MessageAuthenticator_Type, strings.Repeat("\x01", 17))
	text := avp(rfc2865.ReplyMessage_Type, "text")
	const (
		auto     = fleet.MessageAuthenticatorAuto
		required = fleet.MessageAuthenticatorRequired
		off      = fleet.MessageAuthenticatorOff
	)
	tests := []struct {
		name       string
		policy     fleet.MessageAuthenticator
		seen       bool
		attributes []radius.AVP
		present    bool
		err        error
	}{
		{"auto, right", auto, false, []radius.AVP{right}, true, nil},
		{"auto, right but last", auto, false, []radius.AVP{text, right}, true, nil},
		{"auto, right and seen before", auto, true, []radius.AVP{right}, true, nil},
		{"auto, wrong", auto, false, []radius.AVP{wrong}, false, errMessageAuthenticator},
		{"auto, absent", auto, false, []radius.AVP{text}, false, nil},
		{"auto, absent but seen before", auto, true, []radius.AVP{text}, false, errMessageAuthenticatorMissing},
		{"auto, two", auto, false, []radius.AVP{right, right}, false, errMessageAuthenticatorForm},
		{"auto, 15 octets", auto, false, []radius.AVP{short}, false, errMessageAuthenticatorForm},
		{"auto, 17 octets", auto, false, []radius.AVP{long}, false, errMessageAuthenticatorForm},
		{"unset is auto, absent", "", false, nil, false, nil},
		{"unset is auto, absent but seen before", "", true, nil, false, errMessageAuthenticatorMissing},
		{"unset is auto, wrong", "", false, []radius.AVP{wrong}, false, errMessageAuthenticator},
		{"required, right", required, false, []radius.AVP{right}, true, nil},
		{"required, wrong", required, false, []radius.AVP{wrong}, false, errMessageAuthenticator},
		{"required, absent", required, false, []radius.AVP{text}, false, errMessageAuthenticatorMissing},
		{"off, right", off, false, []radius.AVP{right}, false, nil},
		{"off, wrong", off, true, []radius.AVP{wrong}, false, nil},
		{"off, two", off, false, []radius.AVP{wrong, short}, false, nil},
		{"off, absent but seen before", off, true, nil, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testRequest()
			r.MessageAuthenticator = tt.policy
			r.MessageAuthenticatorSeen = tt.seen
			tr := mustTransact(t, r)
			got, err := tr.read(reply(t, tr, radius.CodeAccessAccept, tt.attributes...))
			if !errors.Is(err, tt.err) || got.messageAuthenticator != tt.present {
				t.Errorf("got present %v, %v; want present %v, %v", got.messageAuthenticator, err, tt.present, tt.err)
			}
		})
	}
}

// The examples of RFC 2865 sections 7.1 and 7.3.
func TestReadAsInRFC2865(t *testing.T) {
	tests := []struct {
		name, request, answer string
		want                  radius.Code
		text                  string
	}{
		{
			"7.1 accept",
			`01 00 00 38 0f 40 3f 94 73 97 80 57 bd 83 d5 cb 98 f4 22 7a 01 06 6e 65 6d 6f 02 12 0d be 70 8d
			 93 d4 13 ce 31 96 e4 3f 78 2a 0a ee 04 06 c0 a8 01 10 05 06 00 00 00 03`,
			`02 00 00 26 86 fe 22 0e 76 24 ba 2a 10 05 f6 bf 9b 55 e0 b2 06 06 00 00 00 01 0f 06 00 00 00 00
			 0e 06 c0 a8 01 03`,
			radius.CodeAccessAccept, "",
		},
		{
			"7.3 challenge",
			`01 02 00 39 f3 a4 7a 1f 6a 6d 76 71 0b 94 7a b9 30 41 a0 39 01 07 6d 6f 70 73 79 02 12 33 65 75
			 73 77 82 89 b5 70 88 5e 15 08 48 25 c5 04 06 c0 a8 01 10 05 06 00 00 00 07`,
			`0b 02 00 4e 36 f3 c8 76 4a e8 c7 11 57 40 3c 0c 71 ff 9c 45 12 30 43 68 61 6c 6c 65 6e 67 65 20
			 33 32 37 36 39 34 33 30 2e 20 20 45 6e 74 65 72 20 72 65 73 70 6f 6e 73 65 20 61 74 20 70 72 6f
			 6d 70 74 2e 18 0a 33 32 37 36 39 34 33 30`,
			radius.CodeAccessChallenge, "Challenge 32769430.  Enter response at prompt.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := &transaction{fits: accessRequest(nil).fits, wire: unhex(t, tt.request), signer: newSigner(Secret("xyzzy5461"))}
			got, err := tr.read(unhex(t, tt.answer))
			if err != nil || got.code != tt.want || string(got.text()) != tt.text || got.messageAuthenticator {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestReplyMessage(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name  string
		parts []string
		want  string
	}{
		{"none", nil, ""},
		{"empty", []string{""}, ""},
		{"one", []string{"Access denied"}, "Access denied"},
		{"several, in order", []string{"one", "two", "three"}, "one two three"},
		{"control bytes", []string{"bell\x07\r\n\x1b[31m\x7f\x00"}, `bell\x07\x0d\x0a\x1b[31m\x7f\x00`},
		{"UTF-8", []string{"Zugang verweigert für é世"}, "Zugang verweigert für é世"},
		{"invalid UTF-8", []string{"caf\xe9 \xc3"}, `caf\xe9 \xc3`},
		{"control characters of Unicode", []string{"\u0085\u202eevil\u2028\U000e0001"}, `\u0085\u202eevil\u2028\U000e0001`},
		{"replacement character", []string{"\ufffd"}, "\ufffd"},
		{"backslash", []string{`CORP\bob \x07`}, `CORP\\bob \\x07`},
		{"252 bytes", []string{text(252)}, text(252)},
		{"253 bytes", []string{text(253)}, text(253)},
		{"254 bytes in two", []string{text(200), text(53)}, text(200) + " " + text(52)},
		{"cut before a character", []string{text(252) + "\xc3", "\xa9"}, text(252)},
		{"cut before an escape", []string{text(250) + "\x07"}, text(250)},
		{"escape that just fits", []string{text(249) + "\x07"}, text(249) + `\x07`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := mustTransact(t, testRequest())
			var parts []radius.AVP
			for _, p := range tt.parts {
				parts = append(parts, avp(rfc2865.ReplyMessage_Type, p))
			}
			got, err := tr.read(reply(t, tr, radius.CodeAccessReject, parts...))
			if shown := printable(got.text()); err != nil || shown != tt.want {
				t.Errorf("got %q, %v; want %q", shown, err, tt.want)
			}
		})
	}
}

// FuzzRead checks that no datagram makes the parser panic, and that every
// answer it takes is authentic by another implementation. With resign, the
// Response Authenticator is made right, so that what is behind it is reached.
func FuzzRead(f *testing.F) {
	r := testRequest()
	tr := mustTransact(f, r)
	tr.wire[1] = 42 // the corpus must fit from one run to the next
	copy(tr.wire[4:20], "authenticator 16")
	seeds := [][]byte{
		nil,
		[]byte("\xde\xad\xbe"),
		tr.wire,
		reply(f, tr, radius.CodeAccessAccept),
		reply(f, tr, radius.CodeAccessAccept, messageAuthenticator()),
		reply(f, tr, radius.CodeAccessReject, avp(rfc2865.ReplyMessage_Type, "a\x07\xff"), messageAuthenticator()),
		reply(f, tr, radius.CodeAccessChallenge, messageAuthenticator(), messageAuthenticator()),
		reply(f, tr, radius.CodeAccountingResponse),
		append(reply(f, tr, radius.CodeAccessAccept, messageAuthenticator()), 0, 0, 0, 0),
	}
	policies := []fleet.MessageAuthenticator{
		fleet.MessageAuthenticatorAuto, fleet.MessageAuthenticatorRequired, fleet.MessageAuthenticatorOff,
	}
	for i, seed := range seeds {
		f.Add(seed, i%2 == 0, uint8(i), i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, datagram []byte, resign bool, policy uint8, seen bool) {
		tr := &transaction{fits: tr.fits, wire: tr.wire, signer: tr.signer, policy: policies[int(policy)%len(policies)], seen: seen}
		if length := claimed(datagram); resign && length >= 20 {
			sign(tr, datagram[:length])
		}
		before := bytes.Clone(datagram)
		got, err := tr.read(datagram)
		if !bytes.Equal(before, datagram) {
			t.Error("the datagram was changed")
		}
		if err != nil {
			if o := outcomeOf(err); o != health.BadAuthenticator && o != health.Malformed {
				t.Errorf("%v counts as %s", err, o)
			}
			return
		}
		text := printable(got.text())
		if len(text) > 253 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("Reply-Message %q", text)
		}
		b := datagram[:claimed(datagram)]
		p, err := radius.Parse(b, tr.secret)
		if err != nil {
			t.Fatalf("accepted what does not parse: %v", err)
		}
		if p.Identifier != 42 || !radius.IsAuthenticResponse(b, tr.wire, tr.secret) {
			t.Error("accepted what is not authentic")
		}
		value, present := p.Lookup(rfc2869.MessageAuthenticator_Type)
		if tr.policy != fleet.MessageAuthenticatorOff && present != got.messageAuthenticator {
			t.Error("Message-Authenticator was overlooked")
		}
		_, eap := p.Lookup(rfc2869.EAPMessage_Type)
		if !present && (tr.policy == fleet.MessageAuthenticatorRequired || tr.policy == fleet.MessageAuthenticatorAuto && (seen || eap)) {
			t.Error("accepted without Message-Authenticator")
		}
		if got.messageAuthenticator {
			mine := bytes.Clone(value)
			copy(p.Authenticator[:], tr.wire[4:20])
			p.Set(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, 16))
			wire, _ := p.MarshalBinary()
			mac := hmac.New(md5.New, tr.secret)
			mac.Write(wire)
			if !hmac.Equal(mac.Sum(nil), mine) {
				t.Error("accepted a wrong Message-Authenticator")
			}
		}
	})
}

// claimed is the length that a datagram claims, 0 if it cannot be.
func claimed(datagram []byte) int {
	if len(datagram) < 20 {
		return 0
	}
	length := int(binary.BigEndian.Uint16(datagram[2:]))
	if length < 20 || length > len(datagram) {
		return 0
	}
	return length
}

// A server that tells its user the password must not bring it into a row.
func TestSecretsOfTheServersWordsAreRedacted(t *testing.T) {
	c := Credentials{SharedSecret: Secret("s3cr\\et"), Username: "u", Password: Secret("p4ss")}
	for text, want := range map[string]string{
		"welcome":             "welcome",
		"your password: p4ss": "your password: [redacted]",
		`p4ss s3cr\et`:        "[redacted] [redacted]",
		`s3cr\\et`:            "[redacted]",
	} {
		if got := c.redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
