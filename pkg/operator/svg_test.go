package operator

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// outage is a timeline with one of everything.
func outage() Timeline {
	mark := func(minute int, kind MarkKind, server, text string) Mark { return Mark{at(minute), kind, server, text} }
	samples := func(from, to int, p50, p99 float64) (list []Sample) {
		for m := from; m < to; m += 2 {
			list = append(list, Sample{at(m), p50 + float64(m%7)/10, p99 + float64(m%11)})
		}
		return list
	}
	drained := span(70, 90, "up", "success after hold-down")
	drained.Drained = true
	down := span(20, 40, "down", "failure threshold reached")
	down.Reason = `reject: <no "directory">`
	return Timeline{
		Group: "vpn & wifi", From: dawn, To: dusk,
		Lanes: []Lane{
			{Server: "ise-1", Row: "ise-1", Latency: append(samples(0, 20, 3, 9), samples(40, 100, 2, 8)...), Spans: []Span{
				span(0, 20, "up", ""), down, span(40, 55, "holddown", "success while down"),
				span(55, 70, "up", "success after hold-down"), drained, span(90, 100, "up", "success after hold-down"),
			}},
			{Server: "ise-2", Row: "ise-2", Latency: samples(30, 100, 4, 12), Spans: []Span{span(0, 30, "unknown", ""), span(30, 100, "up", "first success")}},
		},
		Marks: []Mark{
			mark(20, MarkTransition, "ise-1", "up -> down"), mark(20, MarkFailOpenBegin, "", "fail-open begins"), mark(30, MarkRegister, "ise-2", "10.0.0.2:1812 registered"),
			mark(31, MarkFailOpenEnd, "", "fail-open ends"), mark(31, MarkDeregister, "ise-1", "10.0.0.1:1812 deregistered"), mark(33, MarkWithheld, "ise-2", "not deregistered"),
			mark(55, MarkRegister, "ise-1", "10.0.0.1:1812 registered"), mark(70, MarkDrain, "ise-1", "drained"), mark(90, MarkUndrain, "ise-1", "the drain ended by itself"),
		},
	}
}

func TestSVG(t *testing.T) {
	got := outage().SVG(time.UTC)
	const golden = "testdata/timeline.svg"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the picture differs from %s: look at it, and run go test ./pkg/operator -update", golden)
	}
}

// A picture is well-formed whatever is in it, needs nothing from elsewhere, and
// draws nothing outside of itself.
func TestSVGStandsAlone(t *testing.T) {
	escapes := outage()
	for i := range escapes.Marks {
		escapes.Marks[i].Text = "drained: \x1b[31m<script>\xff\x00\uffff"
	}
	for name, line := range map[string]Timeline{
		"an outage": outage(), "escapes": escapes, "nothing at all": {Group: "vpn", From: dawn, To: dusk},
		"latencies only": {Group: "vpn", From: dawn, To: dusk, Latency: []Sample{{At: at(5), P50MS: 0.3, P99MS: 700}}},
	} {
		picture := line.SVG(time.UTC)
		d := xml.NewDecoder(bytes.NewReader(picture))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		text := strings.ReplaceAll(string(picture), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http:", "https:", "href", "<script", "NaN", "Inf", ` x="-`, `width="-`, `height="-`, "%!"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the picture has %q", name, bad)
			}
		}
	}
}

func TestTickStep(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 10 * time.Minute: time.Minute, 10*time.Minute + 1: 2 * time.Minute,
		24 * time.Hour: 3 * time.Hour, 90 * 24 * time.Hour: 14 * 24 * time.Hour,
	} {
		if got := tickStep(d); got != want {
			t.Errorf("tickStep(%v) = %v, want %v", d, got, want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for v, want := range map[float64]float64{0.3: 0.5, 1: 1, 1.1: 2, 4: 5, 5.1: 10, 701: 1000} {
		if got := roundUp(v); got != want {
			t.Errorf("roundUp(%v) = %v, want %v", v, got, want)
		}
	}
}
