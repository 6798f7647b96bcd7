package probe

import (
	"errors"
	"fmt"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"

	"radwitness/pkg/health"
)

const (
	maxAttributeValue = 253 // octets, RFC 2865 section 5
	maxUserPassword   = 128 // octets, RFC 2865 section 5.2
)

// pap is an Access-Request with a hidden User-Password, RFC 2865 section 5.2.
func pap(c *conversation) (health.Outcome, error) {
	a, err := c.ask(papQuestion(c.request.Credentials))
	if err != nil {
		return "", err
	}
	return accessOutcome(a.code), nil
}

func papQuestion(c Credentials) question {
	return accessRequest(func(p *radius.Packet) error {
		if err := addUserName(p, c.Username); err != nil {
			return err
		}
		if len(c.Password) > maxUserPassword {
			return fmt.Errorf("password is longer than %d octets", maxUserPassword)
		}
		if err := rfc2865.UserPassword_Add(p, c.Password); err != nil {
			return fmt.Errorf("hiding the password: %w", err)
		}
		return nil
	})
}

// accessRequest is a question by Access-Request.
func accessRequest(fill func(*radius.Packet) error) question {
	return question{
		code: radius.CodeAccessRequest,
		fits: []radius.Code{radius.CodeAccessAccept, radius.CodeAccessReject, radius.CodeAccessChallenge},
		fill: fill,
	}
}

// accessOutcome reads the code of an answer that fits an Access-Request.
func accessOutcome(code radius.Code) health.Outcome {
	switch code {
	case radius.CodeAccessAccept:
		return health.Accept
	case radius.CodeAccessReject:
		return health.Reject
	}
	return health.Challenge
}

// addUserName adds the User-Name, RFC 2865 section 5.1.
func addUserName(p *radius.Packet, name string) error {
	switch {
	case name == "":
		return errors.New("user name is empty")
	case len(name) > maxAttributeValue:
		return fmt.Errorf("user name is longer than %d octets", maxAttributeValue)
	}
	return rfc2865.UserName_AddString(p, name)
}
