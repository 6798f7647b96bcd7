package probe

import (
	"bytes"
	"encoding/hex"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"

	"radwitness/pkg/health"
)

// The example of RFC 2865 section 7.2, whose challenge is the authenticator.
func TestCHAPAsInRFC2865(t *testing.T) {
	got := chapResponse(0x16, Secret("arctangent"), unhex(t, "2aee86f08d0d55969ca5978e0d3367a2"))
	if hex.EncodeToString(got) != "e97557c316185895f293ff6344077275" {
		t.Errorf("got %x", got)
	}
}

func TestCHAP(t *testing.T) {
	r := testRequest()
	var challenges [][]byte
	for _, code := range []radius.Code{radius.CodeAccessAccept, radius.CodeAccessReject, radius.CodeAccessChallenge} {
		c := scripted(t, r, func(p *radius.Packet) (radius.Code, radius.Attributes) {
			response, challenge := p.Get(rfc2865.CHAPPassword_Type), p.Get(rfc2865.CHAPChallenge_Type)
			if len(response) != 17 || len(challenge) != 16 || !bytes.Equal(response[1:], chapResponse(response[0], r.Credentials.Password, challenge)) {
				t.Errorf("response % x to % x", response, challenge)
			}
			challenges = append(challenges, challenge)
			return code, nil
		})
		want := map[radius.Code]health.Outcome{
			radius.CodeAccessAccept: health.Accept, radius.CodeAccessReject: health.Reject, radius.CodeAccessChallenge: health.Challenge,
		}[code]
		if got, err := chap(c); err != nil || got != want {
			t.Errorf("%v: got %s, %v", code, got, err)
		}
	}
	if bytes.Equal(challenges[0], challenges[1]) {
		t.Error("the same challenge twice")
	}
}

// Any authentic answer to Status-Server proves the daemon.
func TestStatusServer(t *testing.T) {
	for _, code := range []radius.Code{radius.CodeAccessAccept, radius.CodeAccessReject, radius.CodeAccountingResponse} {
		c := scripted(t, testRequest(), func(p *radius.Packet) (radius.Code, radius.Attributes) {
			if p.Code != radius.CodeStatusServer || p.Get(rfc2865.UserName_Type) != nil {
				t.Errorf("asked %v with %v", p.Code, types(p))
			}
			return code, nil
		})
		if got, err := statusServer(c); err != nil || got != health.Alive {
			t.Errorf("%v: got %s, %v", code, got, err)
		}
	}
}
