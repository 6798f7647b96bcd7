//go:build !lambda.norpc

package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/commandline"
	"radwitness/pkg/operator"
	"radwitness/pkg/operator/screen"
)

func (c console) status() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "where every server stands and why, and what can come next",
		Flags: append([]cli.Flag{
			groupFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "again and again, until q or ctrl-c; one report after the other where there is no terminal"},
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "`TIME` between two looks of -watch, or of -serve, where it is 5s unless given"},
			&cli.BoolFlag{Name: "check", Usage: "exit with 2 unless every server is up or drained and in its target groups, and nothing is to be warned of"},
		}, pageFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := commandline.NoArguments(cmd); err != nil {
				return err
			}
			return c.look(ctx, cmd, func(o *operator.Operator) error {
				if cmd.IsSet("serve") || cmd.IsSet("serve-anyone") {
					return c.page(ctx, cmd, o)
				}
				read := func(ctx context.Context) (operator.Report, error) { return o.Report(ctx, cmd.String("group")) }
				if cmd.Bool("watch") {
					return c.watch(ctx, cmd, read)
				}
				report, err := read(ctx)
				if err != nil {
					return err
				}
				err = c.print(cmd, report, func(s screen.Screen) string { return s.Status(report) })
				if err == nil && cmd.Bool("check") && !report.Well() {
					return errAttention
				}
				return err
			})
		},
	}
}

// watch shows one report after the other.
func (c console) watch(ctx context.Context, cmd *cli.Command, read func(context.Context) (operator.Report, error)) error {
	interval := cmd.Duration("interval")
	switch {
	case interval < 100*time.Millisecond:
		return errors.New("-interval must be at least 100ms")
	case cmd.Bool("check"):
		return errors.New("-check goes with one look, not with -watch")
	}
	if screen.Terminal(c.in, c.out) && !cmd.Bool("json") {
		return screen.Watch(ctx, c.in, c.out, interval, read)
	}
	for {
		report, err := read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.print(cmd, report, func(s screen.Screen) string { return s.Status(report) + "\n" }); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}
