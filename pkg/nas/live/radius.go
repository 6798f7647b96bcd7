package live

import (
	"context"

	"radwitness/pkg/probe"
)

// RADIUS is a Network of real servers. A login repeats the same packet to a
// server that it comes back to, from the same socket, and sends another one to
// another server.
type RADIUS struct {
	Prober   *probe.Prober
	Requests []probe.Request // by server; their AttemptTimeout is the NAS's
}

// Open prepares one login.
func (n RADIUS) Open(ctx context.Context) Path {
	return &path{
		sessions: make([]*probe.Session, len(n.Requests)),
		open:     func(server int) *probe.Session { return n.Prober.Open(ctx, n.Requests[server]) },
	}
}

// path is one login's packets and sockets, which are opened as they are needed.
type path struct {
	sessions []*probe.Session
	open     func(server int) *probe.Session
}

func (p *path) Transmit(server int) probe.Result {
	if p.sessions[server] == nil {
		p.sessions[server] = p.open(server)
	}
	return p.sessions[server].Transmit()
}

func (p *path) Close() {
	for _, s := range p.sessions {
		if s != nil {
			s.Close()
		}
	}
}
