package simulation_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"radwitness/pkg/reconciler/simulation"
)

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// P1 to P8 hold in every history. HISTORIES sets how many are played, SEED the
// first one; TRACE=1 prints every step of the history of SEED alone.
func TestHistories(t *testing.T) {
	first := setting(t, "SEED", 1)
	if setting(t, "TRACE", 0) > 0 {
		if _, err := simulation.Run(first, func(format string, args ...any) { fmt.Printf(format+"\n", args...) }); err != nil {
			t.Fatal(err)
		}
		return
	}
	count := setting(t, "HISTORIES", 1000)
	total := simulation.Report{Faults: simulation.Tally{}}
	var failures []error
	var next atomic.Uint64
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= count {
					return
				}
				report, err := simulation.Run(first+n, nil)
				mu.Lock()
				total.Faults.Add(report.Faults)
				total.Probes += report.Probes
				total.Deliveries += report.Deliveries
				total.Changes += report.Changes
				if err != nil {
					failures = append(failures, err)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d histories, %d probes, %d deliveries, %d changes, %d violations; faults injected:\n%v",
		count, total.Probes, total.Deliveries, total.Changes, len(failures), total.Faults)
	for i, err := range failures {
		if i == 10 {
			t.Errorf("and %d more", len(failures)-i)
			break
		}
		t.Errorf("%v", err)
	}
	if len(failures) > 0 {
		if v, ok := failures[0].(*simulation.Violation); ok {
			t.Errorf("replay the first with: SEED=%d TRACE=1 go test -count=1 -run TestHistories ./pkg/reconciler/simulation", v.Seed)
		}
	}
}

// A seed is a history: without this a failing one could not be looked into.
func TestSeedsRepeat(t *testing.T) {
	for seed := range uint64(30) {
		var traces [2][]string
		for i := range traces {
			_, err := simulation.Run(seed, func(format string, args ...any) {
				traces[i] = append(traces[i], fmt.Sprintf(format, args...))
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(traces[i]) // groups of one batch are worked on at the same time
		}
		if !slices.Equal(traces[0], traces[1]) {
			t.Errorf("seed %d is not the same history twice", seed)
		}
	}
}
