// Package statuspage shows an operator.Report in a browser, live: one page
// without anything from elsewhere, fed by server-sent events.
//
// It asks nobody who they are, so it belongs on a loopback address. What could be
// read or done through somebody's browser from another site is refused: see
// guard. However many look, AWS is asked once per interval, and not at all when
// nobody does.
package statuspage

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"radwitness/pkg/operator"
)

// The time between two polls of AWS: that of a page, and the shortest that
// leaves the reconciler its share of the API's rates.
const (
	DefaultInterval = 5 * time.Second
	MinInterval     = 2 * time.Second
)

// heartbeat is how long a stream of events is silent at most.
const heartbeat = 15 * time.Second

// writeTimeout is for one event. A browser that has gone without a word must not
// keep the polls going.
const writeTimeout = 20 * time.Second

// Source is where the page gets what it shows. An operator.Operator is one.
type Source interface {
	Report(ctx context.Context, group string) (operator.Report, error)
	Timelines(ctx context.Context, group string, since time.Time) (operator.Timelines, error)
	Servers(ctx context.Context, group string) (operator.ServersReport, error)
}

// Lab breaks servers that are there to be broken.
type Lab interface {
	// Faults lists what a server can be switched to, the one for none of them first.
	// It is empty if the servers are not the lab's.
	Faults() []string
	// Fault is what a server is switched to now.
	Fault(server string) string
	SetFault(server, fault string) error
	// RemoveTarget takes a server out of its target groups behind the system's back.
	RemoveTarget(ctx context.Context, group, server string) error
}

// Config says what to show.
type Config struct {
	Source   Source
	Name     string        // of what is shown, for whoever has several pages open
	Lab      Lab           // nil has none
	Interval time.Duration // between two polls of the source; 0 means DefaultInterval

	// Explain says what to do about an error of the source; nil gives its text.
	Explain func(error) string
}

// countersAge is how old counters may be: they come with all of the history.
const countersAge = 30 * time.Second

// ranges are the times that a timeline can show: any others would each be a
// history of their own to read and keep.
var ranges = []time.Duration{5 * time.Minute, time.Hour, 24 * time.Hour}

//go:embed page
var embedded embed.FS

// page serves the page.
type page struct {
	feed      *feed
	source    Source
	timelines kept[operator.Timelines]
	counters  kept[operator.ServersReport]
	explain   func(error) string
	name      string
	lab       Lab
}

// New returns the handler of the page and of what it is made of.
func New(cfg Config) http.Handler {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Explain == nil {
		cfg.Explain = error.Error
	}
	p := &page{
		feed:      newFeed(cfg),
		source:    cfg.Source,
		timelines: kept[operator.Timelines]{maxAge: cfg.Interval},
		counters:  kept[operator.ServersReport]{maxAge: countersAge},
		explain:   cfg.Explain,
		name:      cfg.Name,
		lab:       cfg.Lab,
	}
	files, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // the path is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("GET /api/report", p.report)
	mux.HandleFunc("GET /api/timeline", p.timeline)
	mux.HandleFunc("GET /api/servers", p.servers)
	if p.lab != nil {
		mux.HandleFunc("POST /api/lab/fault", p.setFault)
		mux.HandleFunc("POST /api/lab/remove", p.removeTarget)
	}
	return guard(mux)
}

// event is what the page is told with each poll.
type event struct {
	Name       string           `json:"name"`
	Report     *operator.Report `json:"report,omitempty"` // the newest; none if there never was one
	Trouble    *trouble         `json:"trouble,omitempty"`
	Lab        *labState        `json:"lab,omitempty"`
	IntervalMS int64            `json:"interval_ms"` // until the next, about
}

// events streams the report, now and whenever there is a newer one. Each event
// holds all of it, so nothing is lost with those that are.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		// A writer without deadlines is a test's.
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return
	}
	defer p.feed.join()()
	var last uint64
	for {
		ctx, cancel := context.WithTimeout(r.Context(), heartbeat)
		u, err := p.feed.after(ctx, last)
		cancel()
		switch {
		case r.Context().Err() != nil:
			return
		case err != nil:
			if !send(": still here\n\n") {
				return
			}
			continue
		}
		data, err := json.Marshal(event{
			Name: p.name, Report: u.report, Trouble: u.trouble, Lab: p.labState(u.report), IntervalMS: p.feed.interval.Milliseconds(),
		})
		if err != nil || !send("id: %d\nevent: report\ndata: %s\n\n", u.id, data) {
			return
		}
		last = u.id
	}
}

// report answers with the newest report.
func (p *page) report(w http.ResponseWriter, r *http.Request) {
	defer p.feed.join()()
	u, err := p.feed.after(r.Context(), 0)
	switch {
	case err != nil:
		return // nobody waits for the answer
	case u.trouble != nil:
		http.Error(w, u.trouble.Message, http.StatusBadGateway)
	default:
		writeJSON(w, u.report)
	}
}

// timeline answers with what happened to a group.
func (p *page) timeline(w http.ResponseWriter, r *http.Request) {
	group := r.FormValue("group")
	since, err := time.ParseDuration(r.FormValue("since"))
	if err != nil || !slices.Contains(ranges, since) || group == "" {
		words := make([]string, len(ranges))
		for i, r := range ranges {
			words[i] = r.String()
		}
		http.Error(w, "a timeline needs group=NAME and since="+strings.Join(words, "|"), http.StatusBadRequest)
		return
	}
	all, err := p.timelines.get(r.Context(), since.String()+" "+group, func(ctx context.Context) (operator.Timelines, error) {
		return p.source.Timelines(ctx, group, time.Now().Add(-since))
	})
	if err != nil {
		http.Error(w, p.explain(err), http.StatusBadGateway)
		return
	}
	writeJSON(w, all.Groups[0])
}

// servers answers with the counters of a group.
func (p *page) servers(w http.ResponseWriter, r *http.Request) {
	group := r.FormValue("group")
	if group == "" {
		http.Error(w, "counters need group=NAME", http.StatusBadRequest)
		return
	}
	counted, err := p.counters.get(r.Context(), group, func(ctx context.Context) (operator.ServersReport, error) {
		return p.source.Servers(ctx, group)
	})
	if err != nil {
		http.Error(w, p.explain(err), http.StatusBadGateway)
		return
	}
	writeJSON(w, counted)
}

func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data)
}
