package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"radwitness/infra/bench/estate"
	"radwitness/pkg/health"
	"radwitness/pkg/probe/radiustest"
)

// serve starts a function, has it work, and prints what that took. work says in
// words what the processor time is to be divided by.
func serve(ctx context.Context, name, bootstrap string, e *estate.Estate, work func(context.Context, *instance, *estate.Estate) (string, error)) error {
	in, err := start(ctx, bootstrap, e)
	if err != nil {
		return err
	}
	defer in.stop()
	atRest, err := in.peakResident()
	if err != nil {
		return err
	}
	took, err := work(ctx, in, e)
	if err != nil {
		return fmt.Errorf("%s: %w; its log ends: %s", name, err, tail(in.log.Bytes()))
	}
	peak, err := in.peakResident()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.1f MiB | %.1f MiB | %s |\n", name, float64(atRest)/(1<<20), float64(peak)/(1<<20), took)
	return nil
}

func tail(log []byte) []byte { return log[max(0, len(log)-2000):] }

// serveRounds gives the reconciler the first round of all servers and then some
// at rest, each as one batch.
func serveRounds(ctx context.Context, in *instance, e *estate.Estate) (string, error) {
	const atRest = 20
	var first, before time.Duration
	for i := range 1 + atRest {
		event, err := e.Round(ctx, func(int, int) health.Outcome { return health.Accept })
		if err != nil {
			return "", err
		}
		if err := in.api.invoke(ctx, event); err != nil {
			return "", err
		}
		if i == 0 {
			if first, err = in.processor(); err != nil {
				return "", err
			}
			before = first
		}
	}
	after, err := in.processor()
	return fmt.Sprintf("first round %.0f ms, then %.1f ms a round", ms(first), ms(after-before)/atRest), err
}

// serveMinute runs RADIUS servers and has the prober probe them for a minute.
func serveMinute(ctx context.Context, in *instance, e *estate.Estate) (string, error) {
	for _, g := range e.Fleet.Groups {
		for _, s := range g.Servers {
			server, err := radiustest.Listen(fmt.Sprintf("%s:%d", s.Address, estate.Port), radiustest.Config{
				Secret: estate.Secret, Users: map[string]string{estate.User: estate.Password}, Welcome: "Welcome",
			})
			if err != nil {
				return "", err
			}
			defer server.Close()
		}
	}
	before, err := in.processor()
	if err != nil {
		return "", err
	}
	event, err := json.Marshal(map[string]any{
		"source": "aws.scheduler", "detail-type": "Scheduled Event", "time": time.Now().UTC().Format(time.RFC3339), "shard": map[string]int{"index": 0, "count": 1},
	})
	if err != nil {
		return "", err
	}
	if err := in.api.invoke(ctx, event); err != nil {
		return "", err
	}
	after, err := in.processor()
	if err != nil {
		return "", err
	}
	probes := 0
	rows, err := e.Rows(ctx)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		if row.Outcome != health.Accept {
			return "", fmt.Errorf("the last probe of %s/%s: %s: %s", row.Group, row.Server, row.Outcome, row.Reason)
		}
		probes += int(row.Requests)
	}
	probes -= e.Recorded()
	return fmt.Sprintf("%.1f s in the minute, %.3f ms a probe with its write (%d probes)", (after - before).Seconds(), ms(after-before)/float64(probes), probes), nil
}
