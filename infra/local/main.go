// Command local runs the whole system on one machine, with nothing but Go: see
// package lab. It shows one live table, plays a scripted outage, or breaks
// whatever can break.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"radwitness/infra/local/chaos"
	"radwitness/infra/local/console"
	"radwitness/infra/local/demo"
	"radwitness/infra/local/lab"
)

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		os.Exit(3)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, o)
	stop()
	os.Exit(code)
}

// run returns the exit code.
func run(ctx context.Context, o options) int {
	cfg := lab.Config{Environ: os.Environ()}
	var err error
	switch {
	case o.demo, o.chaos > 0:
		cfg.Environ = demo.Environ()
	case o.config != "":
		cfg.Fleet, err = lab.LoadFleet(o.config, cfg.Environ)
	}
	if err != nil {
		return fail(3, err)
	}
	log, err := openLog(o.log)
	if err != nil {
		return fail(3, err)
	}
	defer func() { _ = log.Close() }()
	cfg.Log = log

	faults := chaos.New(o.seed)
	if o.chaos > 0 {
		cfg.Faults = faults
	}
	l, err := lab.Start(ctx, cfg)
	if err == nil {
		defer l.Close()
		err = withPage(ctx, l, o.serve, func(page string) error {
			switch {
			case o.demo:
				fmt.Print(page)
				return demo.Play(ctx, l, os.Stdout)
			case o.chaos > 0:
				fmt.Print(page)
				return chaos.Play(ctx, l, faults, o.chaos, os.Stdout)
			}
			return show(ctx, l, o.environment, page+"logs: "+log.Name())
		})
	}
	fmt.Println("logs of the functions:", log.Name())
	if err != nil {
		return fail(1, err)
	}
	return 0
}

// withPage does something with a lab while its status page is served, unless the
// address is empty.
func withPage(ctx context.Context, l *lab.Lab, address string, do func(page string) error) error {
	if address == "" {
		return do("")
	}
	where, stop, err := servePage(ctx, l, address)
	if err != nil {
		return err
	}
	return errors.Join(do("status page: "+where+"\n"), stop())
}

// show runs the lab for a person, and for commands in other terminals.
func show(ctx context.Context, l *lab.Lab, environment, about string) error {
	remove, err := l.Export(environment)
	if err != nil {
		return err
	}
	about += ", for commands in another terminal: . " + environment
	return errors.Join(console.Run(ctx, l, about, os.Stdin, os.Stdout), remove())
}

func openLog(path string) (*os.File, error) {
	if path == "" {
		return os.CreateTemp("", "radwitness-*.log")
	}
	return os.Create(path)
}

func fail(code int, err error) int {
	_, _ = fmt.Fprintln(os.Stderr, "local:", err)
	return code
}
