// Command coldstart starts the functions' bootstraps as Lambda does, many times,
// and has each of them serve a large fleet once. It prints how long a start
// takes, how large the bundles are, and how much memory and processor time the
// work needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"radwitness/infra/bench/estate"
	"radwitness/infra/bench/machine"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == estate.EmulatorArgument {
		estate.Emulate()
		return
	}
	var size estate.Size
	flag.IntVar(&size.Servers, "servers", 1000, "`number` of servers")
	flag.IntVar(&size.Groups, "groups", 50, "`number` of groups they are in")
	starts := flag.Int("starts", 40, "`number` of starts of each function")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, size, *starts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "coldstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, size estate.Size, starts int) error {
	if starts < 1 {
		return errors.New("-starts is below 1")
	}
	fmt.Println(machine.Line())
	dir, err := os.MkdirTemp("", "radwitness-coldstart-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bootstraps := map[string]string{}
	for _, function := range functions() {
		if bootstraps[function], err = build(ctx, dir, function); err != nil {
			return err
		}
	}
	large, err := estate.New(ctx, size)
	if err != nil {
		return err
	}
	defer large.Close()
	small, err := estate.New(ctx, estate.Size{Servers: 4, Groups: 1})
	if err != nil {
		return err
	}
	defer small.Close()

	fmt.Printf("\n| function | zipped | process start to first /next, 4 servers: p50 | p99 | processor | %d servers in %d groups: p50 | p99 | processor |\n|---|---|---|---|---|---|---|---|\n", size.Servers, size.Groups)
	for _, function := range functions() {
		bytes, err := zipped(bootstraps[function], large.FleetFile)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.2f MiB |", function, float64(bytes)/(1<<20))
		for _, e := range []*estate.Estate{small, large} {
			times, used, err := startMany(ctx, bootstraps[function], e, starts)
			if err != nil {
				return err
			}
			fmt.Printf(" %.1f ms | %.1f ms | %.1f ms |", ms(times[len(times)/2]), ms(times[min(len(times)*99/100, len(times)-1)]), ms(used[len(used)/2]))
		}
		fmt.Println()
	}

	fmt.Printf("\n| %d servers in %d groups | after its start, resident at most | after its work | processor time of the work |\n|---|---|---|---|\n", size.Servers, size.Groups)
	for _, job := range []struct {
		name, function string
		serve          func(context.Context, *instance, *estate.Estate) (string, error)
	}{
		{"reconciler: rounds in one batch each", "reconciler", serveRounds},
		{"prober: a minute", "prober", serveMinute},
	} {
		if err := serve(ctx, job.name, bootstraps[job.function], large, job.serve); err != nil {
			return err
		}
	}
	return nil
}

func functions() []string { return []string{"prober", "reconciler"} }

// startMany returns how long each of n starts took, and how much processor time
// it used, the shortest first.
func startMany(ctx context.Context, bootstrap string, e *estate.Estate, n int) (times, used []time.Duration, err error) {
	for range n {
		in, err := start(ctx, bootstrap, e)
		if err != nil {
			return nil, nil, err
		}
		in.stop()
		times, used = append(times, in.started), append(used, in.used)
	}
	slices.Sort(times)
	slices.Sort(used)
	return times, used, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
