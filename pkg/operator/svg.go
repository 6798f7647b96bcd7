package operator

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"radwitness/pkg/health"
)

// The measures of a picture, in pixels.
const (
	pictureWidth  = 1200
	plotLeft      = 150
	plotWidth     = pictureWidth - plotLeft - 20
	plotTop       = 64
	laneHeight    = 42 // the marks, and below them the bar
	latencyHeight = 120
)

// pictureStyle has the colours of light and dark, none of which says alone what
// the height or the hatching of a bar does not say as well.
const pictureStyle = `
svg { --ground: #ffffff; --ink: #1f2430; --faint: #687080; --line: #d9dde5; --up: #2f9e63; --down: #c92f2f; --holddown: #d99a00;
  --unknown: #b4bac5; --drained: #3f6fd1; --open: #fff3c4; --s0: #2563c9; --s1: #b0459b; --s2: #00857d; --s3: #a35a00; --s4: #6a51c7; --s5: #5c6b00;
  background: var(--ground); font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ground: #14171d; --ink: #e5e8ee; --faint: #98a1b0; --line: #313743; --up: #38b174; --down: #f0554b;
  --holddown: #eab308; --unknown: #565e6c; --drained: #7aa2f7; --open: #3d3413; --s0: #6ea0ff; --s1: #e07bcb; --s2: #3cc4ba; --s3: #e0954a; --s4: #a594f5; --s5: #b5c45a; } }
text { fill: var(--ink); } .faint { fill: var(--faint); } .title { font-size: 16px; font-weight: 600; }
.grid { stroke: var(--line); } .up { fill: var(--up); } .down { fill: var(--down); } .holddown { fill: var(--holddown); }
.unknown { fill: none; stroke: var(--unknown); stroke-dasharray: 3 3; } .open { fill: var(--open); } .drained { fill: url(#hatch); }
.mark { stroke: var(--ground); } .register { fill: var(--up); } .deregister { fill: var(--down); } .drain, .undrain { fill: var(--drained); }
.withheld { fill: var(--holddown); } .p50 { fill: none; stroke-width: 1.5; } .p99 { fill: none; stroke-width: 1; opacity: .45; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); } .s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); }
.group { stroke: var(--faint); }
`

// series is how many colours there are for latencies.
const series = 6

// SVG draws the timeline as a picture that needs nothing else: a lane for each
// check, marks for what happened to it, and the latencies below. Times are in
// the given zone.
func (t Timeline) SVG(zone *time.Location) []byte {
	p := picture{Timeline: t, zone: zone}
	lanesEnd := plotTop + len(t.Lanes)*laneHeight
	latencyTop := lanesEnd + 46
	height := latencyTop + latencyHeight + 70
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+"\n", pictureWidth, height)
	p.printf("<title>%s: timeline of %s</title>\n<style>%s</style>\n", p.text(t.Group), p.span(t.From, t.To), pictureStyle)
	p.printf(`<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect width="3" height="6" fill="var(--drained)"/></pattern></defs>` + "\n")
	p.printf(`<text class="title" x="20" y="28">%s</text><text class="faint" x="%d" y="28">%s</text>`+"\n", p.text(t.Group), plotLeft, p.span(t.From, t.To))
	p.failOpen(lanesEnd)
	p.axis(plotTop-8, latencyTop+latencyHeight)
	for i, lane := range t.Lanes {
		p.lane(lane, plotTop+i*laneHeight)
	}
	p.latencies(latencyTop)
	p.legend(height - 18)
	p.printf("</svg>\n")
	return p.b.Bytes()
}

// picture is a timeline while it is being drawn.
type picture struct {
	Timeline
	zone *time.Location
	b    bytes.Buffer
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

// text is a string as XML has it. What no XML may contain, such as the control
// characters of a row that was changed by hand, becomes U+FFFD.
func (p *picture) text(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || r == '\ufffe' || r == '\uffff' {
			return utf8.RuneError
		}
		return r
	}, s))
}

// x is where a time is.
func (p *picture) x(at time.Time) float64 {
	share := float64(at.Sub(p.From)) / float64(p.To.Sub(p.From))
	return plotLeft + max(0, min(1, share))*plotWidth
}

// span is a time from and to, the date once.
func (p *picture) span(from, to time.Time) string {
	const date, clock = "2006-01-02", "15:04:05"
	from, to = from.In(p.zone), to.In(p.zone)
	end := to.Format(clock + " MST")
	if from.Format(date) != to.Format(date) {
		end = to.Format(date + " " + clock + " MST")
	}
	return from.Format(date+" "+clock) + " to " + end
}

// failOpen draws the times of fail-open as bands behind the lanes.
func (p *picture) failOpen(bottom int) {
	begin, open := p.From, false
	band := func(to time.Time) {
		p.printf(`<rect class="open" x="%.1f" y="%d" width="%.1f" height="%d"><title>fail-open, %s</title></rect>`+"\n",
			p.x(begin), plotTop-8, max(1, p.x(to)-p.x(begin)), bottom-plotTop+8, p.span(begin, to))
	}
	first := true
	for _, m := range p.Marks {
		switch m.Kind {
		case MarkFailOpenBegin:
			begin, open = m.At, true
		case MarkFailOpenEnd:
			if open || first {
				band(m.At) // one without a beginning began before the time
			}
			open = false
		default:
			continue
		}
		first = false
	}
	if open {
		band(p.To)
	}
}

// axis draws the times of day as lines from top to bottom.
func (p *picture) axis(top, bottom int) {
	step := tickStep(p.To.Sub(p.From))
	layout := "15:04"
	switch {
	case step < time.Minute:
		layout = "15:04:05"
	case step >= 24*time.Hour:
		layout = "Jan 2"
	}
	y, m, d := p.From.In(p.zone).Date()
	for at := time.Date(y, m, d, 0, 0, 0, 0, p.zone); at.Before(p.To); at = at.Add(step) {
		if at.Before(p.From) {
			continue
		}
		x := p.x(at)
		p.printf(`<path class="grid" d="M%.1f %d V%d"/>`+"\n", x, top, bottom)
		p.printf(`<text class="faint" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, bottom+16, at.Format(layout))
	}
}

// tickStep is a round time of which ten at most fit into another.
func tickStep(d time.Duration) time.Duration {
	const day = 24 * time.Hour
	steps := []time.Duration{
		time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day,
	}
	for _, s := range steps {
		if d <= 10*s {
			return s
		}
	}
	return 14 * day
}

// barHeight says how much a state should be seen.
func barHeight(status string) int {
	switch health.Status(status) {
	case health.Down:
		return 22
	case health.HoldDown:
		return 16
	}
	return 10
}

func (p *picture) lane(lane Lane, top int) {
	middle := top + laneHeight - 16
	p.printf(`<text x="20" y="%d">%s</text>`+"\n", middle+4, p.text(lane.Row))
	for _, s := range lane.Spans {
		height := barHeight(s.Status)
		x, width := p.x(s.From), max(1, p.x(s.To)-p.x(s.From))
		title := fmt.Sprintf("%s: %s, %s (%s)", lane.Row, s.Status, p.span(s.From, s.To), Short(s.To.Sub(s.From)))
		if s.Rule != "" {
			title += "\n" + s.Rule
		}
		if s.Reason != "" {
			title += ": " + s.Reason
		}
		if s.Drained {
			title += "\ndrained by an operator"
		}
		p.printf(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`+"\n",
			className(s.Status), x, middle-height/2, width, height, p.text(title))
		if s.Drained {
			p.printf(`<rect class="drained" x="%.1f" y="%d" width="%.1f" height="4"><title>%s</title></rect>`+"\n", x, middle+11, width, p.text(title))
		}
	}
	for _, m := range p.Marks {
		if m.Server != lane.Server && m.Server != lane.Row || m.Kind == MarkTransition {
			continue
		}
		x, shape := p.x(m.At), ""
		switch m.Kind {
		case MarkRegister, MarkUndrain: // back in: a triangle that points up
			shape = fmt.Sprintf("M%.1f %d l5 9 h-10 z", x, top+4)
		case MarkDeregister, MarkDrain: // out: one that points down
			shape = fmt.Sprintf("M%.1f %d l5 -9 h-10 z", x, top+13)
		default:
			shape = fmt.Sprintf("M%.1f %d l5 5 l-5 5 l-5 -5 z", x, top+3)
		}
		p.printf(`<path class="mark %s" d="%s"><title>%s  %s</title></path>`+"\n",
			m.Kind, shape, m.At.In(p.zone).Format("2006-01-02 15:04:05"), p.text(m.Text))
	}
}

// className is the class of a state; one that is not known is drawn as unknown.
func className(status string) string {
	if slices.Contains([]string{string(health.Up), string(health.Down), string(health.HoldDown)}, status) {
		return status
	}
	return string(health.Unknown)
}

// latencies draws how long answers took, from 0 to a round number of
// milliseconds.
func (p *picture) latencies(top int) {
	highest := 0.0
	all := slices.Clone(p.Latency)
	for _, lane := range p.Lanes {
		all = append(all, lane.Latency...)
	}
	for _, s := range all {
		highest = max(highest, s.P50MS, s.P99MS)
	}
	p.printf(`<text x="20" y="%d">latency</text>`+"\n", top+12)
	if highest == 0 {
		p.printf(`<text class="faint" x="%d" y="%d">none is known of this time</text>`+"\n", plotLeft+8, top+latencyHeight/2)
		return
	}
	scale := roundUp(highest)
	y := func(ms float64) float64 { return float64(top) + latencyHeight*(1-ms/scale) }
	for _, share := range []float64{0, 0.5, 1} {
		p.printf(`<path class="grid" d="M%d %.1f H%d"/>`+"\n", plotLeft, y(share*scale), plotLeft+plotWidth)
		p.printf(`<text class="faint" x="%d" y="%.1f" text-anchor="end">%g ms</text>`+"\n", plotLeft-8, y(share*scale)+4, share*scale)
	}
	p.printf(`<text class="faint" x="20" y="%d">p50, thin: p99</text>`+"\n", top+28)
	p.curve("group", p.Group, p.Latency, y)
	for i, lane := range p.Lanes {
		p.curve(fmt.Sprintf("s%d", i%series), lane.Row, lane.Latency, y)
	}
}

// curve draws the samples of one thing, with gaps where there are none.
func (p *picture) curve(class, name string, samples []Sample, y func(float64) float64) {
	if len(samples) == 0 {
		return
	}
	var gaps []time.Duration
	for i := range len(samples) - 1 {
		gaps = append(gaps, samples[i+1].At.Sub(samples[i].At))
	}
	slices.Sort(gaps)
	usual := time.Duration(math.MaxInt64)
	if len(gaps) > 0 {
		usual = 3 * gaps[len(gaps)/2]
	}
	for _, line := range []struct {
		name  string
		value func(Sample) float64
	}{{"p99", func(s Sample) float64 { return s.P99MS }}, {"p50", func(s Sample) float64 { return s.P50MS }}} {
		var path strings.Builder
		for i, s := range samples {
			command := "L"
			if i == 0 || s.At.Sub(samples[i-1].At) > usual {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, p.x(s.At), y(line.value(s)))
		}
		p.printf(`<path class="%s %s" d="%s"><title>%s, %[1]s</title></path>`+"\n", line.name, class, path.String(), p.text(name))
	}
}

// roundUp is the next number of the form 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*power {
			return n * power
		}
	}
	return 10 * power
}

// legend says what the signs mean.
func (p *picture) legend(y int) {
	x := 20
	entry := func(width int, sign, text string) {
		p.printf(`<g transform="translate(%d %d)">%s<text class="faint" x="24" y="0">%s</text></g>`+"\n", x, y, sign, p.text(text))
		x += width
	}
	bar := func(class string) string {
		h := barHeight(class)
		return fmt.Sprintf(`<rect class="%s" x="0" y="%d" width="18" height="%d"/>`, class, -4-h/2, h)
	}
	entry(60, bar("up"), "up")
	entry(95, bar("holddown"), "hold-down")
	entry(70, bar("down"), "down")
	entry(90, bar("unknown"), "unknown")
	entry(85, `<rect class="drained" x="0" y="-8" width="18" height="4"/>`, "drained")
	entry(90, `<rect class="open" x="0" y="-13" width="18" height="18"/>`, "fail-open")
	entry(95, `<path class="mark register" d="M9 -10 l6 10 h-12 z"/>`, "registered")
	entry(110, `<path class="mark deregister" d="M9 0 l6 -10 h-12 z"/>`, "deregistered")
	line := func(class string) string {
		return fmt.Sprintf(`<path class="p50 %s" d="M0 -4 h18"/>`, class)
	}
	if len(p.Latency) > 0 {
		entry(40+7*len(p.Group), line("group"), p.Group)
	}
	for i, lane := range p.Lanes {
		if len(lane.Latency) > 0 && x < pictureWidth-100 {
			entry(40+7*len(lane.Row), line(fmt.Sprintf("s%d", i%series)), lane.Row)
		}
	}
}
