//go:build !lambda.norpc

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/deployed"
	"radwitness/pkg/fleet"
	"radwitness/pkg/operator"
	"radwitness/pkg/statuspage"
)

// pageFlags are those of status that make it a page.
func pageFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "serve", Usage: "show it in a browser, live, on this `ADDRESS`, such as 127.0.0.1:8080, until ctrl-c"},
		&cli.BoolFlag{Name: "serve-anyone", Usage: "allow -serve on an address that other machines can reach; the page asks nobody who they are"},
	}
}

// page serves the status page until the context ends.
func (c console) page(ctx context.Context, cmd *cli.Command, o *operator.Operator) error {
	for _, flag := range []string{"group", "watch", "check", "json"} {
		if cmd.IsSet(flag) {
			return fmt.Errorf("-%s does not go with -serve: the page shows all of it", flag)
		}
	}
	if !cmd.IsSet("serve") {
		return errors.New("-serve-anyone goes with -serve ADDRESS")
	}
	interval := statuspage.DefaultInterval
	if cmd.IsSet("interval") {
		interval = cmd.Duration("interval")
	}
	if interval < statuspage.MinInterval {
		return fmt.Errorf("-interval must be at least %v with -serve", statuspage.MinInterval)
	}
	// The first look is made at once: whoever asks for a page that cannot be filled wants to know now.
	if _, err := o.Report(ctx, ""); err != nil {
		return err
	}
	listener, err := statuspage.Listen(cmd.String("serve"), cmd.Bool("serve-anyone"))
	if errors.Is(err, statuspage.ErrReachable) {
		return fmt.Errorf("%w; -serve-anyone allows it", err)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.out, "status page: http://%s/, until ctrl-c\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	return statuspage.Serve(ctx, listener, statuspage.New(statuspage.Config{
		Source: o, Name: "account " + accountOf(o.Fleet) + ", " + deployed.RegionOf(o.Fleet), Interval: interval,
		Explain: func(err error) string { return deployed.Explain(context.WithoutCancel(ctx), err) },
	}))
}

// accountOf is the account of a fleet's target groups, which all are in one
// (arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID).
func accountOf(f *fleet.Fleet) string {
	return strings.Split(f.Groups[0].TargetGroups[0].ARN, ":")[4]
}
