package probe

import (
	"crypto/rand"
	"encoding/hex"

	"layeh.com/radius"
	"layeh.com/radius/rfc2866"

	"radwitness/pkg/health"
)

// sessionPrefix begins the Acct-Session-Id of every probe, so that reports and
// billing can leave them out.
const sessionPrefix = "radwitness-"

// accounting begins a session and ends it at once, RFC 2866. It ends it because
// many servers count open sessions, and a user may have only so many.
func accounting(c *conversation) (health.Outcome, error) {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	session := sessionPrefix + hex.EncodeToString(random)
	for _, status := range []rfc2866.AcctStatusType{rfc2866.AcctStatusType_Value_Start, rfc2866.AcctStatusType_Value_Stop} {
		if _, err := c.ask(accountingQuestion(c.request.Credentials, status, session)); err != nil {
			return "", err
		}
	}
	return health.Alive, nil
}

func accountingQuestion(c Credentials, status rfc2866.AcctStatusType, session string) question {
	return question{
		code: radius.CodeAccountingRequest,
		fits: []radius.Code{radius.CodeAccountingResponse},
		fill: func(p *radius.Packet) error {
			if c.Username != "" {
				if err := addUserName(p, c.Username); err != nil {
					return err
				}
			}
			if err := rfc2866.AcctStatusType_Add(p, status); err != nil {
				return err
			}
			if status == rfc2866.AcctStatusType_Value_Stop {
				if err := rfc2866.AcctSessionTime_Add(p, 0); err != nil {
					return err
				}
			}
			return rfc2866.AcctSessionID_AddString(p, session)
		},
	}
}
