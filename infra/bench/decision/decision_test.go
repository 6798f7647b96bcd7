package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"radwitness/infra/bench/estate"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == estate.EmulatorArgument {
		estate.Emulate()
		return
	}
	os.Exit(m.Run())
}

func TestInFlightCountsOverlapsOnce(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	calls := []call{
		{start: at(0), end: at(10)}, {start: at(2), end: at(5)}, {start: at(8), end: at(14)}, // 14 together
		{start: at(20), end: at(30)},
	}
	for _, tt := range []struct{ until, want int }{{0, 0}, {4, 4}, {12, 12}, {17, 14}, {25, 19}, {99, 24}} {
		if got := inFlight(calls, at(tt.until)); got != time.Duration(tt.want)*time.Millisecond {
			t.Errorf("until %d ms: %v, want %d ms", tt.until, got, tt.want)
		}
	}
}

func TestSmallEstate(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, estate.Size{Servers: 12, Groups: 2}, 3); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| a server of one group falls | 3 |", "| a server of every group falls | 3 |",
		"all is well: Query 4", "DeregisterTargets 1,", "DeregisterTargets 2,",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q in\n%s", want, out.String())
		}
	}
}
