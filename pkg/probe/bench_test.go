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
	s := newSigner(r.Credentials.SharedSecret)
	for b.Loop() {
		if _, err := newTransaction(r, papQuestion(r.Credentials), s, 1, localhost); err != nil {
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
	r, prober := benchmarkProbe(b)
	for b.Loop() {
		if res := prober.Probe(b.Context(), r); res.Outcome != health.Accept {
			b.Fatalf("got %+v", res)
		}
	}
}

// BenchmarkProbes is the same with many probes under way at once.
func BenchmarkProbes(b *testing.B) {
	r, prober := benchmarkProbe(b)
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if res := prober.Probe(b.Context(), r); res.Outcome != health.Accept {
				b.Errorf("got %+v", res)
			}
		}
	})
}

// benchmarkProbe is a request that a server of the benchmark's accepts.
func benchmarkProbe(b *testing.B) (Request, *Prober) {
	r := testRequest()
	server := radiustest.Start(b, radiustest.Config{
		Secret: string(r.Credentials.SharedSecret),
		Users:  map[string]string{r.Credentials.Username: string(r.Credentials.Password)},
	})
	r.Server, r.Attempts, r.AttemptTimeout = server.Addr(), 3, time.Second
	prober := &Prober{}
	b.Cleanup(func() { _ = prober.Close() })
	return r, prober
}
