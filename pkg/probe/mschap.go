package probe

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"layeh.com/radius"
	"layeh.com/radius/rfc2759"
	"layeh.com/radius/vendors/microsoft"

	"radwitness/pkg/health"
)

// errImpostor is an answer that accepts without proof that the server knows the
// password, where the method asks for one.
var errImpostor = errors.New("the server accepts without proving that it knows the password")

// Lengths in octets, RFC 2759 and RFC 2548 section 2.3.
const (
	ntResponseLength      = 24
	mschapResponseLength  = challengeLength + 8 + ntResponseLength // peer challenge, reserved, response
	mschap2ResponseLength = 2 + mschapResponseLength               // ident and flags before it
)

// mschapv2 is an Access-Request with MS-CHAP2-Response, RFC 2548 section 2.3. An
// Access-Accept must carry the authenticator response of RFC 2759 section 8.7,
// so that a server which accepts everybody is found out.
func mschapv2(c *conversation) (health.Outcome, error) {
	challenge := make([]byte, challengeLength)
	_, _ = rand.Read(challenge) // never fails
	response, err := newMSCHAPResponse(c.request.Credentials, challenge)
	if err != nil {
		return "", err
	}
	const ident = 1
	a, err := c.ask(accessRequest(func(p *radius.Packet) error {
		if err := addUserName(p, c.request.Credentials.Username); err != nil {
			return err
		}
		if err := microsoft.MSCHAPChallenge_Add(p, challenge); err != nil {
			return fmt.Errorf("adding MS-CHAP-Challenge: %w", err)
		}
		value := append(make([]byte, 0, mschap2ResponseLength), ident, 0)
		if err := microsoft.MSCHAP2Response_Add(p, append(value, response.wire()...)); err != nil {
			return fmt.Errorf("adding MS-CHAP2-Response: %w", err)
		}
		return nil
	}))
	if err != nil {
		return "", err
	}
	p := &radius.Packet{Attributes: a.attributes}
	switch a.code {
	case radius.CodeAccessAccept:
		success := microsoft.MSCHAP2Success_Get(p)
		if len(success) == 0 || success[0] != ident || !response.proves(success[1:]) {
			return "", fmt.Errorf("%w: MS-CHAP2-Success is wrong or missing", errImpostor)
		}
	case radius.CodeAccessReject:
		if text := microsoft.MSCHAPError_Get(p); len(text) > 1 {
			c.result.Reason = parseMSCHAPFailure(text[1:]).reason()
		}
	}
	return accessOutcome(a.code), nil
}

// mschapResponse is the peer's half of an MS-CHAPv2 exchange.
type mschapResponse struct {
	peerChallenge []byte
	ntResponse    []byte
	proof         []byte // what a server that knows the password answers, RFC 2759 section 8.7
}

// newMSCHAPResponse answers a challenge with a random one of its own. The hash
// has the user name without its domain, RFC 2759 section 4.
func newMSCHAPResponse(c Credentials, challenge []byte) (mschapResponse, error) {
	peerChallenge := make([]byte, challengeLength)
	_, _ = rand.Read(peerChallenge) // never fails
	return respondMSCHAP(c, challenge, peerChallenge)
}

func respondMSCHAP(c Credentials, challenge, peerChallenge []byte) (mschapResponse, error) {
	if !utf8.Valid(c.Password) {
		return mschapResponse{}, errors.New("password is not UTF-8, and MS-CHAP hashes its characters")
	}
	user := []byte(c.Username)
	if _, name, hasDomain := bytes.Cut(user, []byte(`\`)); hasDomain {
		user = name
	}
	ntResponse, err := rfc2759.GenerateNTResponse(challenge, peerChallenge, user, c.Password)
	if err != nil {
		return mschapResponse{}, errors.New("hashing the password for MS-CHAP")
	}
	proof, err := rfc2759.GenerateAuthenticatorResponse(challenge, peerChallenge, ntResponse, user, c.Password)
	if err != nil {
		return mschapResponse{}, errors.New("hashing the password for MS-CHAP")
	}
	return mschapResponse{peerChallenge: peerChallenge, ntResponse: ntResponse, proof: []byte(proof)}, nil
}

// wire is the response as RADIUS and EAP have it in common.
func (r mschapResponse) wire() []byte {
	b := make([]byte, 0, mschapResponseLength)
	b = append(b, r.peerChallenge...)
	b = append(b, make([]byte, 8)...)
	return append(b, r.ntResponse...)
}

// proves tells whether a success message, "S=... M=...", begins with the proof.
func (r mschapResponse) proves(message []byte) bool {
	n := len(r.proof)
	return len(message) >= n && hmac.Equal(bytes.ToUpper(message[:n]), r.proof)
}

// mschapFailure is the message of a server that refuses, RFC 2759 section 6.
type mschapFailure struct {
	code int    // error code, 0 if there is none
	text string // the server's own words, as they came
}

// parseMSCHAPFailure reads "E=691 R=1 C=... V=3 M=text". What is not of that
// form is left out: it only explains a reject that is one anyway.
func parseMSCHAPFailure(message []byte) mschapFailure {
	var f mschapFailure
	fields, text, _ := strings.Cut(string(message), "M=")
	f.text = text
	for _, field := range strings.Fields(fields) {
		if digits, ok := strings.CutPrefix(field, "E="); ok {
			if code, err := strconv.Atoi(digits); err == nil && code > 0 {
				f.code = code
			}
		}
	}
	return f
}

// reason explains a reject; empty if the message says nothing.
func (f mschapFailure) reason() string {
	var text string
	if f.code > 0 {
		text = fmt.Sprintf("MS-CHAP error %d", f.code)
		if meaning, ok := mschapErrors()[f.code]; ok {
			text += ": " + meaning
		}
	}
	if said := printable([]byte(f.text)); said != "" {
		text = strings.TrimSpace(text + " (" + said + ")")
	}
	return text
}

// mschapErrors says what the error codes mean, RFC 2759 section 6.
func mschapErrors() map[int]string {
	return map[int]string{
		646: "restricted logon hours",
		647: "account disabled",
		648: "password expired",
		649: "no dial-in permission",
		691: "authentication failure",
		709: "changing the password failed",
	}
}
