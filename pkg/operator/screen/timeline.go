package screen

import (
	"fmt"
	"strings"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/operator"
)

// stripWidth is how many characters a lane has.
const stripWidth = 60

// Timelines draws what happened: a strip for each lane, and the marks line by
// line.
func (s Screen) Timelines(all operator.Timelines) string {
	parts := make([]string, len(all.Groups))
	for i, t := range all.Groups {
		parts[i] = s.timelineOf(t)
	}
	return strings.Join(parts, "\n")
}

func (s Screen) timelineOf(t operator.Timeline) string {
	var b strings.Builder
	const layout = "2006-01-02 15:04:05"
	fmt.Fprintf(&b, "%s  %s to %s\n", s.bold(t.Group), t.From.In(s.Location).Format(layout), t.To.In(s.Location).Format(layout+" MST"))
	b.WriteString(s.warnings(t.Notes))
	var rows [][]string
	for _, lane := range t.Lanes {
		rows = append(rows, []string{"  " + lane.Row, s.strip(lane, t.From, t.To)})
	}
	b.WriteString(s.columnsOnly(rows))
	b.WriteString(s.faint(fmt.Sprintf("  one sign is %s: + up, X down, ~ hold-down, - drained, ? unknown", operator.Short(t.To.Sub(t.From)/stripWidth))) + "\n")
	if len(t.Marks) == 0 {
		return b.String() + "  nothing happened\n"
	}
	rows = nil
	for _, m := range t.Marks {
		rows = append(rows, []string{"  " + m.At.In(s.Location).Format("Jan 02 15:04:05.000"), m.Server, s.markText(m.Kind, visible(m.Text))})
	}
	return b.String() + s.columnsOnly(rows)
}

func (s Screen) markText(kind operator.MarkKind, text string) string {
	switch kind {
	case operator.MarkFailOpenBegin, operator.MarkWithheld, operator.MarkDrain:
		return s.doubt(text)
	case operator.MarkDeregister:
		return s.bad(text)
	case operator.MarkRegister, operator.MarkFailOpenEnd:
		return s.good(text)
	}
	return text
}

// strip is a lane in signs. A sign shows the worst of its time, so that a short
// outage is not lost between two.
func (s Screen) strip(lane operator.Lane, from, to time.Time) string {
	step := to.Sub(from) / stripWidth
	var b strings.Builder
	for i := range stripWidth {
		begin := from.Add(time.Duration(i) * step)
		worst := health.Standing("")
		for _, span := range lane.Spans {
			if span.From.Before(begin.Add(step)) && span.To.After(begin) && rank(standing(span)) > rank(worst) {
				worst = standing(span)
			}
		}
		b.WriteString(s.by(worst, mark(worst)))
	}
	return b.String()
}

// standing is the standing that a span shows as.
func standing(span operator.Span) health.Standing {
	switch {
	case span.Drained:
		return health.StandingDrained
	case span.Status == string(health.Up):
		return health.StandingSolid
	case span.Status == string(health.Down):
		return health.StandingDown
	case span.Status == string(health.HoldDown):
		return health.StandingHoldDown
	}
	return health.StandingUnknown
}

// rank orders standings by how much they matter.
func rank(s health.Standing) int {
	switch s {
	case "":
		return -1
	case health.StandingUnknown:
		return 0
	case health.StandingSolid:
		return 1
	case health.StandingHoldDown:
		return 2
	case health.StandingDown:
		return 3
	}
	return 4
}
