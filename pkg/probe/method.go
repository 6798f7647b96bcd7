package probe

import (
	"fmt"
	"maps"
	"slices"

	"layeh.com/radius"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// method is one kind of RADIUS transaction: what it asks, and how it reads the
// code of the answer. A value serves one transaction, so it may remember what
// it sent.
type method interface {
	// fill sets the packet's Code and adds the method's own attributes. The
	// identifier, the authenticator and the secret are already there, and the
	// attributes that every request carries are added by the caller.
	fill(p *radius.Packet, c Credentials) error

	// outcome says what an answer with this code means. It is false if the code
	// does not fit the request.
	outcome(code radius.Code) (health.Outcome, bool)
}

// methods holds what this package can do. A method is a file of its own and a
// line here.
var methods = map[fleet.Method]func() method{
	fleet.PAP: func() method { return pap{} },
}

// Supported lists the methods that Probe can make, sorted, so that a caller can
// refuse the others before the first probe.
func Supported() []fleet.Method {
	return slices.Sorted(maps.Keys(methods))
}

// newMethod starts a transaction of the given kind.
func newMethod(m fleet.Method) (method, error) {
	start, ok := methods[m]
	if !ok {
		return nil, fmt.Errorf("method %q is not supported", m)
	}
	return start(), nil
}
