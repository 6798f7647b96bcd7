package main

import (
	"fmt"
	"math"
	"strings"
)

// point is a size of the fleet, and what a round of it needs.
type point struct {
	servers                 int
	milliseconds, mebibytes float64
}

// The plot, in pixels. Both axes are logarithmic.
const (
	plotWidth, plotHeight = 720, 400
	plotLeft, plotRight   = 70, 620
	plotTop, plotBottom   = 40, 340
	leastServers          = 10.0
	mostServers           = 10000.0
	leastValue, mostValue = 1.0, 10000.0
)

func across(servers float64) float64 {
	return plotLeft + (plotRight-plotLeft)*math.Log10(servers/leastServers)/math.Log10(mostServers/leastServers)
}

func up(v float64) float64 {
	v = min(max(v, leastValue), mostValue)
	return plotBottom - (plotBottom-plotTop)*math.Log10(v/leastValue)/math.Log10(mostValue/leastValue)
}

// plot draws time and memory over the number of servers, as SVG.
func plot(points []point) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", plotWidth, plotHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	fmt.Fprintf(&b, `<text x="12" y="22">A round of one prober: from the tick to the last row, and the function's peak memory</text>`+"\n")
	for v := leastValue; v <= mostValue; v *= 10 {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			plotLeft, up(v), plotRight, plotLeft-8, up(v)+4, v)
	}
	for n := leastServers; n <= mostServers; n *= 10 {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#dddddd"/><text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n",
			across(n), plotTop, plotBottom, across(n), plotBottom+20, n)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">servers</text>`+"\n", (plotLeft+plotRight)/2, plotBottom+42)
	line(&b, points, "ms", "#1b6ca8", func(p point) float64 { return p.milliseconds })
	line(&b, points, "MiB", "#e07b39", func(p point) float64 { return p.mebibytes })
	b.WriteString("</svg>\n")
	return b.String()
}

// line draws one of the values, with its unit and its figures.
func line(b *strings.Builder, points []point, unit, colour string, value func(point) float64) {
	var path []string
	for _, p := range points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", across(float64(p.servers)), up(value(p))))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
	for _, p := range points {
		x, y := across(float64(p.servers)), up(value(p))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/><text x="%.1f" y="%.1f" fill="%s">%.0f %s</text>`+"\n",
			x, y, colour, x+6, y-6, colour, value(p), unit)
	}
}
