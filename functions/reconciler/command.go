//go:build !lambda.norpc

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/commandline"
	"radwitness/pkg/deployed"
	"radwitness/pkg/operator"
	"radwitness/pkg/operator/screen"
)

// The exit codes of the commands.
const (
	exitFine      = 0
	exitWarnings  = 1 // of doctor alone
	exitAttention = 2 // there is something to do, or an order was refused
	exitFailed    = 3 // bad usage or configuration, or AWS did not answer: nothing was found out
)

// errAttention ends a command that has said what needs attention.
var errAttention = errors.New("something needs attention")

// console is the terminal, or the program, that a command talks to.
type console struct {
	environ  []string
	in       *os.File
	out, err io.Writer
	args     []string
}

// operate is the operator's command. It returns the exit code.
func operate(environ []string, in *os.File, out, errs io.Writer, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return console{environ, in, out, errs, args}.run(ctx)
}

func (c console) run(ctx context.Context) int {
	err := c.root().Run(ctx, append([]string{"radwitness"}, c.args...))
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errAttention):
		return exitAttention
	case errors.Is(err, errWarnings):
		return exitWarnings
	}
	_, _ = fmt.Fprintln(c.err, "radwitness:", deployed.Explain(ctx, err))
	if errors.Is(err, operator.ErrRefused) {
		return exitAttention
	}
	return exitFailed
}

// root is the tree of commands.
func (c console) root() *cli.Command {
	root := &cli.Command{
		Name:  "radwitness",
		Usage: "see and steer the health of RADIUS servers behind a Network Load Balancer",
		Description: "Reads the two tables and the target groups of a deployment, with the usual AWS environment and profile.\n" +
			"Exit code: 0 fine, 1 warnings of doctor, 2 something needs attention, 3 bad usage, configuration or no answer from AWS.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "fleet `FILE`; else RADWITNESS_FLEET, or fleet.yaml here"},
			&cli.StringFlag{Name: "profile", Usage: "AWS `PROFILE`"},
			&cli.StringFlag{Name: "region", Usage: "AWS `REGION`; else that of the AWS configuration, or of the target groups"},
			&cli.StringFlag{Name: "probes-table", Usage: "`NAME` of table probes; else RADWITNESS_PROBES_TABLE, or as deployed"},
			&cli.StringFlag{Name: "health-table", Usage: "`NAME` of table health; else RADWITNESS_HEALTH_TABLE, or as deployed"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON (docs/schema)"},
		},
		Commands:                        []*cli.Command{c.status(), c.servers(), c.plan(), c.timeline(), c.drain(), c.undrain(), c.doctor()},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: func(cmd *cli.Command) { cmd.Hidden = false },
		HideVersion:                     true,
		Writer:                          c.out,
		ErrWriter:                       c.err,
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {}, // run does that
		OnUsageError:                    commandline.UsageError,
		ShellComplete:                   c.complete,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return fmt.Errorf("there is no command %q; radwitness -h lists them", cmd.Args().First())
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
	for _, cmd := range root.Commands {
		cmd.OnUsageError, cmd.HideHelpCommand, cmd.ShellComplete = commandline.UsageError, true, c.complete
	}
	return root
}

// groupFlag chooses a group.
func groupFlag() cli.Flag { return &cli.StringFlag{Name: "group", Usage: "only this `GROUP`"} }

// complete suggests commands and flags, and the names of the fleet where they may
// stand.
func (c console) complete(_ context.Context, cmd *cli.Command) {
	commandline.Suggest(c.out, cmd, commandline.Last(c.args), func(after string) []string {
		f := c.source(cmd).FleetOrNone()
		switch after {
		case "group":
			return f.GroupNames()
		case "drain", "undrain":
			return operator.ServerNames(f)
		}
		return nil
	})
}

// print writes what a command found: as JSON, or drawn for a person.
func (c console) print(cmd *cli.Command, v any, draw func(screen.Screen) string) error {
	if !cmd.Bool("json") {
		_, err := io.WriteString(c.out, draw(screen.New(c.out)))
		return err
	}
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
