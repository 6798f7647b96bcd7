package prober

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"radwitness/pkg/credentials"
	"radwitness/pkg/health"
	"radwitness/pkg/telemetry"
)

const (
	// window is the time whose ticks one invocation runs.
	window = time.Minute
	// reserve is what is kept of the function's time for the last writes, and
	// lastWords what is kept of that for the error.
	reserve   = 2 * time.Second
	lastWords = 500 * time.Millisecond
	// maxEventAge is the age past which an event's minute is over: to run it now
	// would only double the rounds of the newer event.
	maxEventAge = 2 * time.Minute
)

// Shard is the part of the servers that an invocation probes. The zero Shard is
// the whole fleet.
type Shard struct {
	Index uint32 `json:"index"`
	Count uint32 `json:"count"`
}

// has says whether a server is in the shard, with all its checks.
func (s Shard) has(group, server string) bool {
	if s.Count <= 1 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(group + "/" + server))
	return h.Sum32()%s.Count == s.Index
}

// activity is what a server is doing when a tick comes.
type activity int

const (
	idle activity = iota
	probing
	confirming // in fast probes, until there is a verdict
)

// minute is one scheduled invocation.
type minute struct {
	*Prober
	ctx  context.Context // ends all probes; the writes have time after it
	end  time.Time       // no probe begins at or after it
	work sync.WaitGroup

	mu       sync.Mutex
	activity map[rowKey]activity
	tally    map[telemetry.Dimensions]*tally
	lost     int   // results that could not be recorded
	lostErr  error // the newest reason for one
}

// tally sums up probes for the metrics and the line of the minute.
type tally struct {
	probes, successes, failures, answered, skipped int
	latency                                        time.Duration
	expires                                        time.Time // the first certificate to expire; zero without any
	outcomes                                       map[health.Outcome]int
	failing                                        map[string]health.Outcome // the newest failure of each row that had one
	previous                                       map[string]bool           // rows that only the previous credentials open
}

func newTally() *tally {
	return &tally{outcomes: map[health.Outcome]int{}, failing: map[string]health.Outcome{}, previous: map[string]bool{}}
}

// Minute runs every tick in [now, now+60s) for the servers of a shard, and fast
// probes between them. It ends early, with what it has recorded, when the
// context does. The error says how many results could not be recorded.
func (p *Prober) Minute(ctx context.Context, shard Shard) error {
	p.prepare()
	start := time.Now()
	m := &minute{
		Prober: p, end: start.Add(window),
		activity: map[rowKey]activity{}, tally: map[telemetry.Dimensions]*tally{},
	}
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		m.ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
	}
	defer cancel()

	members := p.members(shard.has)
	p.load(m.ctx, members)
	for _, s := range members {
		if row, _ := p.row(s.key); row.ConsecutiveFailures > 0 && row.ConsecutiveFailures < s.threshold {
			m.begin(s.key, confirming)
			m.work.Go(func() {
				m.confirm(s)
				m.set(s.key, idle)
			})
		}
	}
	for tick := nextTick(members, start.Add(-1)); tick.Before(m.end) && m.sleepUntil(tick); tick = nextTick(members, tick) {
		m.round(tick, members)
	}
	m.work.Wait()
	m.emit()
	if m.lost > 0 {
		return fmt.Errorf("%d results not recorded, the last: %w", m.lost, m.lostErr)
	}
	return nil
}

// nextTick is the first time after t that is a multiple of some server's
// interval on the wall clock.
func nextTick(members []member, t time.Time) time.Time {
	next := t.Add(2 * window)
	for _, s := range members {
		interval := s.check.Interval
		if tick := t.Truncate(interval).Add(interval); tick.Before(next) {
			next = tick
		}
	}
	return next.UTC()
}

// sleepUntil waits; false if the invocation ended first.
func (m *minute) sleepUntil(t time.Time) bool {
	select {
	case <-time.After(time.Until(t)):
		return m.ctx.Err() == nil
	case <-m.ctx.Done():
		return false
	}
}

// begin claims a server for a probe, unless it is busy; then it returns what
// with.
func (m *minute) begin(key rowKey, a activity) activity {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.activity[key]; now != idle {
		return now
	}
	m.activity[key] = a
	return idle
}

func (m *minute) set(key rowKey, a activity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activity[key] = a
}

// round starts the probes of a tick and returns; its line is logged when the
// last of them is done. A server whose last probe still runs is skipped, so
// that rounds never pile up.
func (m *minute) round(tick time.Time, members []member) {
	var due []member
	var skipped []string
	for _, s := range members {
		if !tick.Truncate(s.check.Interval).Equal(tick) {
			continue
		}
		switch m.begin(s.key, probing) {
		case idle:
			due = append(due, s)
		case probing:
			skipped = append(skipped, s.key.String())
			m.count(s, func(t *tally) { t.skipped++ })
		}
	}
	if len(skipped) > 0 {
		m.Log.Warn("round overrun: servers skipped, their last probe is still running", "round", tick, "servers", skipped)
	}
	m.work.Go(func() {
		results := make([]finding, len(due))
		var first sync.WaitGroup
		for i, s := range due {
			first.Add(1)
			m.work.Go(func() {
				verdict := m.once(s, tick, &results[i])
				first.Done()
				if !verdict {
					m.set(s.key, confirming)
					m.confirm(s)
				}
				m.set(s.key, idle)
			})
		}
		first.Wait()
		m.logRound(tick, false, due, results)
	})
}

// confirm probes a failing server at its fast interval until it succeeds, is
// down, or the minute is over.
func (m *minute) confirm(s member) {
	for verdict := false; !verdict; {
		next := time.Now().Add(s.check.FastInterval)
		if !next.Before(m.end) || !m.sleepUntil(next) {
			return
		}
		round := time.Now().UTC().Truncate(time.Millisecond)
		var result finding
		verdict = m.once(s, round, &result)
		m.logRound(round, true, []member{s}, []finding{result})
	}
}

// once makes one probe, records it, and says whether the server needs no
// confirmation. A probe that the end of the invocation cut off is not recorded.
func (m *minute) once(s member, round time.Time, result *finding) (verdict bool) {
	*result = m.probe(m.ctx, s)
	if m.ctx.Err() != nil && result.Outcome == health.ProberError {
		m.Log.Warn("probe cut off by the end of the invocation", "group", s.key.group, "row", s.key.row, "round", round)
		m.count(s, func(t *tally) { t.skipped++ })
		return true
	}
	evidence := s.check.Criteria.Evidence(result.Outcome)
	m.count(s, func(t *tally) {
		t.probes++
		t.outcomes[result.Outcome]++
		switch evidence {
		case health.Success:
			t.successes++
			if result.stage == credentials.Previous {
				t.previous[s.key.row] = true
			}
		case health.Failure:
			t.failures++
			t.failing[s.key.row] = result.Outcome
		}
		if result.Latency > 0 {
			t.answered++
			t.latency += result.Latency
		}
		if c := result.Certificate; c.Seen() && (t.expires.IsZero() || c.NotAfter.Before(t.expires)) {
			t.expires = c.NotAfter
		}
	})
	row, err := m.record(m.ctx, s, round, *result)
	if !recorded(err) {
		m.mu.Lock()
		m.lost, m.lostErr = m.lost+1, err
		m.mu.Unlock()
	}
	if err != nil {
		return true // another invocation has the server, or nothing can be recorded now
	}
	return evidence != health.Failure || row.ConsecutiveFailures >= s.threshold
}

// count adds to the tallies that a server is in.
func (m *minute) count(s member, add func(*tally)) {
	in := []telemetry.Dimensions{{Group: s.key.group}}
	if s.metrics {
		in = append(in, telemetry.Dimensions{Group: s.key.group, Server: s.server.Name})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range in {
		if m.tally[of] == nil {
			m.tally[of] = newTally()
		}
		add(m.tally[of])
	}
}

// logRound writes the line of a round: every server with outcome and duration.
// At ten seconds an interval these lines would cost more than all other logs, so
// they are there only for those who ask for them.
func (m *minute) logRound(round time.Time, fast bool, members []member, results []finding) {
	if len(members) == 0 || !m.Log.Enabled(m.ctx, slog.LevelDebug) {
		return
	}
	servers := make([]any, len(members))
	for i, s := range members {
		r := results[i]
		attrs := []any{"outcome", r.Outcome, "duration_ms", milliseconds(r.Duration), "transmissions", r.Transmissions}
		if r.Reason != "" {
			attrs = append(attrs, "reason", r.Reason)
		}
		if r.stage == credentials.Previous {
			attrs = append(attrs, "credential_stage", r.stage)
		}
		servers[i] = slog.Group(s.key.String(), attrs...)
	}
	m.Log.Debug("round", "round", round, "fast", fast, "took_ms", milliseconds(time.Since(round)), slog.Group("servers", servers...))
}

// log writes the line of the minute of a group.
func (t *tally) log(log *slog.Logger, group string) {
	attrs := []any{"group", group, "probes", t.probes, "outcomes", t.outcomes}
	if t.answered > 0 {
		attrs = append(attrs, "latency_ms", milliseconds(t.latency/time.Duration(t.answered)))
	}
	if t.skipped > 0 {
		attrs = append(attrs, "skipped", t.skipped)
	}
	if len(t.failing) > 0 {
		attrs = append(attrs, "failing", t.failing)
	}
	if len(t.previous) > 0 {
		attrs = append(attrs, "previous_credentials", slices.Sorted(maps.Keys(t.previous)))
	}
	log.Info("minute", attrs...)
}

// emit writes the line and the metrics of the minute for each group.
func (m *minute) emit() {
	for of, t := range m.tally {
		var metrics []telemetry.Metric
		if of.Server == "" {
			t.log(m.Log, of.Group)
			if t.skipped > 0 {
				metrics = append(metrics, telemetry.Metric{Name: telemetry.MetricSkipped, Unit: "Count", Value: float64(t.skipped)})
			}
		}
		if conclusive := t.successes + t.failures; conclusive > 0 {
			metrics = append(metrics, telemetry.Metric{Name: telemetry.MetricSuccessRate, Unit: "Percent", Value: 100 * float64(t.successes) / float64(conclusive)})
		}
		if t.answered > 0 {
			metrics = append(metrics, telemetry.Metric{Name: telemetry.MetricLatency, Unit: "Milliseconds", Value: milliseconds(t.latency / time.Duration(t.answered))})
		}
		if !t.expires.IsZero() {
			metrics = append(metrics, telemetry.Metric{Name: telemetry.MetricDaysToExpiry, Unit: "None", Value: time.Until(t.expires).Hours() / 24})
		}
		if err := m.Metrics.Emit(time.Now(), of, metrics...); err != nil {
			m.Log.Error("metrics not written", "error", err)
		}
	}
}

// milliseconds is a duration as people read it, down to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
