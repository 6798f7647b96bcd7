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
type pap struct{}

func (pap) fill(p *radius.Packet, c Credentials) error {
	p.Code = radius.CodeAccessRequest
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
}

func (pap) outcome(code radius.Code) (health.Outcome, bool) {
	return accessOutcome(code)
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

// accessOutcome reads the answer to an Access-Request.
func accessOutcome(code radius.Code) (health.Outcome, bool) {
	switch code {
	case radius.CodeAccessAccept:
		return health.Accept, true
	case radius.CodeAccessReject:
		return health.Reject, true
	case radius.CodeAccessChallenge:
		return health.Challenge, true
	}
	return "", false
}
