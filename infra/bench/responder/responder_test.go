package responder_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"radwitness/infra/bench/responder"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
)

// The answers are what a server that knows the secret would send.
func TestResponder(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server responder.Server
		secret string
		want   health.Outcome
	}{
		{"at once", responder.Server{Secret: []byte("secret")}, "secret", health.Accept},
		{"later", responder.Server{Secret: []byte("secret"), Delay: 5 * time.Millisecond}, "secret", health.Accept},
		{"another secret", responder.Server{Secret: []byte("other")}, "secret", health.BadAuthenticator},
		{"silent", responder.Server{Secret: []byte("secret"), Silent: true}, "secret", health.Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port, err := tt.server.Listen(0)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var serving sync.WaitGroup
			serving.Go(func() {
				if err := tt.server.Serve(ctx); err != nil {
					t.Error(err)
				}
			})
			var prober probe.Prober
			r := prober.Probe(t.Context(), probe.Request{
				Server: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)), Method: fleet.PAP,
				AttemptTimeout: 500 * time.Millisecond, Attempts: 2, MessageAuthenticator: fleet.MessageAuthenticatorRequired,
				Credentials: probe.Credentials{SharedSecret: probe.Secret(tt.secret), Username: "probe", Password: probe.Secret("password")},
			})
			if r.Outcome != tt.want || r.Outcome == health.Accept && r.Latency < tt.server.Delay {
				t.Errorf("got %+v", r)
			}
			cancel()
			serving.Wait()
			if err := prober.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
