package probe

import (
	"testing"
	"time"

	"layeh.com/radius"

	"radwitness/pkg/health"
	"radwitness/pkg/probe/radiustest"
)

func BenchmarkEncode(b *testing.B) {
	r := testRequest()
	for b.Loop() {
		if _, err := newTransaction(r, papQuestion(r.Credentials), 1, localhost); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	tr := mustTransact(b, testRequest())
	accept := reply(b, tr, radius.CodeAccessAccept, messageAuthenticator())
	for b.Loop() {
		if _, err := tr.read(accept); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProbe is a whole probe, and the server's part of it.
func BenchmarkProbe(b *testing.B) {
	r := testRequest()
	server := radiustest.Start(b, radiustest.Config{
		Secret: string(r.Credentials.SharedSecret),
		Users:  map[string]string{r.Credentials.Username: string(r.Credentials.Password)},
	})
	r.Server, r.Attempts, r.AttemptTimeout = server.Addr(), 3, time.Second
	var prober Prober
	for b.Loop() {
		if res := prober.Probe(b.Context(), r); res.Outcome != health.Accept {
			b.Fatalf("got %+v", res)
		}
	}
}
