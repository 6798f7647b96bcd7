// Command decision measures the reconciler's own time from a round's records to
// the call that changes a target group: 1,000 servers in 50 groups, tables and
// load balancer in an emulator that is reached over HTTP.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"radwitness/infra/bench/estate"
	"radwitness/infra/bench/machine"
	"radwitness/infra/capacity"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == estate.EmulatorArgument {
		estate.Emulate()
		return
	}
	var size estate.Size
	flag.IntVar(&size.Servers, "servers", 1000, "`number` of servers")
	flag.IntVar(&size.Groups, "groups", 50, "`number` of groups they are in")
	batches := flag.Int("batches", 100, "`number` of rounds in which one server falls")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, size, *batches); err != nil {
		fmt.Fprintln(os.Stderr, "decision:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, size estate.Size, batches int) error {
	debug.SetGCPercent(capacity.GCPercent) // as the stack does
	where := machine.Line()
	e, err := estate.New(ctx, size)
	if err != nil {
		return err
	}
	defer e.Close()
	t, err := newTrial(ctx, e, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	rest, err := t.atRest(ctx, 20)
	if err != nil {
		return err
	}
	one, err := t.oneFalls(ctx, batches)
	if err != nil {
		return err
	}
	every, err := t.everyGroupFalls(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, where, "\n",
		fmt.Sprintf("%d servers in %d groups, GOMAXPROCS %d, a round in one batch\n\n", size.Servers, size.Groups, runtime.GOMAXPROCS(0)),
		"| in a round | rounds | to the call: wall, p50 | p99 | HTTP in flight, p50 | p99 | own time, p50 | p99 | processor, p50 | p99 | processor of the whole round, p50 | p99 |\n",
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n",
		rest.row("all is well (to the end)"), one.row("a server of one group falls"), every.row("a server of every group falls"),
		"\nOwn time is wall time less the time in which at least one HTTP call was in flight; calls that overlap count once.\n",
		"What runs meanwhile is in the processor time, that of all threads of the reconciler, its HTTP client among them, without the emulator.\n",
		"\nCalls in a round:\n",
		rest.callsOf("all is well"), one.callsOf("a server of one group falls"), every.callsOf("a server of every group falls"))
	return err
}
