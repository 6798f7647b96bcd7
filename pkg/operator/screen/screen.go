// Package screen draws what an operator sees as text for a terminal. Colours
// only repeat what words and marks say: without a terminal, or with NO_COLOR,
// there are none.
package screen

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/mattn/go-isatty"

	"radwitness/pkg/health"
	"radwitness/pkg/operator"
)

// Screen draws.
type Screen struct {
	Renderer *lipgloss.Renderer // knows whether there are colours
	Location *time.Location     // of the times of day
	Width    int                // columns of the terminal; 0 is as many as it takes
}

// New is a screen for an output, in the machine's time zone.
func New(out io.Writer) Screen {
	return Screen{Renderer: lipgloss.NewRenderer(out), Location: time.Local}
}

// Terminal reports whether a person sits at both ends.
func Terminal(in *os.File, out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && in != nil && isatty.IsTerminal(in.Fd()) && isatty.IsTerminal(file.Fd())
}

func (s Screen) colour(code string) lipgloss.Style {
	return s.Renderer.NewStyle().Foreground(lipgloss.Color(code))
}

func (s Screen) good(text string) string  { return s.colour("2").Render(text) }
func (s Screen) bad(text string) string   { return s.colour("1").Render(text) }
func (s Screen) doubt(text string) string { return s.colour("3").Render(text) }
func (s Screen) faint(text string) string { return s.Renderer.NewStyle().Faint(true).Render(text) }
func (s Screen) bold(text string) string  { return s.Renderer.NewStyle().Bold(true).Render(text) }

// mark is a sign for a standing, to be seen without colours.
func mark(standing health.Standing) string {
	switch standing {
	case health.StandingSolid:
		return "+"
	case health.StandingInDoubt:
		return "!"
	case health.StandingDown:
		return "X"
	case health.StandingHoldDown:
		return "~"
	case health.StandingDrained:
		return "-"
	}
	return "?"
}

// by colours a text as fits a standing.
func (s Screen) by(standing health.Standing, text string) string {
	switch standing {
	case health.StandingSolid:
		return s.good(text)
	case health.StandingDown:
		return s.bad(text)
	case health.StandingDrained:
		return s.faint(text)
	}
	return s.doubt(text)
}

// columns is a table without lines.
func (s Screen) columns(headers []string, rows [][]string) string {
	t := table.New().Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).
		Headers(headers...).Rows(rows...).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return s.Renderer.NewStyle().Faint(true).PaddingRight(1)
			}
			return s.Renderer.NewStyle().PaddingRight(1)
		})
	return trimLines(t.String())
}

// fitted is a table without the columns that there is no room for. spare are
// those that can be done without, the first to go first.
func (s Screen) fitted(headers []string, rows [][]string, spare ...string) string {
	text := s.columns(headers, rows)
	for _, name := range spare {
		if s.Width == 0 || lipgloss.Width(text) <= s.Width {
			break
		}
		i := slices.Index(headers, name)
		headers = slices.Delete(slices.Clone(headers), i, i+1)
		for n, row := range rows {
			rows[n] = slices.Delete(slices.Clone(row), i, i+1)
		}
		text = s.columns(headers, rows)
	}
	return text
}

// visible is text of a table as one line: whoever wrote it must neither steer the
// terminal nor add lines of his own.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsGraphic(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// trimLines takes away the blanks that a table ends its lines with.
func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// since is the age of a time; a dash if there is none.
func since(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return operator.Short(now.Sub(*t))
}

// clock is a time of day, with the date where it is not today.
func (s Screen) clock(t, now time.Time) string {
	t, now = t.In(s.Location), now.In(s.Location)
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format("Jan 02 15:04:05")
}

// clockOrDash is a time of day; a dash if there is none.
func (s Screen) clockOrDash(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return s.clock(*t, now)
}

// warnings are lines that must not be overlooked.
func (s Screen) warnings(list []string) string {
	var b strings.Builder
	for _, w := range list {
		b.WriteString(s.doubt("  ! "+visible(w)) + "\n")
	}
	return b.String()
}

// modeWord is a group's mode, loud where nothing will be done.
func (s Screen) modeWord(mode string) string {
	if mode == "observe" {
		return s.doubt(mode)
	}
	return mode
}
