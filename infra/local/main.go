// Command local runs the whole system on one machine, with nothing but Go: see
// package lab. It shows one live table, or plays a scripted outage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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
	case o.demo:
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

	l, err := lab.Start(ctx, cfg)
	if err == nil {
		defer l.Close()
		if o.demo {
			err = demo.Play(ctx, l, os.Stdout)
		} else {
			err = console.Run(ctx, l, log.Name(), os.Stdin, os.Stdout)
		}
	}
	fmt.Println("logs of the functions:", log.Name())
	if err != nil {
		return fail(1, err)
	}
	return 0
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
