//go:build !lambda.norpc

package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/commandline"
	"radwitness/pkg/operator"
	"radwitness/pkg/operator/screen"
)

func (c console) plan() *cli.Command {
	return &cli.Command{
		Name:        "plan",
		Usage:       "what a pass over the target groups would do now, and why",
		Description: "Changes nothing. Exit code: 0 nothing to do, 2 something to do (in observe mode, too), 3 a target group could not be looked at.",
		Flags:       []cli.Flag{groupFlag()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := commandline.NoArguments(cmd); err != nil {
				return err
			}
			return c.look(ctx, cmd, func(o *operator.Operator) error {
				plan, err := o.Plan(ctx, cmd.String("group"))
				if err != nil {
					return err
				}
				if err := c.print(cmd, plan, func(s screen.Screen) string { return s.Plan(plan) }); err != nil {
					return err
				}
				todo := false
				for _, g := range plan.Groups {
					for _, tg := range g.TargetGroups {
						if tg.Error != "" {
							return errors.New("not every target group could be looked at")
						}
						todo = todo || !tg.Empty()
					}
				}
				if todo {
					return errAttention
				}
				return nil
			})
		},
	}
}
