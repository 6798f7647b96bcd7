//go:build !lambda.norpc

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/fleet"
	"radwitness/pkg/nas"
	"radwitness/pkg/nas/live"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
)

// What a test may ask for at most: it is to find out what users see, and not to
// be what they suffer from.
const (
	maxLogins      = 100_000
	maxRate        = 500.0 // a second
	maxOutstanding = 256
	maxSockets     = 900       // a process may often have no more than 1,024 descriptors
	maxReplayed    = 5_000_000 // logins of a recorded time
)

// fleetTest is the command that asks the servers as a NAS would.
func (c command) fleetTest() *cli.Command {
	return &cli.Command{
		Name:  "fleet-test",
		Usage: "ask the servers as a network access server (NAS) would, and count what users see",
		Description: "Logs the test user in, again and again, the way a Meraki (strict, round-robin) or Cisco IOS (least-outstanding) device\n" +
			"chooses among its servers. With -record nothing is sent: the NAS lives through the recorded history of the group, once\n" +
			"with all servers in its list and once behind the NLB. docs/nas.md says how each strategy works, and where that is known from.\n" +
			"A wrong password counts towards the account's lockout with every login: see -max-rejects.\n" +
			"Exit code: 0 all users are let in, 2 not all (where no server answers, the NAS denies access), 3 bad usage or configuration.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "servers", Usage: "the NAS's list: `NAMES` in its order, with commas; else all servers in the order of the fleet"},
			&cli.StringFlag{Name: "strategy", Value: string(nas.Strict), Usage: "`NAME`: strict, round-robin or least-outstanding"},
			&cli.DurationFlag{Name: "timeout", Value: 2 * time.Second, Usage: "`TIME` to wait for the answer to a transmission"},
			&cli.IntFlag{Name: "retries", Value: 2, Usage: "`N` more rounds over the list; least-outstanding: retransmissions to the same server"},
			&cli.IntFlag{Name: "batch", Value: 25, Usage: "least-outstanding: logins in a row (`N`) that a server is given"},
			&cli.BoolFlag{Name: "ignore-preferred-server", Usage: "least-outstanding: do not send users back to the server that answered them last"},
			&cli.IntFlag{Name: "dead-after", Value: 3, Usage: "least-outstanding: `N` retransmissions in a row without an answer make a server dead"},
			&cli.DurationFlag{Name: "dead-silence", Value: 3 * time.Second, Usage: "least-outstanding: ... if its last answer is at least this `TIME` ago"},
			&cli.DurationFlag{Name: "deadtime", Value: 2 * time.Minute, Usage: "least-outstanding: `TIME` for which a dead server is not asked; 0: none is ever dead"},
			&cli.IntFlag{Name: "users", HideDefault: true, Usage: "`N` users log in in turn, and may have a preferred server; 0: nobody comes back"},
			&cli.IntFlag{Name: "n", HideDefault: true, Usage: "`N` logins; else 100, with -record as many as -rate makes"},
			&cli.FloatFlag{Name: "rate", HideDefault: true, Usage: "`N` logins a second; else 20, with -record 1"},
			&cli.IntFlag{Name: "outstanding", Value: 64, Usage: "`N` logins at the same time at most; live only"},
			&cli.IntFlag{Name: "max-rejects", Value: 10, Usage: "stop after `N` rejected logins in a row, 0: never; live only"},
			&cli.BoolFlag{Name: "trace", Usage: "print every transmission"},
			&cli.BoolFlag{Name: "record", Usage: "live through the recorded history instead of asking live servers"},
			&cli.DurationFlag{Name: "since", HideDefault: true, Usage: "with -record: from this `TIME` ago until now; else 24h"},
			&cli.TimestampFlag{Name: "from", Config: timestamps(), Usage: "with -record: from this `TIME`, such as 2026-01-31T02:00:00Z"},
			&cli.TimestampFlag{Name: "to", Config: timestamps(), Usage: "with -record: until this `TIME`; else now"},
			&cli.StringFlag{Name: "profile", Usage: "with -record: AWS `PROFILE`"},
			&cli.StringFlag{Name: "region", Usage: "with -record: AWS `REGION`; else that of the AWS configuration, or of the target groups"},
			&cli.StringFlag{Name: "health-table", Usage: "with -record: `NAME` of table health; else RADWITNESS_HEALTH_TABLE, or as deployed"},
			&cli.StringFlag{Name: "probes-table", Usage: "with -record: `NAME` of table probes; else RADWITNESS_PROBES_TABLE, or as deployed"},
		},
		Action: c.testFleet,
	}
}

func timestamps() cli.TimestampConfig { return cli.TimestampConfig{Layouts: []string{time.RFC3339}} }

// fleetTest is a test that a command line asks for.
type fleetTest struct {
	cmd      *cli.Command
	settings nas.Settings
	group    fleet.Group
	order    []int // servers of the group, as the NAS lists them
	report   nas.Report
}

// testFleet makes the test and prints its report.
func (c command) testFleet(ctx context.Context, cmd *cli.Command) error {
	p, err := c.prober(ctx, cmd)
	if err != nil {
		return err
	}
	t, err := newFleetTest(cmd, p.Fleet)
	if err != nil {
		return err
	}
	if cmd.Bool("record") {
		err = t.replay(ctx, c.source(cmd))
	} else {
		err = t.live(ctx, p, c.err)
	}
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		err = printJSON(c.out, t.report)
	} else {
		err = t.report.WriteText(c.out)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if slices.ContainsFunc(t.report.Views, func(v nas.View) bool { return v.LetIn.Deny < v.Logins }) {
		return errCritical
	}
	return nil
}

// newFleetTest reads a command line.
func newFleetTest(cmd *cli.Command, f *fleet.Fleet) (*fleetTest, error) {
	t := &fleetTest{cmd: cmd, settings: nas.Settings{
		Strategy: nas.Strategy(cmd.String("strategy")), Timeout: cmd.Duration("timeout"), Retries: cmd.Int("retries"),
		Batch: cmd.Int("batch"), IgnorePreferred: cmd.Bool("ignore-preferred-server"),
		DeadAfter: cmd.Int("dead-after"), DeadSilence: cmd.Duration("dead-silence"), DeadTime: cmd.Duration("deadtime"),
	}}
	if err := t.settings.Check(); err != nil {
		return nil, err
	}
	name := cmd.String("group")
	if name == "" && len(f.Groups) == 1 {
		name = f.Groups[0].Name
	}
	var ok bool
	if t.group, ok = f.Group(name); !ok {
		return nil, fmt.Errorf("-group %q is not one of the fleet's groups: %s", name, strings.Join(f.GroupNames(), ", "))
	}
	if err := t.choose(cmd.String("servers")); err != nil {
		return nil, err
	}
	for _, name := range []string{"n", "users", "max-rejects"} {
		if cmd.Int(name) < 0 {
			return nil, fmt.Errorf("-%s must not be negative", name)
		}
	}
	if cmd.Float("rate") < 0 {
		return nil, errors.New("-rate must not be negative")
	}
	t.report = nas.Report{
		Group: t.group.Name, FleetVersion: f.Version, Recorded: cmd.Bool("record"), Settings: t.settings.Report(),
	}
	return t, nil
}

// choose sets the order of the NAS's list.
func (t *fleetTest) choose(list string) error {
	if list == "" {
		for i := range t.group.Servers {
			t.order = append(t.order, i)
		}
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		n := slices.IndexFunc(t.group.Servers, func(s fleet.Server) bool { return s.Name == name })
		switch {
		case n < 0:
			return fmt.Errorf("-servers: %q is not one of the servers of group %s: %s", name, t.group.Name,
				strings.Join(t.group.ServerNames(), ", "))
		case slices.Contains(t.order, n):
			return fmt.Errorf("-servers: %s is there twice", name)
		}
		t.order = append(t.order, n)
	}
	return nil
}

// live asks the servers.
func (t *fleetTest) live(ctx context.Context, p *prober.Prober, progress io.Writer) error {
	test := live.Test{
		Settings: t.settings, Logins: cmp.Or(t.cmd.Int("n"), 100), Rate: cmp.Or(t.cmd.Float("rate"), 20),
		Outstanding: t.cmd.Int("outstanding"), Users: t.cmd.Int("users"), MaxRejects: t.cmd.Int("max-rejects"), Trace: t.cmd.Bool("trace"),
	}
	switch most := min(maxOutstanding, maxSockets/len(t.order)); {
	case test.Logins > maxLogins:
		return fmt.Errorf("-n must be at most %d", maxLogins)
	case test.Rate > maxRate:
		return fmt.Errorf("-rate must be at most %g", maxRate)
	case test.Outstanding < 1, test.Outstanding > most:
		return fmt.Errorf("-outstanding must be from 1 to %d with %d servers", most, len(t.order))
	}
	for _, flag := range []string{"since", "from", "to", "profile", "region", "health-table", "probes-table"} {
		if t.cmd.IsSet(flag) {
			return fmt.Errorf("-%s needs -record", flag)
		}
	}
	group := t.group
	group.Servers = nil
	for _, n := range t.order {
		group.Servers = append(group.Servers, t.group.Servers[n])
	}
	requests, err := p.UserRequests(ctx, group)
	if err != nil {
		return err
	}
	eap := false
	for i := range requests {
		requests[i].AttemptTimeout = t.settings.Timeout
		check, _ := group.Servers[i].UserCheck()
		test.Servers = append(test.Servers, nas.Server{
			Name: group.Servers[i].Name, Address: requests[i].Server.String(), Criteria: check.Criteria,
		})
		eap = eap || check.Method.UsesEAP()
	}
	test.Network = live.RADIUS{Prober: &probe.Prober{}, Requests: requests}
	_, _ = fmt.Fprintf(progress, "logins: %d, %g a second, which takes %v or longer\n", test.Logins, test.Rate,
		time.Duration(float64(test.Logins)/test.Rate*float64(time.Second)).Round(time.Second))

	t.report.From = time.Now().UTC()
	found, err := test.Run(ctx)
	t.report.To = time.Now().UTC()
	if err != nil {
		return err
	}
	if found.View.Logins == 0 {
		return errors.New("interrupted before the first login was over")
	}
	t.report.Views, t.report.Notes = []nas.View{found.View}, found.Notes
	if eap {
		t.report.Notes = append(t.report.Notes, "a whole EAP conversation counts as one transmission, and must be over within the timeout")
	}
	return nil
}
