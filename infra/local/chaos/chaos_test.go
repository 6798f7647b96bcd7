package chaos_test

import (
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
	if f.Counts()["api: throttled"] == 0 || f.Counts()["reconciler: killed"] == 0 {
		t.Errorf("faults %v", f.Counts())
	}
}
