package demo

import (
	"context"
	"fmt"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/probe/radiustest"
)

// step is one line of the script.
type step struct {
	title  string
	do     func(context.Context, *stage) error // nil if the step only watches
	want   picture
	within time.Duration                  // for the picture to become as wanted; 0 means 20 s
	steady time.Duration                  // how long it must stay so
	tell   func(*stage) ([]string, error) // figures to print; the error is about one that is wrong
}

// script is the demo.
var script = []step{
	{
		title: "The system starts: every server answers, and is registered",
		want: picture{
			servers: "up in, up in, up in",
			changes: "register radius-1, register radius-2, register radius-3",
		},
	},
	{
		title: "radius-2 rejects everyone, as if its identity store were gone: it is deregistered",
		do:    faults(radiustest.RejectAll, "radius-2"),
		want:  picture{servers: "up in, down out, up in", changes: "deregister radius-2"},
		tell:  faultToDeregistration("radius-2"),
	},
	{
		title: "radius-2 recovers: it is held down, and registered only then",
		do:    faults(radiustest.None, "radius-2"),
		want:  picture{servers: "up in, up in, up in", changes: "register radius-2"},
		tell:  heldDown("radius-2"),
	},
	{
		title: "Somebody removes the target of radius-1 by hand: it is put back",
		do:    removal("radius-1"),
		want:  picture{servers: "up in, up in, up in", changes: "register radius-1"},
		tell:  actionToRegistration("radius-1"),
	},
	{
		title:  "All servers reject everyone at once: fail-open keeps them",
		do:     faults(radiustest.RejectAll, "radius-1", "radius-2", "radius-3"),
		want:   picture{servers: "down in, down in, down in", failOpen: true},
		steady: 1500 * time.Millisecond,
	},
	{
		title: "radius-3 recovers: traffic goes to it only",
		do:    faults(radiustest.None, "radius-3"),
		want:  picture{servers: "down out, down out, up in", changes: "deregister radius-1, deregister radius-2"},
	},
	{
		title: "The others recover: all are registered again, radius-2 later as it fell twice",
		do:    faults(radiustest.None, "radius-1", "radius-2"),
		want:  picture{servers: "up in, up in, up in", changes: "register radius-1, register radius-2"},
		tell:  heldDown("radius-1", "radius-2"),
	},
	{
		title: "The prober stops: nothing changes",
		do: func(_ context.Context, s *stage) error {
			s.lab.StopProber()
			return nil
		},
		want:   picture{servers: "up in, up in, up in"},
		steady: 4 * time.Second,
	},
}

// faults switches servers to a fault, between two rounds. "At once" would
// otherwise not be certain: a round in the middle of it would see some servers
// failing and others well.
func faults(f radiustest.Fault, servers ...string) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if len(servers) > 1 {
			s.waitForMidRound(ctx)
		}
		s.acted = time.Now()
		for _, server := range servers {
			if err := s.lab.SetFault(server, f); err != nil {
				return err
			}
		}
		return nil
	}
}

// removal deregisters a target behind the system's back.
func removal(server string) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		s.acted = time.Now()
		delete(s.in, server)
		return s.lab.RemoveTarget(ctx, s.group().Name, server)
	}
}

// faultToDeregistration tells how long the server kept its traffic.
func faultToDeregistration(server string) func(*stage) ([]string, error) {
	return func(s *stage) ([]string, error) {
		at, err := s.changed("deregister", server)
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("from fault to DeregisterTargets: %s", seconds(at.Sub(s.acted)))}, nil
	}
}

// actionToRegistration tells how long the target was missing.
func actionToRegistration(server string) func(*stage) ([]string, error) {
	return func(s *stage) ([]string, error) {
		at, err := s.changed("register", server)
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("from removal to RegisterTargets: %s", seconds(at.Sub(s.acted)))}, nil
	}
}

// heldDown tells the hold-downs, and checks that none of the servers was
// registered before its own had ended.
func heldDown(servers ...string) func(*stage) ([]string, error) {
	return func(s *stage) ([]string, error) {
		var lines []string
		for _, server := range servers {
			at, err := s.changed("register", server)
			if err != nil {
				return nil, err
			}
			// A probe that was lost on the way may have begun the hold-down anew.
			held, err := s.lastTransition(server, health.HoldDown)
			if err != nil {
				return nil, err
			}
			if at.Before(held.HeldUntil) {
				return nil, fmt.Errorf("%s: expected RegisterTargets at or after the end of its hold-down at %s s, actual %s s",
					server, s.clock(held.HeldUntil), s.clock(at))
			}
			lines = append(lines, fmt.Sprintf("%s: held down for %s, registered %s after that",
				server, seconds(held.HeldUntil.Sub(held.At)), seconds(at.Sub(held.HeldUntil))))
		}
		return lines, nil
	}
}
