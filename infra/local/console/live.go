package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"radwitness/infra/local/lab"
)

const (
	redraw      = 500 * time.Millisecond
	viewTimeout = 5 * time.Second
)

// live shows the table that redraws itself.
func live(ctx context.Context, l *lab.Lab, about string, in, out *os.File) error {
	m := model{ctx: ctx, lab: l, about: about, painter: painter{lipgloss.NewRenderer(out), l.Faults()}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// model is the state of the screen.
type model struct {
	ctx     context.Context
	lab     *lab.Lab
	about   string
	painter painter

	view     lab.View
	at       time.Time // of the view
	err      error     // why there is no newer one
	selected int
	all      bool // all servers are selected
	message  string
	width    int // of the window; 0 while it is not known
}

// Messages to the model.
type (
	viewed struct {
		view lab.View
		at   time.Time
		err  error
	}
	look   struct{} // it is time for another view
	report string   // what became of an order
)

// Init starts with a view.
func (m model) Init() tea.Cmd { return m.read }

// read gets a view.
func (m model) read() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, viewTimeout)
	defer cancel()
	view, err := m.lab.View(ctx)
	return viewed{view, time.Now(), err}
}

// Update takes what has happened.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case viewed:
		if m.err = msg.err; msg.err == nil {
			m.view, m.at = msg.view, msg.at
		}
		return m, tea.Tick(redraw, func(time.Time) tea.Msg { return look{} })
	case look:
		return m, m.read
	case report:
		m.message = string(msg)
		return m, m.read
	case tea.WindowSizeMsg:
		m.width = msg.Width
	case tea.KeyMsg:
		if msg.Type != tea.KeyRunes {
			return m.press(msg.String())
		}
		// Keys that come faster than they are read come in one message.
		var commands []tea.Cmd
		for _, key := range msg.Runes {
			var command tea.Cmd
			m, command = m.press(string(key))
			commands = append(commands, command)
		}
		return m, tea.Sequence(commands...)
	}
	return m, nil
}

// press takes one key.
func (m model) press(key string) (model, tea.Cmd) {
	servers := m.view.Servers()
	switch key {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "a":
		m.all = true
	case "up", "down":
		step := map[string]int{"up": -1, "down": 1}[key]
		m.selected, m.all = max(0, min(m.selected+step, len(servers)-1)), false
	case "x":
		return m, m.carryOut(order{servers: m.chosen(), remove: true})
	}
	if n := int(key[0] - '1'); len(key) == 1 && n >= 0 && n < min(9, len(servers)) {
		m.selected, m.all = n, false
	}
	for _, f := range faultKeys {
		if key == f.key && m.painter.faults {
			return m, m.carryOut(order{servers: m.chosen(), fault: f.fault})
		}
	}
	return m, nil
}

// chosen lists the selected servers.
func (m model) chosen() []lab.Server {
	servers := m.view.Servers()
	if m.all || len(servers) == 0 {
		return servers
	}
	return servers[m.selected : m.selected+1]
}

func (m model) carryOut(o order) tea.Cmd {
	return func() tea.Msg { return report(carryOut(m.ctx, m.lab, o)) }
}

// View draws the screen.
func (m model) View() string {
	title := m.painter.bold().Render("radwitness on this machine") + m.painter.faint().Render("  "+m.about)
	if m.view == nil {
		return title
	}
	table := m.painter.draw(m.view, m.at, func(n int) bool { return m.all || n == m.selected })
	bottom := m.message
	if m.err != nil {
		bottom = m.painter.bad().Render(fmt.Sprintf("%s: %v", m.at.Format(time.TimeOnly), m.err))
	}
	return strings.Join([]string{title, "", table, "", m.painter.faint().Width(m.width).Render(m.keys()), bottom}, "\n")
}

// keys says which keys there are.
func (m model) keys() string {
	keys := []string{fmt.Sprintf("1-%d select, a all", min(9, len(m.view.Servers())))}
	if m.painter.faults {
		for _, f := range faultKeys {
			keys = append(keys, fmt.Sprintf("%s %v", f.key, f.fault))
		}
	}
	return strings.Join(append(keys, "x remove the target by hand", "q quit"), " | ")
}
