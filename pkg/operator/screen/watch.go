package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"radwitness/pkg/operator"
)

// Watch shows a report that redraws itself, until the person quits or the
// context ends. A look that fails is told, and tried again.
func Watch(ctx context.Context, in *os.File, out io.Writer, interval time.Duration, read func(context.Context) (operator.Report, error)) error {
	m := watch{ctx: ctx, interval: interval, read: read, screen: New(out)}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// watch is the state of the screen.
type watch struct {
	ctx      context.Context
	interval time.Duration
	read     func(context.Context) (operator.Report, error)
	screen   Screen

	report operator.Report
	err    error // why there is no newer one
	height int   // of the window; 0 while it is not known
}

// Messages to the screen.
type (
	seen struct {
		report operator.Report
		err    error
	}
	again struct{} // it is time for another look
)

// Init starts with a look.
func (m watch) Init() tea.Cmd { return m.look }

func (m watch) look() tea.Msg {
	report, err := m.read(m.ctx)
	return seen{report, err}
}

// Update takes what has happened.
func (m watch) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case seen:
		if m.err = msg.err; msg.err == nil {
			m.report = msg.report
		}
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return again{} })
	case again:
		return m, m.look
	case tea.WindowSizeMsg:
		m.screen.Width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		if key := msg.String(); key == "q" || key == "ctrl+c" || key == "esc" {
			return m, tea.Quit
		}
	}
	return m, nil
}

// View draws the screen.
func (m watch) View() string {
	if m.report.At.IsZero() && m.err == nil {
		return "looking ..."
	}
	bottom := m.screen.faint(fmt.Sprintf("every %v; q quits", m.interval))
	if m.err != nil {
		bottom = m.screen.bad("no newer report: "+m.err.Error()) + "\n" + bottom
	}
	if m.report.At.IsZero() {
		return bottom
	}
	wrap := m.screen.Renderer.NewStyle().Width(m.screen.Width).MaxWidth(m.screen.Width)
	bottom = wrap.Render(bottom)
	lines := strings.Split(wrap.Render(m.screen.Status(m.report)), "\n")
	if room := m.height - lipgloss.Height(bottom) - 1; m.height > 0 && len(lines) > room {
		// A screen that is too small would lose its top, which matters most.
		lines = append(lines[:max(0, room-1)], m.screen.doubt("the rest does not fit: -group GROUP shows one group"))
	}
	return strings.Join(append(lines, bottom), "\n")
}
