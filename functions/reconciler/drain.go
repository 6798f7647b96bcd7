//go:build !lambda.norpc

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/operator"
	"radwitness/pkg/operator/screen"
)

func (c console) drain() *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "take a server out of its target groups for a time",
		ArgsUsage: "SERVER",
		Description: "SERVER is a name, or GROUP/NAME where several groups have one. It is still probed, and comes back by itself.\n" +
			"Exit code: 0 it is out, 2 refused or not out yet.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "for", Required: true, Usage: "`TIME` to stay out, as 90m, 2h or 1d; from 1m to 30d"},
			&cli.StringFlag{Name: "reason", Required: true, Usage: "`TEXT` for others to read"},
			&cli.BoolFlag{Name: "force", Usage: "even if too few servers are left, and in place of an earlier order"},
			waitFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			server, err := onlyServer(cmd)
			if err != nil {
				return err
			}
			length, err := parseAge(cmd.String("for"))
			if err != nil {
				return fmt.Errorf("-for %s: use a time like 90m, 2h or 1d, from 1m to 30d", cmd.String("for"))
			}
			return c.carryOut(ctx, cmd, func(o *operator.Operator) (operator.Carried, error) {
				return o.Drain(ctx, operator.Order{
					Server: server, For: length, Reason: cmd.String("reason"), Force: cmd.Bool("force"), Wait: cmd.Duration("wait"),
				})
			})
		},
	}
}

func (c console) undrain() *cli.Command {
	return &cli.Command{
		Name:        "undrain",
		Usage:       "take a drain back before its end",
		ArgsUsage:   "SERVER",
		Description: "The server comes back as its state allows. Exit code: 0 done, 2 refused or not back yet.",
		Flags:       []cli.Flag{waitFlag()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			server, err := onlyServer(cmd)
			if err != nil {
				return err
			}
			return c.carryOut(ctx, cmd, func(o *operator.Operator) (operator.Carried, error) {
				return o.Undrain(ctx, server, cmd.Duration("wait"))
			})
		},
	}
}

// carryOut gives an order and tells what became of it.
func (c console) carryOut(ctx context.Context, cmd *cli.Command, give func(*operator.Operator) (operator.Carried, error)) error {
	return c.look(ctx, cmd, func(o *operator.Operator) error {
		carried, err := give(o)
		if err != nil {
			return err
		}
		if err := c.print(cmd, carried, func(s screen.Screen) string { return s.Carried(carried) }); err != nil {
			return err
		}
		if !carried.Done && cmd.Duration("wait") > 0 {
			return errAttention
		}
		return nil
	})
}

func waitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "wait", Value: 30 * time.Second, Usage: "longest `TIME` to wait for the reconciler to do it; 0 does not wait"}
}

func onlyServer(cmd *cli.Command) (string, error) {
	if cmd.NArg() != 1 {
		return "", errors.New("name one server: " + cmd.FullName() + " SERVER")
	}
	return cmd.Args().First(), nil
}
