package probe

import (
	"fmt"

	"radwitness/pkg/health"
)

// eapMD5Challenge is EAP with an MD5-Challenge, RFC 3748 section 5.4. The server
// proves nothing by it, and must know the password in clear text.
func eapMD5Challenge(c *conversation) (health.Outcome, error) {
	p, err := offer(c, eapMD5)
	if err != nil {
		return "", err
	}
	if !p.over {
		data := p.latest.data
		if len(data) < 1 || int(data[0]) > len(data)-1 || data[0] == 0 {
			return "", fmt.Errorf("%w: MD5-Challenge does not parse", errEAP)
		}
		challenge := data[1 : 1+int(data[0])]
		response := chapResponse(p.latest.identifier, c.request.Credentials.Password, challenge)
		if err := p.respond(eapMD5, append([]byte{byte(len(response))}, response...)); err != nil {
			return "", err
		}
		if !p.over {
			return "", fmt.Errorf("%w: another request after the response", errEAP)
		}
		return p.concluded(true)
	}
	return p.concluded(false)
}
