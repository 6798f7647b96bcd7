package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"radwitness/infra/bench/machine"
)

const mebibyte = 1 << 20

// limit is what the Go runtime of a function is told to keep to. The stack lets it
// take more, to save processor time; here it is to show how little is needed.
const limit = "52MiB"

// measureRound is 1,000 servers that answer.
func measureRound(ctx context.Context, args []string) error {
	s := scenario{interval: 5 * time.Second, shards: 1, cores: bothCores, limit: limit}
	flags := newFlags("round")
	flags.IntVar(&s.servers, "servers", 1000, "`number` of servers")
	flags.DurationVar(&s.delay, "delay", 5*time.Millisecond, "`time` after which they answer")
	flags.IntVar(&s.ticks, "rounds", 20, "`number` of rounds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return s.report(ctx, fmt.Sprintf("%d servers that answer after %v", s.servers, s.delay))
}

// measureDead is 1,000 servers that do not answer. Rounds count once all of them
// are down; until then they are probed between the ticks.
func measureDead(ctx context.Context, args []string) error {
	s := scenario{interval: 10 * time.Second, silent: true, shards: 1, warmUp: 2, cores: bothCores, limit: limit}
	flags := newFlags("dead")
	flags.IntVar(&s.servers, "servers", 1000, "`number` of servers")
	flags.IntVar(&s.ticks, "rounds", 9, "`number` of rounds, of which the first two do not count")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return s.report(ctx, fmt.Sprintf("%d servers that are silent, a probe's budget is %v", s.servers, budget))
}

// measureShards is 10,000 servers, by as many functions as the stack has schedules.
func measureShards(ctx context.Context, args []string) error {
	s := scenario{interval: 10 * time.Second, delay: 5 * time.Millisecond, cores: bothCores}
	flags := newFlags("shards")
	flags.IntVar(&s.servers, "servers", 10000, "`number` of servers")
	flags.IntVar(&s.shards, "shards", 10, "`number` of schedules, deploy.shards of fleet.yaml")
	long := flags.Duration("time", 10*time.Minute, "`time` that it takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.ticks = int(*long / s.interval)
	return s.report(ctx, fmt.Sprintf("%d servers over %d shards, for %v", s.servers, s.shards, *long))
}

// report plays a scenario and prints what came of it.
func (s scenario) report(ctx context.Context, title string) error {
	fmt.Println(machine.Line())
	fmt.Printf("%s: the function as deployed on core %s, servers and the table's stand-in on core %s, a round every %v\n",
		title, s.cores, coreOfServer, s.interval)
	o, err := s.play(ctx)
	if err != nil {
		return err
	}
	if len(o.rounds) == 0 {
		return fmt.Errorf("no round was recorded")
	}
	outcomes := map[string]int{}
	for _, r := range o.rounds {
		for outcome, n := range r.Outcomes {
			outcomes[outcome] += n
		}
	}
	fmt.Printf("%d rounds, from the tick to the last row: median %.0f ms, %s ms\n", len(o.rounds), o.took().median(), o.took().spread())
	fmt.Printf("outcomes %v, %d missed\n", outcomes, o.missed)
	fmt.Printf("at most %.1f MiB resident and %d descriptors in a function, %.0f µs of CPU for each result\n",
		float64(o.memory)/mebibyte, o.descriptors, float64(o.cpu.Microseconds())/float64(o.results))
	if o.missed > 0 {
		return fmt.Errorf("%d results of %d are missing", o.missed, s.servers*(s.ticks-s.warmUp))
	}
	return nil
}

// measureGrowth plays ever more servers in one function, and draws the result.
func measureGrowth(ctx context.Context, args []string) error {
	s := scenario{interval: 5 * time.Second, delay: 5 * time.Millisecond, shards: 1, cores: bothCores}
	flags := newFlags("growth")
	flags.IntVar(&s.ticks, "rounds", 5, "`number` of rounds of each size")
	path := flags.String("plot", "docs/performance.svg", "`file` to draw")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Println(machine.Line())
	fmt.Printf("one function, servers that answer after %v, %d rounds of each size\n\n", s.delay, s.ticks)
	fmt.Println("| servers | a round takes: median, worst | resident | descriptors | CPU for each result |\n|---|---|---|---|---|")
	var points []point
	for _, s.servers = range []int{10, 32, 100, 316, 1000, 3162, 10000} {
		o, err := s.play(ctx)
		if err != nil {
			return err
		}
		if o.missed > 0 {
			return fmt.Errorf("%d servers: %d results are missing", s.servers, o.missed)
		}
		p := point{servers: s.servers, milliseconds: o.took().median(), mebibytes: float64(o.memory) / mebibyte}
		points = append(points, p)
		fmt.Printf("| %d | %.0f ms, %.0f ms | %.1f MiB | %d | %.0f µs |\n", s.servers, p.milliseconds, slices.Max(o.took()), p.mebibytes,
			o.descriptors, float64(o.cpu.Microseconds())/float64(o.results))
	}
	if err := os.WriteFile(*path, []byte(plot(points)), 0o644); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	return nil
}
