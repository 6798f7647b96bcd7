package screen

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/operator"
)

// Status draws a report: per group a headline, a line for each server, and what
// is to be said of those that are not well.
func (s Screen) Status(r operator.Report) string {
	parts := make([]string, len(r.Groups))
	for i, g := range r.Groups {
		parts[i] = s.headline(g, r.At) + s.warnings(g.Warnings) + s.servers(g, r.At) + s.explanations(g, r.At)
	}
	return s.faint(fmt.Sprintf("%s  fleet %s", r.At.In(s.Location).Format("2006-01-02 15:04:05 MST"), r.FleetVersion)) + "\n" +
		strings.Join(parts, "\n")
}

func (s Screen) headline(g operator.Group, now time.Time) string {
	word := s.doubt(operator.CaseWord(g.Case, g.FailOpen))
	switch {
	case g.Case == health.CaseServing:
		word = s.good(string(g.Case))
	case g.Case == health.CaseOutage && g.FailOpen:
		word = s.bad(string(g.Case))
	}
	floor := fmt.Sprintf("fails open below %d", g.Below)
	if g.Below == 0 {
		floor = "fails closed"
	}
	open := ""
	if g.FailOpen {
		open = "; " + s.bad("FAIL-OPEN")
		if g.FailOpenSince != nil {
			open += fmt.Sprintf(" since %s (%s)", s.clock(*g.FailOpenSince, now), operator.Short(now.Sub(*g.FailOpenSince)))
		}
	}
	newest := "never"
	if g.NewestRound != nil {
		newest = operator.Short(now.Sub(*g.NewestRound)) + " ago"
	}
	return fmt.Sprintf("%s (%s)  %s: %s\n  registered %d of %d, wanted %d; %s%s; newest probe %s\n",
		s.bold(g.Name), s.modeWord(string(g.Mode)), word, g.Meaning, g.Registered, len(g.Servers), g.Desired, floor, open, newest)
}

func (s Screen) servers(g operator.Group, now time.Time) string {
	var rows [][]string
	for _, server := range g.Servers {
		cells := func(name, state string, at *time.Time, in string, c operator.Check, held *time.Time) []string {
			return []string{
				name, c.Address, state, since(at, now), in, cmp.Or(string(c.Outcome), "-"), latency(c), streak(c), s.clockOrDash(held, now),
			}
		}
		worst := worstCheck(server)
		state := s.by(server.Standing, mark(server.Standing)+" "+string(server.Standing))
		rows = append(rows, cells("  "+server.Name, state, server.Since, s.membership(server, len(g.TargetGroups)), worst, server.HeldUntil))
		if len(server.Checks) < 2 {
			continue
		}
		for _, c := range server.Checks {
			rows = append(rows, cells("    "+string(c.Method), "  "+string(c.Status), c.Since, "", c, c.HeldUntil))
		}
	}
	headers := []string{"  server", "address", "state", "since", "targets", "last outcome", "p50/p99 ms", "streak", "held until"}
	return s.fitted(headers, rows, "address", "p50/p99 ms", "streak")
}

// worstCheck is the check that a server's standing comes from.
func worstCheck(server operator.Server) operator.Check {
	for _, c := range server.Checks {
		if c.Row == server.Row {
			return c
		}
	}
	return server.Checks[0]
}

// membership says where a server is, and where it should be if that differs.
func (s Screen) membership(server operator.Server, targetGroups int) string {
	var text string
	switch {
	case server.Registered == targetGroups:
		text = "in"
	case server.Registered > 0:
		text = fmt.Sprintf("in %d of %d", server.Registered, targetGroups)
	case server.Draining > 0:
		text = "out, draining"
	default:
		text = "out"
	}
	switch {
	case server.Membership == health.In && server.Registered < targetGroups:
		return s.doubt(text + " -> in")
	case server.Membership == health.Out && server.Registered > 0:
		return s.doubt(text + " -> out")
	case server.Registered == targetGroups:
		return s.good(text)
	}
	return s.bad(text)
}

// explanations say why the servers that are not well stand where they do, and
// what comes next.
func (s Screen) explanations(g operator.Group, now time.Time) string {
	var b strings.Builder
	for _, server := range g.Servers {
		in := server.Registered == len(g.TargetGroups)
		if server.Standing == health.StandingSolid && in {
			continue
		}
		why := server.Reason
		if server.Standing != health.StandingDrained {
			if said := told(worstCheck(server)); said != "" {
				why += "; last probe: " + said
			}
		}
		next := server.Next
		if server.NextAt != nil && server.NextAt.After(now) {
			next += ", at " + s.clock(*server.NextAt, now) + " at the earliest"
		}
		fmt.Fprintf(&b, "  %s %s: %s\n    %s %s\n", s.by(server.Standing, mark(server.Standing)), s.bold(server.Name), visible(why), s.faint("next:"), next)
	}
	return b.String()
}

// told is what the newest probe came to, in the words of prober and server.
func told(c operator.Check) string {
	var words []string
	if c.Outcome != "" {
		words = append(words, string(c.Outcome))
	}
	if c.Reason != "" && c.Reason != string(c.Outcome) {
		words = append(words, c.Reason)
	}
	if c.ReplyMessage != "" {
		words = append(words, fmt.Sprintf("%q", c.ReplyMessage))
	}
	return strings.Join(words, ", ")
}

func latency(c operator.Check) string {
	if c.LatencyP50MS == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f/%.1f", c.LatencyP50MS, c.LatencyP99MS)
}

func streak(c operator.Check) string {
	switch {
	case c.ConsecutiveFailures > 0:
		return fmt.Sprintf("%d failed", c.ConsecutiveFailures)
	case c.ConsecutiveSuccesses > 0:
		return fmt.Sprintf("%d ok", c.ConsecutiveSuccesses)
	}
	return "-"
}
