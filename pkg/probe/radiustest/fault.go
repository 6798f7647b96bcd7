package radiustest

import (
	"fmt"
	"strings"
)

// Fault is a way in which a server misbehaves. The zero Fault is None.
type Fault int

// The faults. A server shows them from the next request on.
const (
	None                      Fault = iota // honest
	RejectAll                              // Access-Reject whatever the password, as when the directory is gone
	DropAll                                // no answer
	Slow                                   // honest, after Config.Delay
	WrongSecret                            // answers as a server with another shared secret would
	Refuse                                 // the port is closed: ICMP port unreachable
	Challenge                              // Access-Challenge whatever the password
	DropFirst                              // no answer to the first Config.Drop requests from now on
	Junk                                   // three octets that are no packet, and no answer
	WrongIdentifier                        // the answer carries another Identifier
	WrongCode                              // the answer is an Accounting-Response
	Padded                                 // four octets follow the answer, which RFC 2865 section 3 allows
	Truncated                              // the last octet of the answer is missing
	NoMessageAuthenticator                 // the answer has no Message-Authenticator
	WrongMessageAuthenticator              // the answer has a wrong one, under a right Response Authenticator
)

// names holds the words for the faults, by value.
var names = [...]string{
	None:                      "none",
	RejectAll:                 "reject-all",
	DropAll:                   "drop-all",
	Slow:                      "slow",
	WrongSecret:               "wrong-secret",
	Refuse:                    "refuse",
	Challenge:                 "challenge",
	DropFirst:                 "drop-first",
	Junk:                      "junk",
	WrongIdentifier:           "wrong-identifier",
	WrongCode:                 "wrong-code",
	Padded:                    "padded",
	Truncated:                 "truncated",
	NoMessageAuthenticator:    "no-message-authenticator",
	WrongMessageAuthenticator: "wrong-message-authenticator",
}

// String returns the fault's word, as ParseFault takes it.
func (f Fault) String() string {
	if f < 0 || int(f) >= len(names) {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return names[f]
}

// Faults lists every fault, None first.
func Faults() []Fault {
	faults := make([]Fault, len(names))
	for i := range faults {
		faults[i] = Fault(i)
	}
	return faults
}

// ParseFault returns the fault with the given word. The error lists the words.
func ParseFault(word string) (Fault, error) {
	for _, f := range Faults() {
		if f.String() == word {
			return f, nil
		}
	}
	return None, fmt.Errorf("unknown fault %q, known are %s", word, strings.Join(names[:], ", "))
}
