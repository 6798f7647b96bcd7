//go:build !linux

package probe

import "radwitness/pkg/probe/transport"

// newTransport has connected sockets: only Linux tells on a shared one which
// server an ICMP error is about.
func newTransport() Transport { return &transport.Connected{} }
