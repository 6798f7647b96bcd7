package probe

import (
	"crypto/md5"
	"crypto/rand"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"

	"radwitness/pkg/health"
)

// challengeLength is the octets of the challenges that the prober makes up.
const challengeLength = 16

// chap is an Access-Request with a CHAP-Password and its challenge, RFC 2865
// sections 5.3 and 5.40. The server must know the password in clear text.
func chap(c *conversation) (health.Outcome, error) {
	secrets := c.request.Credentials
	a, err := c.ask(accessRequest(func(p *radius.Packet) error {
		if err := addUserName(p, secrets.Username); err != nil {
			return err
		}
		random := make([]byte, 1+challengeLength)
		_, _ = rand.Read(random) // never fails
		ident, challenge := random[0], random[1:]
		p.Add(rfc2865.CHAPPassword_Type, append([]byte{ident}, chapResponse(ident, secrets.Password, challenge)...))
		p.Add(rfc2865.CHAPChallenge_Type, challenge)
		return nil
	}))
	if err != nil {
		return "", err
	}
	return accessOutcome(a.code), nil
}

// chapResponse is the response to a CHAP challenge, RFC 1994 section 4.1.
func chapResponse(ident byte, password Secret, challenge []byte) []byte {
	hash := md5.New()
	hash.Write([]byte{ident})
	hash.Write(password)
	hash.Write(challenge)
	return hash.Sum(nil)
}
