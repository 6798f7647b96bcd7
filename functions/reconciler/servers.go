//go:build !lambda.norpc

package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/commandline"
	"radwitness/pkg/operator"
	"radwitness/pkg/operator/screen"
)

func (c console) servers() *cli.Command {
	return &cli.Command{
		Name:  "servers",
		Usage: "the counters of every server, in the manner of Cisco's show aaa servers",
		Flags: []cli.Flag{groupFlag()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := commandline.NoArguments(cmd); err != nil {
				return err
			}
			return c.look(ctx, cmd, func(o *operator.Operator) error {
				report, err := o.Servers(ctx, cmd.String("group"))
				if err != nil {
					return err
				}
				return c.print(cmd, report, func(s screen.Screen) string { return s.Servers(report) })
			})
		},
	}
}
