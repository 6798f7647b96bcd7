package console

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"

	"radwitness/infra/local/lab"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// sample is a group in the middle of a recovery.
func sample() lab.View {
	server := func(n byte, status health.Status, since time.Duration) lab.Server {
		return lab.Server{
			Group: "vpn", Name: "radius-" + string('0'+n), Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 1812),
			State: health.State{Status: status, Since: now.Add(-since)}, TargetGroups: 2, Fault: "none",
		}
	}
	up, down, held := server(1, health.Up, 90*time.Second), server(2, health.Down, 10*time.Second), server(3, health.HoldDown, 5*time.Second)
	up.Probe = store.ProbeRow{Outcome: health.Accept, LatencyMS: 0.4, ConsecutiveSuccesses: 14}
	up.Registered = 2
	down.Probe = store.ProbeRow{Outcome: health.Timeout, ConsecutiveFailures: 5}
	down.Fault = "drop-all"
	held.State.HeldUntil = now.Add(25 * time.Second)
	held.Registered = 1
	return lab.View{{
		Name: "vpn", Mode: fleet.Enforce, Below: 1, Servers: []lab.Server{up, down, held},
		Row: store.GroupRow{
			Case: health.CaseServing, FailOpen: true, PassError: "Rate exceeded",
			Reasons: map[string]string{"radius-3": "in hold-down"},
		},
		Transitions: []store.Transition{
			{Server: "radius-3", From: "down", To: "holddown", At: now, Rule: "success while down", Outcome: health.Accept, HeldUntil: now.Add(25 * time.Second)},
			{From: "closed", To: "open", At: now.Add(-time.Minute), Rule: "outage"},
		},
	}}
}

func plain(faults bool) painter { return painter{lipgloss.NewRenderer(io.Discard), faults} }

func TestDraw(t *testing.T) {
	got := plain(true).draw(sample(), now, func(n int) bool { return n == 1 })
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"vpn (enforce) case serving, fail-open ON (below 1), registered 1/3",
		"last pass: Rate exceeded",
		"server address state since last outcome latency streak registered fault why",
		"1 radius-1 127.0.0.1:1812 up 1m30s accept 0.40 ms 14 ok yes none",
		"> 2 radius-2 127.0.0.2:1812 down 10s timeout - 5 failed no drop-all",
		"3 radius-3 127.0.0.3:1812 holddown, 25s left 5s - - - in 1 of 2 none in hold-down",
		"last transitions",
		now.Local().Format(time.TimeOnly) + " radius-3: down -> holddown, success while down (accept), held until " +
			now.Add(25*time.Second).Local().Format(time.TimeOnly),
		now.Add(-time.Minute).Local().Format(time.TimeOnly) + " vpn fail-open: closed -> open, outage",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if strings.Contains(plain(false).draw(sample(), now, func(int) bool { return false }), "fault") {
		t.Error("servers that are not the lab's have a column of faults")
	}
	if strings.Contains(got, "\x1b") {
		t.Error("colours in an output that is no terminal")
	}
}

func TestParse(t *testing.T) {
	servers := sample().Servers()
	for _, test := range []struct{ line, want string }{
		{"1 reject-all", "radius-1 reject-all"},
		{"  radius-2   SLOW ", "radius-2 slow"},
		{"none", "radius-1,radius-2,radius-3 none"},
		{"wrong-secret", "radius-1,radius-2,radius-3 wrong-secret"},
		{"remove 3", "radius-3 remove"},
		{"quit", "quit"},
		{"4 refuse", `error: there is no server "4"`},
		{"0 refuse", `error: there is no server "0"`},
		{"remove nobody", `error: there is no server "nobody"`},
		{"1 explode", `error: unknown fault "explode"`},
		{"explode", `error: unknown fault "explode"`},
		{"remove", `error: unknown fault "remove"`},
		{"1 reject-all now", `error: "1 reject-all now" is not a command`},
	} {
		o, err := parse(test.line, servers)
		var got string
		switch {
		case errors.Is(err, errQuit):
			got = "quit"
		case err != nil:
			got = "error: " + err.Error()
		default:
			var names []string
			for _, s := range o.servers {
				names = append(names, s.Name)
			}
			got = strings.Join(names, ",") + " " + o.fault.String()
			if o.remove {
				got = strings.Join(names, ",") + " remove"
			}
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.line, got, test.want)
		}
	}
}

// buffer may be written by one goroutine and read by another.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await waits for a text in the output.
func (b *buffer) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(b.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not in the output:\n%s", text, b.String())
		}
	}
}

func startLab(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := lab.Start(t.Context(), lab.Config{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestLinesTakeCommands(t *testing.T) {
	l := startLab(t)
	in, commands := io.Pipe()
	var out buffer
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = lines(t.Context(), l, "logs: some.log", in, &out) })
	send := func(line string) { _, _ = io.WriteString(commands, line+"\n") }

	out.await(t, "logs: some.log")
	send("2 reject-all")
	out.await(t, "radius-2: fault reject-all\n")
	send("")
	send("nonsense")
	out.await(t, `unknown fault "nonsense"`)
	send("remove 1")
	out.await(t, "radius-1: target removed by hand")
	send("quit")
	running.Wait()
	if err != nil {
		t.Error(err)
	}
	if v, err := l.View(t.Context()); err != nil || v.Servers()[1].Fault != "reject-all" {
		t.Errorf("the view is %+v, %v", v, err)
	}
}

func TestKeys(t *testing.T) {
	l := startLab(t)
	m := model{ctx: t.Context(), lab: l, painter: plain(true)}
	next, _ := m.Update(m.read())
	m = next.(model)
	key := func(text string) {
		t.Helper()
		next, _ := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text)})
		m = next.(model)
	}
	chosen := func() string {
		var names []string
		for _, s := range m.chosen() {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct{ keys, want string }{
		{"", "radius-1"}, {"2", "radius-2"}, {"13", "radius-3"}, {"9", "radius-3"}, {"a", "radius-1 radius-2 radius-3"}, {"1", "radius-1"},
	} {
		key(test.keys)
		if got := chosen(); got != test.want {
			t.Errorf("after %q: %q is selected, want %q", test.keys, got, test.want)
		}
	}
	for _, test := range []struct {
		key  tea.KeyType
		want string
	}{{tea.KeyUp, "radius-1"}, {tea.KeyDown, "radius-2"}, {tea.KeyDown, "radius-3"}, {tea.KeyDown, "radius-3"}} {
		next, _ := m.Update(tea.KeyMsg{Type: test.key})
		m = next.(model)
		if got := chosen(); got != test.want {
			t.Errorf("after %v: %q is selected, want %q", test.key, got, test.want)
		}
	}
	_, command := m.press("d")
	next, _ = m.Update(command())
	m = next.(model)
	screen := m.View()
	for _, text := range []string{"radius-3: fault drop-all", "1-3 select", "w wrong-secret", "x remove the target by hand"} {
		if !strings.Contains(screen, text) {
			t.Errorf("%q is not on the screen:\n%s", text, screen)
		}
	}
	if _, command := m.press("q"); command == nil || command() != (tea.QuitMsg{}) {
		t.Error("q does not quit")
	}
}
