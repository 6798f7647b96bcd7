package probe

import (
	"fmt"
	"maps"
	"slices"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// method makes a probe of one kind: it asks its questions, one after the other,
// and says what the answers mean. An error is for outcomeOf to judge.
type method func(*conversation) (health.Outcome, error)

// methods holds what this package can do. A method is a file of its own and a
// line here.
var methods = map[fleet.Method]method{
	fleet.PAP:          pap,
	fleet.CHAP:         chap,
	fleet.MSCHAPv2:     mschapv2,
	fleet.StatusServer: statusServer,
	fleet.Accounting:   accounting,
	fleet.EAPMD5:       eapMD5Challenge,
	fleet.PEAP:         peapMSCHAPv2,
	fleet.TTLS:         ttlsPAP,
}

// Supported lists the methods that Probe can make, sorted, so that a caller can
// refuse the others before the first probe.
func Supported() []fleet.Method {
	return slices.Sorted(maps.Keys(methods))
}

// methodOf returns the method with the given name.
func methodOf(name fleet.Method) (method, error) {
	m, ok := methods[name]
	if !ok {
		return nil, fmt.Errorf("method %q is not supported", name)
	}
	return m, nil
}
