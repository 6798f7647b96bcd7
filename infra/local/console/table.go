package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"

	"radwitness/infra/local/lab"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// transitions is how many of them are shown.
const transitions = 10

// painter draws views. Its renderer knows whether the output has colours.
type painter struct {
	renderer *lipgloss.Renderer
	faults   bool // the servers can have faults
}

func (p painter) colour(code string) lipgloss.Style {
	return p.renderer.NewStyle().Foreground(lipgloss.Color(code))
}

func (p painter) good() lipgloss.Style  { return p.colour("2") }
func (p painter) bad() lipgloss.Style   { return p.colour("1") }
func (p painter) doubt() lipgloss.Style { return p.colour("3") }
func (p painter) faint() lipgloss.Style { return p.renderer.NewStyle().Faint(true) }
func (p painter) bold() lipgloss.Style  { return p.renderer.NewStyle().Bold(true) }

// draw is the view as text. selected says which servers are marked.
func (p painter) draw(v lab.View, now time.Time, selected func(n int) bool) string {
	var parts []string
	n := 0
	for _, g := range v {
		parts = append(parts, p.headline(g), p.servers(g, n, now, selected))
		n += len(g.Servers)
	}
	parts = append(parts, p.history(v))
	return strings.Join(parts, "\n")
}

// headline is the line of a group.
func (p painter) headline(g lab.Group) string {
	failOpen := "off"
	if g.Row.FailOpen {
		failOpen = p.doubt().Render("ON")
	}
	verdict := string(g.Row.Case)
	if g.Row.Case == "" {
		verdict = "undecided"
	}
	line := fmt.Sprintf("%s (%s)  case %s, fail-open %s (below %d), registered %d/%d",
		p.bold().Render(g.Name), g.Mode, verdict, failOpen, g.Below, g.Registered(), len(g.Servers))
	if g.Row.PassError != "" {
		line += "\n" + p.bad().Render("last pass: "+g.Row.PassError)
	}
	return line
}

// servers is the table of a group. before is how many servers have been drawn.
func (p painter) servers(g lab.Group, before int, now time.Time, selected func(int) bool) string {
	headers := []string{"", "server", "address", "state", "since", "last outcome", "latency", "streak", "registered"}
	if p.faults {
		headers = append(headers, "fault")
	}
	headers = append(headers, "why")
	t := table.New().Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderHeader(false).
		Headers(headers...).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return p.faint().PaddingRight(1)
			}
			return p.renderer.NewStyle().PaddingRight(1)
		})
	for i, s := range g.Servers {
		mark := fmt.Sprintf("  %d", before+i+1)
		if selected(before + i) {
			mark = p.bold().Render(fmt.Sprintf("> %d", before+i+1))
		}
		cells := []string{
			mark, s.Name, s.Address.String(), p.state(s, now), age(s.State.Since, now),
			cmp.Or(string(s.Probe.Outcome), "-"), latency(s), streak(s), p.registered(s),
		}
		if p.faults {
			cells = append(cells, s.Fault)
		}
		t.Row(append(cells, g.Row.Reasons[s.Name])...)
	}
	return t.String()
}

func (p painter) state(s lab.Server, now time.Time) string {
	switch s.State.Status {
	case health.Up:
		return p.good().Render("up")
	case health.Down:
		return p.bad().Render("down")
	case health.HoldDown:
		left := max(0, s.State.HeldUntil.Sub(now).Round(time.Second))
		return p.doubt().Render(fmt.Sprintf("holddown, %v left", left))
	}
	return string(s.State.Status)
}

func (p painter) registered(s lab.Server) string {
	switch {
	case s.In():
		return p.good().Render("yes")
	case s.Registered > 0:
		return p.doubt().Render(fmt.Sprintf("in %d of %d", s.Registered, s.TargetGroups))
	}
	return p.bad().Render("no")
}

// history is the newest transitions of all groups, newest first.
func (p painter) history(v lab.View) string {
	type line struct {
		store.Transition
		group string
	}
	var all []line
	for _, g := range v {
		for _, t := range g.Transitions {
			all = append(all, line{t, g.Name})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return b.At.Compare(a.At) })
	text := p.faint().Render("last transitions")
	for _, t := range all[:min(len(all), transitions)] {
		subject := t.Server
		switch {
		case subject == "":
			subject = t.group + " fail-open"
		case len(v) > 1:
			subject = t.group + "/" + subject
		}
		text += fmt.Sprintf("\n  %s  %s: %s -> %s, %s", t.At.Local().Format(time.TimeOnly), subject, t.From, t.To, t.Rule)
		if t.Outcome != "" {
			text += fmt.Sprintf(" (%s)", t.Outcome)
		}
		if !t.HeldUntil.IsZero() {
			text += ", held until " + t.HeldUntil.Local().Format(time.TimeOnly)
		}
	}
	if len(all) == 0 {
		text += "\n  none yet"
	}
	return text
}

// age is how long ago something was.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(0, now.Sub(t)).Truncate(time.Second).String()
}

func latency(s lab.Server) string {
	if s.Probe.LatencyMS == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f ms", s.Probe.LatencyMS)
}

func streak(s lab.Server) string {
	switch {
	case s.Probe.ConsecutiveFailures > 0:
		return fmt.Sprintf("%d failed", s.Probe.ConsecutiveFailures)
	case s.Probe.ConsecutiveSuccesses > 0:
		return fmt.Sprintf("%d ok", s.Probe.ConsecutiveSuccesses)
	}
	return "-"
}
