package chaos_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"radwitness/infra/local/chaos"
	"radwitness/infra/local/demo"
	"radwitness/infra/local/lab"
)

func TestAFewSecondsOfChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	f := chaos.New(1)
	l, err := lab.Start(t.Context(), lab.Config{Environ: demo.Environ(), Log: io.Discard, Faults: f})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := chaos.Play(t.Context(), l, f, 10*time.Second, t.Output()); err != nil {
		t.Error(err)
	}
	// There are hundreds of calls in this time, but few invocations: see TestSomeInvocationsAreKilled.
	if f.Counts()["api: throttled"] == 0 {
		t.Errorf("faults %v", f.Counts())
	}
}

func TestSomeInvocationsAreKilled(t *testing.T) {
	const answer = `"done"`
	f := chaos.New(1)
	handler := f.Handler("reconciler", time.Millisecond, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		if _, limited := ctx.Deadline(); limited {
			<-ctx.Done()
		}
		return json.RawMessage(answer), nil
	})
	invoke := func() (killed int) {
		for range 200 {
			switch got, err := handler(t.Context(), nil); {
			case err != nil && got == nil:
				killed++
			case err != nil || string(got) != answer:
				t.Fatalf("answered %s, %v", got, err)
			}
		}
		return killed
	}
	if n := invoke(); n != 0 {
		t.Errorf("%d killed before the faults begin", n)
	}
	f.Begin()
	if n := invoke(); n == 0 || n == 200 || n != f.Counts()["reconciler: killed"] {
		t.Errorf("%d of 200 killed, counted %d", n, f.Counts()["reconciler: killed"])
	}
}
