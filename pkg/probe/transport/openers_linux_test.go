package transport_test

import "radwitness/pkg/probe/transport"

func openers(control transport.Control) map[string]opener {
	return map[string]opener{"shared": &transport.Shared{Control: control}, "connected": &transport.Connected{Control: control}}
}
