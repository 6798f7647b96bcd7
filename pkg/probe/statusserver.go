package probe

import (
	"layeh.com/radius"

	"radwitness/pkg/health"
)

// statusServer is a Status-Server packet, RFC 5997: it needs no user, and its
// answer proves the daemon and nothing behind it. What answers depends on the
// port, and every authentic answer proves the same.
func statusServer(c *conversation) (health.Outcome, error) {
	_, err := c.ask(question{
		code: radius.CodeStatusServer,
		fits: []radius.Code{
			radius.CodeAccessAccept, radius.CodeAccessReject, radius.CodeAccessChallenge, radius.CodeAccountingResponse,
		},
		fill: func(*radius.Packet) error { return nil },
	})
	if err != nil {
		return "", err
	}
	return health.Alive, nil
}
