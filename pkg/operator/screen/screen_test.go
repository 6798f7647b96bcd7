package screen

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { t := noon.Add(-d); return &t }

// report has a server of every standing.
func report() operator.Report {
	server := func(name string, standing health.Standing, m health.Membership, registered int, c operator.Check) operator.Server {
		c.Row, c.Method, c.Address = name, fleet.PAP, "10.0.1.10:1812"
		return operator.Server{
			Name: name, Address: "10.0.1.10", Standing: standing, Row: name, Membership: m, Registered: registered, Since: ago(3 * time.Hour),
			Reason: "the reason", Next: "what is next", NextAt: ago(-time.Minute), Checks: []operator.Check{c},
		}
	}
	ok := operator.Check{Status: health.Up, Outcome: health.Accept, ConsecutiveSuccesses: 12, LatencyP50MS: 1.5, LatencyP99MS: 20}
	failed := operator.Check{Status: health.Down, Outcome: health.Reject, Reason: "code 3", ReplyMessage: "no directory", ConsecutiveFailures: 4}
	held := server("ise-4", health.StandingHoldDown, health.In, 1, ok)
	held.HeldUntil = ago(-30 * time.Second)
	drained := server("ise-5", health.StandingDrained, health.Out, 0, ok)
	drained.Row = ""
	two := server("ise-6", health.StandingUnknown, health.Keep, 2, operator.Check{Status: health.Unknown})
	two.Since, two.NextAt = nil, nil
	acct := operator.Check{Row: "ise-6/accounting", Method: fleet.Accounting, Address: "10.0.1.10:1813", Status: health.Up, Since: ago(time.Minute), Outcome: health.Alive, ConsecutiveSuccesses: 1}
	two.Checks = append(two.Checks, acct)
	return operator.Report{At: noon, FleetVersion: "0123456789ab", Groups: []operator.Group{
		{
			Name: "vpn", Mode: fleet.Enforce, Case: health.CaseOutage, Meaning: "too few servers answer", Below: 2, FailOpen: true, FailOpenSince: ago(26 * time.Hour),
			Registered: 3, Desired: 4, NewestRound: ago(2 * time.Second), TargetGroups: make([]operator.TargetGroup, 2), Warnings: []string{"a warning"},
			Servers: []operator.Server{
				server("ise-1", health.StandingSolid, health.In, 2, ok), server("ise-2", health.StandingInDoubt, health.In, 2, failed),
				server("ise-3", health.StandingDown, health.Out, 1, failed), held, drained, two, server("ise-7", health.StandingStale, health.Keep, 0, operator.Check{}),
			},
		},
		{
			Name: "wifi", Mode: fleet.Observe, Case: health.CaseServing, Meaning: "enough servers are up", Registered: 0, TargetGroups: make([]operator.TargetGroup, 1),
			Servers: []operator.Server{server("nps-1", health.StandingSolid, health.In, 0, ok)},
		},
	}}
}

func plan() reconciler.PlanReport {
	change := func(id, server, reason string) balancer.Change {
		return balancer.Change{Target: balancer.Target{ID: id, Port: 1812}, Server: server, Reason: reason}
	}
	arn := func(name string) string {
		return "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/" + name + "/1"
	}
	return reconciler.PlanReport{Groups: []reconciler.GroupPlan{
		{Group: "vpn", Mode: fleet.Observe, Case: health.CaseRecovering, Below: 1, FailOpen: true, TargetGroups: []reconciler.TargetGroupPlan{
			{Plan: balancer.Plan{
				TargetGroup: arn("auth"), Register: []balancer.Change{change("10.0.1.1", "ise-1", "up")},
				Deregister: []balancer.Change{change("10.0.1.2", "ise-2", "down")}, Withheld: []balancer.Change{change("10.0.1.3", "ise-3", "down; the floor")},
				Refused: []balancer.Refusal{{Server: "ise-4", Reason: "no instance"}}, Unmanaged: []balancer.Target{{ID: "10.0.1.9", Port: 1812}}, EmptiedZones: []string{"eu-central-1a"},
			}},
			{Plan: balancer.Plan{TargetGroup: arn("acct")}, Error: "not found"},
		}},
		{Group: "wifi", Mode: fleet.Enforce, Case: health.CaseServing, TargetGroups: []reconciler.TargetGroupPlan{{Plan: balancer.Plan{TargetGroup: arn("wifi")}}}},
	}}
}

func counters() operator.ServersReport {
	return operator.ServersReport{At: noon, Since: noon.Add(-90 * 24 * time.Hour), Groups: []operator.ServersGroup{{
		Name: "vpn", Warnings: []string{"part of the history cannot be read"}, Checks: []operator.Counters{
			{
				Server: "ise-1", Row: "ise-1", Address: "10.0.1.10:1812", Method: fleet.PAP, State: health.HoldDown, DurationSeconds: 61, PreviousState: "down", PreviousSeconds: 3600,
				DeadSeconds: 7200, DeadCount: 2, Quarantined: true, QuarantineSeconds: 90, QuarantineCount: 1,
				Requests: 1, Retransmits: 2, Timeouts: 3, Refused: 4, Accepts: 5, Rejects: 6, Challenges: 7, Alives: 8, Unexpected: 9, Incorrect: 10, BadCertificates: 11,
				Success: 12, Failure: 13, NoEvidence: 14, TimeMS: 1.25,
			},
			{Server: "ise-2", Row: "ise-2", Address: "10.0.1.11:1812", Method: fleet.PAP, State: health.Unknown, PreviousState: "unknown"},
		},
	}}}
}

func timelines() operator.Timelines {
	span := func(from, to int, status string) operator.Span {
		return operator.Span{From: noon.Add(time.Duration(from) * time.Minute), To: noon.Add(time.Duration(to) * time.Minute), Status: status}
	}
	drained := span(40, 50, "up")
	drained.Drained = true
	mark := func(kind operator.MarkKind, minute int, server, text string) operator.Mark {
		return operator.Mark{At: noon.Add(time.Duration(minute) * time.Minute), Kind: kind, Server: server, Text: text}
	}
	return operator.Timelines{Groups: []operator.Timeline{
		{
			Group: "vpn", From: noon, To: noon.Add(time.Hour), Notes: []string{"a note"},
			Lanes: []operator.Lane{{Server: "ise-1", Row: "ise-1", Spans: []operator.Span{
				span(0, 5, "unknown"), span(5, 20, "up"),
				{From: noon.Add(20 * time.Minute), To: noon.Add(20*time.Minute + time.Second), Status: "down"}, // shorter than a sign
				{From: noon.Add(20*time.Minute + time.Second), To: noon.Add(30 * time.Minute), Status: "holddown"}, span(30, 40, "up"), drained, span(50, 60, "up"),
			}}},
			Marks: []operator.Mark{
				mark(operator.MarkTransition, 20, "ise-1", "up -> down"), mark(operator.MarkDeregister, 20, "ise-1", "deregistered"),
				mark(operator.MarkFailOpenBegin, 20, "", "fail-open begins"), mark(operator.MarkRegister, 30, "ise-1", "registered"),
			},
		},
		{Group: "wifi", From: noon, To: noon.Add(time.Hour), Lanes: []operator.Lane{{Row: "nps-1", Spans: []operator.Span{span(0, 60, "up")}}}},
	}}
}

func orders() string {
	s := plain()
	c := operator.Carried{Group: "vpn", Server: "ise-1", TargetGroups: 2, Drained: true, Until: ago(-time.Hour), Reason: "patching", Done: true, TookSeconds: 4.21, Membership: health.Out}
	var parts []string
	parts = append(parts, s.Carried(c))
	c.Done, c.Registered, c.Note = false, 2, "the prober is silent"
	parts = append(parts, s.Carried(c))
	c.Drained, c.Done, c.Membership, c.TargetGroups = false, true, health.In, 1
	parts = append(parts, s.Carried(c))
	c.Membership, c.Registered, c.Note = health.Out, 0, "ise-1 is down: what is next"
	return strings.Join(append(parts, s.Carried(c)), "\n")
}

func plain() Screen { return Screen{Renderer: lipgloss.NewRenderer(io.Discard), Location: time.UTC} }

func TestGolden(t *testing.T) {
	s := plain()
	for name, got := range map[string]string{
		"status.txt": s.Status(report()), "plan.txt": s.Plan(plan()), "servers.txt": s.Servers(counters()), "timeline.txt": s.Timelines(timelines()), "orders.txt": orders(),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (go test ./pkg/operator/screen -update, if it should):\n%s", file, got)
		}
	}
}

// What somebody wrote into a table neither steers the terminal nor adds lines.
func TestTextOfTablesIsVisible(t *testing.T) {
	const evil = "\x1b]0;x\x07\x1b[2J\r\nise-9 + up \u202e\xff"
	status, marks, changes := report(), timelines(), plan()
	status.Groups[0].Warnings = append(status.Groups[0].Warnings, evil)
	for i := range status.Groups[0].Servers {
		status.Groups[0].Servers[i].Reason = evil
	}
	marks.Groups[0].Notes, marks.Groups[0].Marks[0].Text = []string{evil}, evil
	changes.Groups[0].TargetGroups[0].Register[0].Reason = evil
	order := operator.Carried{Until: ago(0), Drained: true, Reason: evil, Note: evil}
	s := plain()
	for name, got := range map[string]string{
		"status": s.Status(status), "timeline": s.Timelines(marks), "plan": s.Plan(changes), "order": s.Carried(order),
	} {
		if strings.ContainsAny(got, "\x1b\x07\r\u202e") || strings.Contains(got, "\nise-9") || !strings.Contains(got, `\x1b]0;x\a\x1b[2J\r\nise-9 + up \u202e`) {
			t.Errorf("%s:\n%q", name, got)
		}
	}
}

// Colours add nothing: without them the text is the same.
func TestColoursOnlyRepeat(t *testing.T) {
	colourful := plain()
	colourful.Renderer.SetColorProfile(termenv.ANSI)
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, draw := range map[string]func(Screen) string{
		"status":   func(s Screen) string { return s.Status(report()) },
		"plan":     func(s Screen) string { return s.Plan(plan()) },
		"servers":  func(s Screen) string { return s.Servers(counters()) },
		"timeline": func(s Screen) string { return s.Timelines(timelines()) },
	} {
		coloured := draw(colourful)
		if !strings.Contains(coloured, "\x1b[31m") && name != "servers" {
			t.Errorf("%s has no red", name)
		}
		if got, want := escapes.ReplaceAllString(coloured, ""), draw(plain()); got != want {
			t.Errorf("%s without its colours is\n%s, want\n%s", name, got, want)
		}
	}
}

func TestWatch(t *testing.T) {
	reads := 0
	m := watch{ctx: t.Context(), interval: time.Minute, screen: plain(), read: func(context.Context) (operator.Report, error) {
		if reads++; reads == 2 {
			return operator.Report{}, errors.New("throttled")
		}
		return report(), nil
	}}
	show := func(wants ...string) {
		t.Helper()
		for _, w := range wants {
			if !strings.Contains(m.View(), w) {
				t.Errorf("no %q in\n%s", w, m.View())
			}
		}
	}
	step := func(msg tea.Msg) tea.Cmd {
		next, cmd := m.Update(msg)
		m = next.(watch)
		return cmd
	}
	show("looking ...")
	step(m.Init()())
	show("ise-3", "every 1m0s; q quits")
	step(step(again{})())
	show("ise-3", "no newer report: throttled") // the last one stays
	step(m.look())
	if strings.Contains(m.View(), "throttled") {
		t.Error("an error that is over is still shown")
	}
	for _, key := range []tea.KeyMsg{{Type: tea.KeyRunes, Runes: []rune{'q'}}, {Type: tea.KeyCtrlC}} {
		if cmd := step(key); cmd == nil || cmd() != (tea.QuitMsg{}) {
			t.Errorf("%v does not quit", key)
		}
	}
}

// Whatever the window, nothing is wider or higher than it, and the first server
// and the way out are on it.
func TestWatchFits(t *testing.T) {
	for _, size := range []tea.WindowSizeMsg{{Width: 200, Height: 60}, {Width: 100, Height: 40}, {Width: 80, Height: 24}, {Width: 60, Height: 12}} {
		next, _ := watch{screen: plain(), interval: time.Second, report: report()}.Update(size)
		text := next.View()
		if w, h := lipgloss.Width(text), lipgloss.Height(text); w > size.Width || h > size.Height {
			t.Errorf("%v: the text is %d wide and %d high", size, w, h)
		}
		if !strings.Contains(text, "ise-1") || !strings.Contains(text, "q quits") {
			t.Errorf("%v:\n%s", size, text)
		}
		if cut := strings.Contains(text, "the rest does not fit"); cut != (size.Height < 40) {
			t.Errorf("%v: cut off: %v\n%s", size, cut, text)
		}
	}
}

func TestTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if Terminal(file, file) || Terminal(nil, file) || Terminal(os.Stdin, &bytes.Buffer{}) {
		t.Error("a file is taken for a terminal")
	}
}
