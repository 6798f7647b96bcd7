//go:build !lambda.norpc

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/urfave/cli/v3"

	"radwitness/pkg/bootstrap"
	"radwitness/pkg/commandline"
	"radwitness/pkg/deployed"
	"radwitness/pkg/fleet"
	"radwitness/pkg/nas"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
)

// The exit codes of the commands, as the Monitoring Plugins guidelines have them.
const (
	exitHealthy  = 0
	exitCritical = 2 // a server is not healthy, or a user would not be let in
	exitUnknown  = 3 // bad usage or configuration: nothing was found out
)

// errCritical ends a command that has said what is not well.
var errCritical = errors.New("not all is well")

// command is the prober outside Lambda.
type command struct {
	environ  []string
	out, err io.Writer
}

// operate runs the command. It returns the exit code.
func operate(environ []string, out, errs io.Writer, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return command{environ: environ, out: out, err: errs}.run(ctx, args)
}

// run returns the exit code.
func (c command) run(ctx context.Context, args []string) int {
	err := c.root(args).Run(ctx, append([]string{"radwitness-prober"}, args...))
	switch {
	case err == nil:
		return exitHealthy
	case errors.Is(err, errCritical):
		return exitCritical
	}
	_, _ = fmt.Fprintln(c.err, "radwitness-prober:", deployed.Explain(ctx, err))
	return exitUnknown
}

// root is the tree of commands.
func (c command) root(args []string) *cli.Command {
	root := &cli.Command{
		Name:  "radwitness-prober",
		Usage: "probe the servers of a fleet once, now, and print what came of it",
		Description: "With the command fleet-test the servers are asked as a network access server asks them.\n" +
			"Exit code: 0 all healthy, 2 a server is not, 3 bad usage or configuration.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "fleet `FILE`; else RADWITNESS_FLEET, or fleet.yaml here"},
			&cli.StringFlag{Name: "group", Usage: "only this `GROUP`"},
			&cli.StringFlag{Name: "server", Usage: "only this `SERVER`", Local: true},
			&cli.StringFlag{Name: "method", Usage: "probe by this `METHOD` instead of the configured one", Local: true},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Commands:                        []*cli.Command{c.fleetTest()},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: func(cmd *cli.Command) { cmd.Hidden = false },
		HideVersion:                     true,
		Writer:                          c.out,
		ErrWriter:                       c.err,
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {}, // run does that
		Action:                          c.probe,
	}
	for _, cmd := range append(root.Commands, root) {
		cmd.OnUsageError, cmd.HideHelpCommand, cmd.ShellComplete = commandline.UsageError, true, c.complete(args)
	}
	return root
}

// complete suggests commands and flags, and words where a flag has a few values
// only. args are those of the command line, the last of which asks for it.
func (c command) complete(args []string) cli.ShellCompleteFunc {
	return func(_ context.Context, cmd *cli.Command) {
		commandline.Suggest(c.out, cmd, commandline.Last(args), func(after string) []string {
			words := []string{}
			switch after {
			case "group":
				return c.source(cmd).FleetOrNone().GroupNames()
			case "server", "servers":
				for _, g := range c.source(cmd).FleetOrNone().Groups {
					words = append(words, g.ServerNames()...)
				}
			case "method":
				for _, m := range probe.Supported() {
					words = append(words, string(m))
				}
			case "strategy":
				for _, s := range nas.Strategies() {
					words = append(words, string(s))
				}
			default:
				return nil
			}
			return words
		})
	}
}

// source is what the command line and the environment say of the fleet, and of
// what is deployed.
func (c command) source(cmd *cli.Command) deployed.Source {
	return deployed.Source{
		Environ: c.environ, FleetFile: cmd.String("config"), Profile: cmd.String("profile"), Region: cmd.String("region"),
		ProbesTable: cmd.String("probes-table"), HealthTable: cmd.String("health-table"),
		Warn: func(text string) { _, _ = fmt.Fprintln(c.err, "radwitness-prober: warning:", text) },
	}
}

// prober makes the prober of the fleet that a command line names.
func (c command) prober(ctx context.Context, cmd *cli.Command) (*prober.Prober, error) {
	if err := commandline.NoArguments(cmd); err != nil {
		return nil, err
	}
	f, err := c.source(cmd).Fleet(c.environ)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return &prober.Prober{
		Fleet: f, Transactor: &probe.Prober{}, Log: log,
		Credentials: secrets(func() (aws.Config, error) { return bootstrap.AWS(ctx) }, c.environ, log),
	}, nil
}

// probe probes once and prints what came of it.
func (c command) probe(ctx context.Context, cmd *cli.Command) error {
	p, err := c.prober(ctx, cmd)
	if err != nil {
		return err
	}
	request := prober.Request{Group: cmd.String("group"), Server: cmd.String("server"), Method: fleet.Method(cmd.String("method"))}
	if err := supported(p.Fleet); err != nil && request.Method == "" {
		return err
	}
	report, err := p.Report(ctx, request)
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		err = printJSON(c.out, report)
	} else {
		err = printTable(c.out, report)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if !report.Healthy {
		return errCritical
	}
	return nil
}

func printJSON(w io.Writer, report any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

func printTable(w io.Writer, report prober.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "GROUP\tSERVER\tADDRESS\tMETHOD\tOUTCOME\tLATENCY\tSENT\tCERTIFICATE\tREPLY")
	for _, s := range report.Results {
		latency := "-"
		if s.LatencyMS > 0 {
			latency = fmt.Sprintf("%.1f ms", s.LatencyMS)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			s.Group, s.Server, s.Address, s.Method, s.Outcome, latency, s.Transmissions, certificate(s.Certificate), reply(s))
	}
	return table.Flush() // reports what failed above, too
}

// certificate says how long the server's certificate is good for.
func certificate(c *prober.CertificateReport) string {
	if c == nil {
		return "-"
	}
	return fmt.Sprintf("%s, %.0f days, chain %s", c.ExpiresAt.Format(time.DateOnly), c.DaysLeft, c.Chain)
}

// reply is the server's own words, or else what was wrong.
func reply(s prober.ServerReport) string {
	switch {
	case s.Reason == "":
		return s.ReplyMessage
	case s.ReplyMessage == "":
		return s.Reason
	}
	return s.ReplyMessage + " (" + s.Reason + ")"
}
