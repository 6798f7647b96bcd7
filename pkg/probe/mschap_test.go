package probe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/vendors/microsoft"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// scripted is a conversation whose server is a function: it gets the request
// that was made and returns the code and attributes of the answer.
func scripted(t testing.TB, r Request, answers func(p *radius.Packet) (radius.Code, radius.Attributes)) *conversation {
	t.Helper()
	c := &conversation{
		request: r, signer: newSigner(r.Credentials.SharedSecret), local: localhost, identify: func() (byte, error) { return 1, nil },
	}
	c.exchange = func(tr *transaction, _ time.Time) (answer, int, error) {
		p, err := radius.Parse(tr.wire, tr.secret)
		if err != nil {
			t.Fatal(err)
		}
		code, attributes := answers(p)
		return answer{code: code, attributes: attributes}, 1, nil
	}
	return c
}

// The example of RFC 2759 section 9.2.
func TestMSCHAPAsInRFC2759(t *testing.T) {
	challenge := unhex(t, "5b5d7c7d7b3f2f3e3c2c602132262628")
	peerChallenge := unhex(t, "21402324255e262a28295f2b3a337c7e")
	for _, user := range []string{"User", `DOMAIN\User`} { // F12
		r, err := respondMSCHAP(Credentials{Username: user, Password: Secret("clientPass")}, challenge, peerChallenge)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(r.ntResponse); got != "82309ecd8d708b5ea08faa3981cd83544233114a3d85d6df" {
			t.Errorf("%s: NT-Response %s", user, got)
		}
		if got := string(r.proof); got != "S=407A5589115FD0D6209F510FE9C04566932CDA56" {
			t.Errorf("%s: authenticator response %s", user, got)
		}
		if len(r.wire()) != 48 || !bytes.Equal(r.wire()[:16], peerChallenge) || !bytes.Equal(r.wire()[24:], r.ntResponse) {
			t.Errorf("%s: response % x", user, r.wire())
		}
	}
}

func TestMSCHAPPasswordMustBeText(t *testing.T) { // F12
	r := testRequest()
	r.Credentials.Password = Secret("\xe9a")
	_, err := mschapv2(scripted(t, r, nil))
	if err == nil || err.Error() != "password is not UTF-8, and MS-CHAP hashes its characters" || outcomeOf(err) != health.ProberError {
		t.Errorf("got %v", err)
	}
}

func TestMSCHAPv2(t *testing.T) {
	const domainUser = `CORP\bob`
	success := func(prefix string) func(proof []byte) []byte {
		return func(proof []byte) []byte { return append([]byte(prefix), proof...) }
	}
	tests := []struct {
		name    string
		code    radius.Code
		success func(proof []byte) []byte // MS-CHAP2-Success, none if nil
		failure string                    // MS-CHAP-Error, none if empty
		outcome health.Outcome
		reason  string
		err     error
	}{
		{"proven", radius.CodeAccessAccept, success("\x01"), "", health.Accept, "", nil},
		{"proven, with a message", radius.CodeAccessAccept, func(p []byte) []byte { return append(success("\x01")(p), " M=welcome"...) }, "", health.Accept, "", nil},
		{"proven in small letters", radius.CodeAccessAccept, func(p []byte) []byte { return append([]byte("\x01S="), strings.ToLower(string(p[2:]))...) }, "", health.Accept, "", nil},
		{"impostor", radius.CodeAccessAccept, nil, "", "", "", errImpostor},
		{"wrong proof", radius.CodeAccessAccept, func([]byte) []byte { return []byte("\x01S=407A5589115FD0D6209F510FE9C04566932CDA56") }, "", "", "", errImpostor},
		{"half a proof", radius.CodeAccessAccept, func(p []byte) []byte { return success("\x01")(p[:20]) }, "", "", "", errImpostor},
		{"another ident", radius.CodeAccessAccept, success("\x02"), "", "", "", errImpostor},
		{"empty success", radius.CodeAccessAccept, success(""), "", "", "", errImpostor},
		{"rejected", radius.CodeAccessReject, nil, "", health.Reject, "", nil},
		{"rejected with a reason", radius.CodeAccessReject, nil, "\x01E=648 R=0 C=00 V=3 M=change it", health.Reject, "MS-CHAP error 648: password expired (change it)", nil},
		{"challenged", radius.CodeAccessChallenge, nil, "", health.Challenge, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testRequest()
			r.Method, r.Credentials.Username = fleet.MSCHAPv2, domainUser
			c := scripted(t, r, func(p *radius.Packet) (radius.Code, radius.Attributes) {
				challenge, response := microsoft.MSCHAPChallenge_Get(p), microsoft.MSCHAP2Response_Get(p)
				if len(challenge) != 16 || len(response) != 50 || rfc2865.UserName_GetString(p) != domainUser { // F12
					t.Fatalf("challenge % x, response % x, user %q", challenge, response, rfc2865.UserName_GetString(p))
				}
				server, err := respondMSCHAP(Credentials{Username: "bob", Password: r.Credentials.Password}, challenge, response[2:18])
				if err != nil || !bytes.Equal(server.ntResponse, response[26:]) {
					t.Fatalf("the server has another NT-Response: %v", err)
				}
				q := &radius.Packet{}
				if tt.success != nil {
					if err := microsoft.MSCHAP2Success_Add(q, tt.success(server.proof)); err != nil {
						t.Fatal(err)
					}
				}
				if tt.failure != "" {
					if err := microsoft.MSCHAPError_AddString(q, tt.failure); err != nil {
						t.Fatal(err)
					}
				}
				return tt.code, q.Attributes
			})
			got, err := mschapv2(c)
			if got != tt.outcome || !errors.Is(err, tt.err) || c.result.Reason != tt.reason {
				t.Errorf("got %s (%s), %v", got, c.result.Reason, err)
			}
		})
	}
}

func TestMSCHAPFailure(t *testing.T) {
	for message, want := range map[string]string{
		"E=691 R=1 C=0123456789ABCDEF V=3 M=Authentication failure": "MS-CHAP error 691: authentication failure (Authentication failure)",
		"E=647 R=0 V=3":     "MS-CHAP error 647: account disabled",
		"E=1 R=0":           "MS-CHAP error 1",
		"E=x M=\x1b[31mred": `(\x1b[31mred)`,
		"E=-5":              "",
		"":                  "",
		"M=M=E=691":         "(M=E=691)",
	} {
		if got := parseMSCHAPFailure([]byte(message)).reason(); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}

func FuzzMSCHAPFailure(f *testing.F) {
	f.Add([]byte("E=691 R=1 C=0123456789ABCDEF V=3 M=Authentication failure"))
	f.Add([]byte("E=648\x00\xff M=\x1b[31m"))
	f.Fuzz(func(t *testing.T, message []byte) {
		reason := parseMSCHAPFailure(message).reason()
		if len(reason) > 2*maxReplyMessage || strings.ContainsFunc(reason, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("reason %q", reason)
		}
	})
}
