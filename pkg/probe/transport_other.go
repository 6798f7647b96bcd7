//go:build !linux

package probe

import "radwitness/pkg/probe/transport"

// newTransport has connected sockets: only Linux tells on a shared one which
// server an ICMP error is about. The limit is macOS's of open files.
func newTransport() Transport { return &transport.Connected{Limit: 256} }
