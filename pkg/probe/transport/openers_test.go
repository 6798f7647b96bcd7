//go:build !linux

package transport_test

import "radwitness/pkg/probe/transport"

func openers(control transport.Control) map[string]opener {
	return map[string]opener{"connected": &transport.Connected{Control: control}}
}
