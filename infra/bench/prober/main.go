// Command bench measures the prober: against other RADIUS clients, and with up to
// 10,000 servers. It runs on Linux. docs/performance.md explains what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

const usage = `usage: bench COMMAND [flags]; bench COMMAND -h prints the flags

peers    probes per CPU second of this prober, of radclient and of pyrad
round    rounds of 1,000 servers that answer after 5 ms
dead     rounds of 1,000 servers that are silent
growth   time and memory of a round, from 10 to 10,000 servers; draws docs/performance.svg
shards   10,000 servers over the shards of the stack, every 10 s
table    updates a second of the emulator, and of what stands in for it

The others are parts of these, which run as processes of their own: respond, probe, serve-table.
`

// command reads its flags from the arguments and prints what it has found.
type command func(ctx context.Context, args []string) error

func main() {
	commands := map[string]command{
		"peers": comparePeers, "round": measureRound, "dead": measureDead, "growth": measureGrowth, "shards": measureShards,
		"table": measureTables, "respond": respond, "probe": probeOnly, "serve-table": serveTable,
	}
	name, args := "", os.Args[1:]
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	run, ok := commands[name]
	if !ok {
		_, _ = fmt.Fprint(os.Stderr, usage)
		os.Exit(3)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, args)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// newFlags is the flags of a command, which says what is wrong with them itself.
func newFlags(name string) *flag.FlagSet { return flag.NewFlagSet("bench "+name, flag.ContinueOnError) }
