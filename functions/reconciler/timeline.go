//go:build !lambda.norpc

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/commandline"
	"radwitness/pkg/operator"
	"radwitness/pkg/operator/screen"
)

func (c console) timeline() *cli.Command {
	return &cli.Command{
		Name:  "timeline",
		Usage: "what happened, as text or as a picture",
		Flags: []cli.Flag{
			groupFlag(),
			&cli.StringFlag{Name: "since", Value: "24h", Usage: "`TIME` to look back, as 90m, 24h or 7d; 90d at most"},
			&cli.StringFlag{Name: "svg", Usage: "write a picture of one group to `FILE`"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := commandline.NoArguments(cmd); err != nil {
				return err
			}
			back, err := parseAge(cmd.String("since"))
			if err != nil {
				return err
			}
			return c.look(ctx, cmd, func(o *operator.Operator) error {
				if cmd.IsSet("svg") && cmd.String("group") == "" && len(o.Fleet.Groups) > 1 {
					return errors.New("a picture is of one group: name it with -group")
				}
				lines, err := o.Timelines(ctx, cmd.String("group"), time.Now().Add(-back))
				if err != nil {
					return err
				}
				if file := cmd.String("svg"); file != "" {
					if err := os.WriteFile(file, lines.Groups[0].SVG(time.Local), 0o644); err != nil {
						return fmt.Errorf("writing the picture: %w", err)
					}
				}
				return c.print(cmd, lines, func(s screen.Screen) string { return s.Timelines(lines) })
			})
		},
	}
}

// parseAge reads a time of up to the 90 days that history is kept: a Go duration,
// or whole days as in 7d.
func parseAge(text string) (time.Duration, error) {
	const day, longest = 24 * time.Hour, 90 * 24 * time.Hour
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		age = time.Duration(min(n, 1000)) * day
	}
	if err != nil || age <= 0 || age > longest {
		return 0, fmt.Errorf("-since %s: use a time like 90m, 24h or 7d, of 90d at most", text)
	}
	return age, nil
}
