package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"radwitness/pkg/bootstrap"
	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
)

// The exit codes of the command, as the Monitoring Plugins guidelines have them.
const (
	exitHealthy  = 0
	exitCritical = 2 // a server is not healthy
	exitUnknown  = 3 // bad usage or configuration: nothing was found out
)

const usage = `usage: prober -config FILE [-group GROUP] [-server SERVER] [-method METHOD] [-json]

Probes the servers of a fleet once, now, and prints what came of it.
Exit code: 0 all healthy, 2 a server is not, 3 bad usage or configuration.

`

// command is the prober outside Lambda.
type command struct {
	environ  []string
	out, err io.Writer
}

// run returns the exit code.
func (c command) run(ctx context.Context, args []string) int {
	report, asJSON, err := c.probe(ctx, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitHealthy
	case err != nil:
		_, _ = fmt.Fprintln(c.err, "prober:", err)
		return exitUnknown
	}
	if asJSON {
		err = printJSON(c.out, report)
	} else {
		err = printTable(c.out, report)
	}
	if err != nil {
		_, _ = fmt.Fprintln(c.err, "prober: writing the report:", err)
		return exitUnknown
	}
	if !report.Healthy {
		return exitCritical
	}
	return exitHealthy
}

// probe reads the arguments and makes the probes.
func (c command) probe(ctx context.Context, args []string) (report prober.Report, asJSON bool, err error) {
	flags := flag.NewFlagSet("prober", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var path string
	var request prober.Request
	flags.StringVar(&path, "config", "", "fleet `file`")
	flags.StringVar(&request.Group, "group", "", "probe only this `group`")
	flags.StringVar(&request.Server, "server", "", "probe only this `server`")
	flags.StringVar((*string)(&request.Method), "method", "", "probe by this `method` instead of the configured one")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON")
	if err := flags.Parse(args); err != nil {
		_, _ = io.WriteString(c.err, usage)
		flags.SetOutput(c.err)
		flags.PrintDefaults()
		return report, false, err
	}
	switch {
	case flags.NArg() > 0:
		return report, false, fmt.Errorf("%q is no argument of this command; -h shows them", flags.Arg(0))
	case path == "":
		return report, false, errors.New("-config FILE is needed; testdata/fleet.yaml is an example")
	}
	f, err := fleet.Load(path, c.environ)
	if err != nil {
		return report, false, err
	}
	if err := supported(f); err != nil && request.Method == "" {
		return report, false, err
	}
	log := slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p := &prober.Prober{
		Fleet: f, Transactor: &probe.Prober{}, Log: log,
		Credentials: secrets(func() (aws.Config, error) { return bootstrap.AWS(ctx) }, c.environ, log),
	}
	report, err = p.Report(ctx, request)
	return report, asJSON, err
}

func printJSON(w io.Writer, report prober.Report) error {
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
