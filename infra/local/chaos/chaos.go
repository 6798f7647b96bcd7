// Package chaos runs the lab under faults: AWS's API throttles, answers late or
// not at all, both functions are killed in the middle of their work, servers
// fail and operators meddle. When it ends, all must come to rest as it should be.
package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"radwitness/infra/local/lab"
	"radwitness/pkg/health"
	"radwitness/pkg/probe/radiustest"
)

const (
	pollInterval = 200 * time.Millisecond
	converging   = 90 * time.Second // the longest hold-down, the SDK's retries, and a minute that was lost
	resting      = 10 * time.Second
)

// Play lets faults happen on a lab for a while, then ends them, and checks that
// every server comes back and that the system is then at rest. While the faults
// go on it checks the one thing that must never happen: that the target group
// is empty. The lab must have been started with the Faults.
func Play(ctx context.Context, l *lab.Lab, f *Faults, d time.Duration, out io.Writer) error {
	if err := until(ctx, converging, func() (bool, error) { return well(ctx, l) }); err != nil {
		return fmt.Errorf("waiting for the first registrations: %w", err)
	}
	f.Begin()
	_, _ = fmt.Fprintf(out, "faults for %v, seed %d\n", d, f.seed)
	rng := rand.New(rand.NewPCG(f.seed, 1))
	next := time.Now()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
		view, err := l.View(ctx)
		if err != nil {
			return err
		}
		for _, g := range view {
			if g.Registered() < g.Below {
				return fmt.Errorf("%d servers of group %s are registered, the floor is %d", g.Registered(), g.Name, g.Below)
			}
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(time.Duration(rng.Int64N(int64(4 * time.Second))))
		if err := mishap(ctx, l, f, rng, view); err != nil {
			return err
		}
	}
	f.End()
	for _, s := range l.Fleet.Groups[0].Servers {
		if err := l.SetFault(s.Name, radiustest.None); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := until(ctx, converging, func() (bool, error) { return well(ctx, l) }); err != nil {
		return fmt.Errorf("waiting for all servers to be back: %w", err)
	}
	_, _ = fmt.Fprintf(out, "all servers back %v after the last fault\n", time.Since(began).Round(100*time.Millisecond))
	if err := rest(ctx, l); err != nil {
		return err
	}
	counts := f.Counts()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		_, _ = fmt.Fprintf(out, "%6d  %s\n", counts[kind], kind)
	}
	return nil
}

// mishap makes a server fail or mend, or deregisters a target by hand.
func mishap(ctx context.Context, l *lab.Lab, f *Faults, rng *rand.Rand, view lab.View) error {
	g := view[0]
	s := g.Servers[rng.IntN(len(g.Servers))]
	if rng.IntN(6) == 0 {
		if g.Registered() <= g.Below+1 {
			return nil // a person who empties the group is not what is tried here
		}
		f.count("operator: target removed by hand")
		return l.RemoveTarget(ctx, g.Name, s.Name)
	}
	faults := []radiustest.Fault{radiustest.None, radiustest.None, radiustest.RejectAll, radiustest.DropAll, radiustest.Refuse, radiustest.WrongSecret, radiustest.Slow}
	fault := faults[rng.IntN(len(faults))]
	f.count("server: " + fault.String())
	return l.SetFault(s.Name, fault)
}

// well reports whether all servers are up and registered, and no pass is due.
func well(ctx context.Context, l *lab.Lab) (bool, error) {
	view, err := l.View(ctx)
	if err != nil {
		return false, err
	}
	for _, g := range view {
		for _, s := range g.Servers {
			if s.State.Status != health.Up || !s.In() {
				return false, nil
			}
		}
		if g.Row.Case != health.CaseServing || g.Row.Pass != "done" {
			return false, nil
		}
	}
	return true, nil
}

// rest checks that nothing is written and no target is changed for a while.
func rest(ctx context.Context, l *lab.Lab) error {
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	operations := []string{lab.PutItem, lab.RegisterTargets, lab.DeregisterTargets}
	before := l.Calls.Count(operations...)
	if err := pause(ctx, resting); err != nil {
		return err
	}
	if n := l.Calls.Count(operations...) - before; n > 0 {
		return fmt.Errorf("at rest, %d calls in %v changed something", n, resting)
	}
	return nil
}

// until waits for a condition, for a while.
func until(ctx context.Context, d time.Duration, holds func() (bool, error)) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
	}
	return fmt.Errorf("nothing came of it in %v", d)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
