package probe

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"

	"radwitness/pkg/fleet"
)

var localhost = netip.MustParseAddr("127.0.0.1")

// testRequest is a request that encodes.
func testRequest() Request {
	return Request{
		Method:        fleet.PAP,
		NASIdentifier: "radwitness",
		Credentials: Credentials{
			SharedSecret: Secret("shared\x00secret\n"), // binary-safe
			Username:     "bob",
			Password:     Secret("hello"),
		},
	}
}

// mustTransact encodes a request that must encode.
func mustTransact(t testing.TB, r Request) *transaction {
	t.Helper()
	tr, err := newTransaction(r, papQuestion(r.Credentials), newSigner(r.Credentials.SharedSecret), 1, localhost)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// unhex decodes hex digits with white space between them.
func unhex(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// types lists the attribute types of a packet in their order.
func types(p *radius.Packet) []radius.Type {
	var list []radius.Type
	for _, a := range p.Attributes {
		list = append(list, a.Type)
	}
	return list
}

func TestRequestOnTheWire(t *testing.T) {
	r := testRequest()
	tr := mustTransact(t, r)
	p, err := radius.Parse(tr.wire, r.Credentials.SharedSecret)
	if err != nil {
		t.Fatal(err)
	}
	if p.Code != radius.CodeAccessRequest {
		t.Errorf("code %v", p.Code)
	}
	want := []radius.Type{
		rfc2869.MessageAuthenticator_Type, rfc2865.UserName_Type, rfc2865.UserPassword_Type,
		rfc2865.NASIdentifier_Type, rfc2865.NASIPAddress_Type,
	}
	if got := types(p); !slices.Equal(got, want) { // F10: Message-Authenticator first, no Proxy-State
		t.Errorf("attributes %v, want %v", got, want)
	}
	if got := rfc2865.UserName_GetString(p); got != "bob" {
		t.Errorf("User-Name %q", got)
	}
	if got := rfc2865.UserPassword_GetString(p); got != "hello" {
		t.Errorf("User-Password %q", got)
	}
	if got := rfc2865.NASIdentifier_GetString(p); got != "radwitness" {
		t.Errorf("NAS-Identifier %q", got)
	}
	if tr.wire[20] != 80 || tr.wire[21] != 18 {
		t.Errorf("attribute header % x, want 50 12", tr.wire[20:22])
	}
	zeroed := bytes.Clone(tr.wire)
	clear(zeroed[22:38])
	mac := hmac.New(md5.New, r.Credentials.SharedSecret)
	mac.Write(zeroed)
	if !bytes.Equal(mac.Sum(nil), tr.wire[22:38]) {
		t.Error("Message-Authenticator is wrong")
	}
}

func TestAuthenticatorsDiffer(t *testing.T) {
	authenticators := map[string]bool{}
	for range 64 {
		authenticators[string(mustTransact(t, testRequest()).wire[4:20])] = true
	}
	if len(authenticators) != 64 {
		t.Errorf("%d authenticators in 64 requests", len(authenticators))
	}
}

func TestNASAddress(t *testing.T) { // F16
	tests := []struct {
		local string
		kind  radius.Type
		value string
	}{
		{"192.0.2.1", rfc2865.NASIPAddress_Type, "c0000201"},
		{"::ffff:192.0.2.1", rfc2865.NASIPAddress_Type, "c0000201"},
		{"2001:db8::1", rfc3162.NASIPv6Address_Type, "20010db8000000000000000000000001"},
		{"fe80::1%eth0", rfc3162.NASIPv6Address_Type, "fe800000000000000000000000000001"},
	}
	for _, tt := range tests {
		t.Run(tt.local, func(t *testing.T) {
			r := testRequest()
			tr, err := newTransaction(r, papQuestion(r.Credentials), newSigner(r.Credentials.SharedSecret), 1, netip.MustParseAddr(tt.local))
			if err != nil {
				t.Fatal(err)
			}
			p, err := radius.Parse(tr.wire, tr.secret)
			if err != nil {
				t.Fatal(err)
			}
			last := p.Attributes[len(p.Attributes)-1]
			if got := hex.EncodeToString(last.Attribute); last.Type != tt.kind || got != tt.value {
				t.Errorf("type %d value %s, want type %d value %s", last.Type, got, tt.kind, tt.value)
			}
		})
	}
}

func TestConfiguredAttributes(t *testing.T) {
	r := testRequest()
	r.Attributes = []fleet.Attribute{
		{Name: "Cisco-AVPair", Vendor: 9, Type: 1, Value: []byte("a=b")},
		{Name: "NAS-IP-Address", Type: 4, Value: []byte{192, 0, 2, 7}},
		{Name: "Service-Type", Type: 6, Value: []byte{0, 0, 0, 2}},
	}
	p, err := radius.Parse(mustTransact(t, r).wire, r.Credentials.SharedSecret)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(p.Get(rfc2865.VendorSpecific_Type)); got != "00000009"+"0105613d62" {
		t.Errorf("Vendor-Specific %s", got)
	}
	// The configured address stands for the socket's own.
	want := []radius.Type{
		rfc2869.MessageAuthenticator_Type, rfc2865.UserName_Type, rfc2865.UserPassword_Type, rfc2865.NASIdentifier_Type,
		rfc2865.VendorSpecific_Type, rfc2865.NASIPAddress_Type, rfc2865.ServiceType_Type,
	}
	if got := types(p); !slices.Equal(got, want) || !rfc2865.NASIPAddress_Get(p).Equal(net.IPv4(192, 0, 2, 7)) {
		t.Errorf("attributes %v, want %v", got, want)
	}
}

func TestNASIdentifierIsOptional(t *testing.T) {
	r := testRequest()
	r.NASIdentifier = ""
	tr := mustTransact(t, r)
	p, err := radius.Parse(tr.wire, tr.secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, found := p.Lookup(rfc2865.NASIdentifier_Type); found {
		t.Error("an empty NAS-Identifier was sent")
	}
}

func TestPasswordLengths(t *testing.T) {
	binary := make([]byte, 129)
	for i := range binary {
		binary[i] = byte(255 - 2*i) // has a NUL only past its end
	}
	tests := []struct{ length, hidden int }{
		{0, 16}, {1, 16}, {15, 16}, {16, 16}, {17, 32}, {31, 32}, {32, 32}, {33, 48}, {127, 128}, {128, 128},
	}
	for _, tt := range tests {
		r := testRequest()
		r.Credentials.Password = binary[:tt.length]
		tr := mustTransact(t, r)
		p, err := radius.Parse(tr.wire, tr.secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.Get(rfc2865.UserPassword_Type)); got != tt.hidden {
			t.Errorf("password of %d octets takes %d, want %d", tt.length, got, tt.hidden)
		}
		if got := rfc2865.UserPassword_Get(p); !bytes.Equal(got, binary[:tt.length]) {
			t.Errorf("password of %d octets: got % x", tt.length, got)
		}
	}
}

func TestRequestThatCannotBeEncoded(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name   string
		change func(*Request)
		reason string // none if empty
	}{
		{"password of 128", func(r *Request) { r.Credentials.Password = Secret(text(128)) }, ""},
		{"password of 129", func(r *Request) { r.Credentials.Password = Secret(text(129)) }, "password is longer than 128 octets"},
		{"no user name", func(r *Request) { r.Credentials.Username = "" }, "user name is empty"},
		{"user name of 253", func(r *Request) { r.Credentials.Username = text(253) }, ""},
		{"user name of 254", func(r *Request) { r.Credentials.Username = text(254) }, "user name is longer than 253 octets"},
		{"NAS-Identifier of 253", func(r *Request) { r.NASIdentifier = text(253) }, ""},
		{"NAS-Identifier of 254", func(r *Request) { r.NASIdentifier = text(254) }, "NAS-Identifier is longer than 253 octets"},
		{"no shared secret", func(r *Request) { r.Credentials.SharedSecret = nil }, "shared secret is empty"},
		{"empty shared secret", func(r *Request) { r.Credentials.SharedSecret = Secret{} }, "shared secret is empty"},
		{"attribute of 253", func(r *Request) {
			r.Attributes = []fleet.Attribute{{Name: "Class", Type: 25, Value: []byte(text(253))}}
		}, ""},
		{"attribute of 254", func(r *Request) {
			r.Attributes = []fleet.Attribute{{Name: "Class", Type: 25, Value: []byte(text(254))}}
		}, "attribute Class is longer than 253 octets"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testRequest()
			tt.change(&r)
			_, err := newTransaction(r, papQuestion(r.Credentials), newSigner(r.Credentials.SharedSecret), 1, localhost)
			switch {
			case tt.reason == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.reason != "" && (err == nil || err.Error() != tt.reason):
				t.Errorf("got %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestSupported(t *testing.T) {
	want := []fleet.Method{
		fleet.Accounting, fleet.CHAP, fleet.EAPMD5, fleet.TTLS, fleet.MSCHAPv2, fleet.PAP, fleet.PEAP, fleet.StatusServer,
	}
	if got := Supported(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, name := range []fleet.Method{"", "kerberos"} {
		if _, err := methodOf(name); err == nil || err.Error() != fmt.Sprintf("method %q is not supported", name) {
			t.Errorf("method %q: %v", name, err)
		}
	}
}

// The examples of RFC 2865 sections 7.1 and 7.3.
func TestHidePasswordAsInRFC2865(t *testing.T) {
	tests := []struct {
		name, user, password, authenticator, hidden string
	}{
		{"7.1", "nemo", "arctangent",
			"0f403f9473978057bd83d5cb98f4227a", "0dbe708d93d413ce3196e43f782a0aee"},
		{"7.3", "mopsy", "challenge",
			"f3a47a1f6a6d76710b947ab93041a039", "33657573778289b570885e15084825c5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &radius.Packet{Secret: []byte("xyzzy5461")}
			copy(p.Authenticator[:], unhex(t, tt.authenticator))
			if err := papQuestion(Credentials{Username: tt.user, Password: Secret(tt.password)}).fill(p); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(p.Get(rfc2865.UserPassword_Type)); got != tt.hidden {
				t.Errorf("got %s, want %s", got, tt.hidden)
			}
		})
	}
}
