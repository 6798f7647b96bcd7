package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// Timelines tell what happened since the given time in a group, or in all if
// the name is empty.
func (o *Operator) Timelines(ctx context.Context, group string, since time.Time) (Timelines, error) {
	groups, err := o.groups(group)
	if err != nil {
		return Timelines{}, err
	}
	all := Timelines{FleetVersion: o.Fleet.Version}
	for _, g := range groups {
		t, err := o.timeline(ctx, g, since)
		if err != nil {
			return Timelines{}, fmt.Errorf("reading the history of group %s: %w", g.Name, err)
		}
		all.Groups = append(all.Groups, t)
	}
	return all, nil
}

func (o *Operator) timeline(ctx context.Context, g fleet.Group, since time.Time) (Timeline, error) {
	v, err := o.Viewer.View(ctx, g)
	if err != nil {
		return Timeline{}, err
	}
	past, err := o.History.History(ctx, g.Name, since)
	if err != nil && past.Transitions == nil {
		return Timeline{}, err
	}
	now := o.now().UTC()
	t := Timeline{Group: g.Name, From: since.UTC(), To: now, Lanes: lanes(v, past, since.UTC(), now), Marks: marks(past, since, now)}
	if err != nil {
		t.Notes = append(t.Notes, "part of the history cannot be read: "+oneLine(err))
	}
	o.addLatency(ctx, v, &t)
	return t, nil
}

// lanes are the histories of the checks of the fleet, and of those that have
// left it.
func lanes(v *reconciler.View, past store.History, from, to time.Time) []Lane {
	var list []Lane
	known := map[string]bool{}
	add := func(server, row string, state health.State) {
		known[row] = true
		lane := Lane{Server: server, Row: row, Spans: spans(past.Transitions, row, state, from, to)}
		order, ordered := v.Remembered.Drains[server]
		for _, d := range drained(past.Transitions, server, order, ordered, from, to) {
			lane.Spans = overlay(lane.Spans, d)
		}
		list = append(list, lane)
	}
	for _, s := range v.Group.Servers {
		for _, c := range s.Checks {
			add(s.Name, c.Row, v.State(c.Row))
		}
	}
	for _, t := range past.Transitions {
		if t.Server != "" && t.Rule != store.RuleOrder && !known[t.Server] {
			add(t.Server, t.Server, v.State(t.Server))
		}
	}
	return list
}

// spans cut the time of a check at its transitions, oldest first. state is where
// it stands at the end.
func spans(transitions []store.Transition, row string, state health.State, from, to time.Time) []Span {
	status := func(s string) string { return cmp.Or(s, string(health.Unknown)) }
	list := []Span{{From: from, Status: string(health.Unknown)}}
	first := true
	for _, t := range transitions {
		if t.Server != row || t.Rule == store.RuleOrder || t.At.After(to) {
			continue
		}
		last := &list[len(list)-1]
		if first {
			// It stood so since before the time, or there would be a transition.
			last.Status, first = status(t.From), false
		}
		begin := t.At
		if begin.Before(from) {
			begin = from
		}
		last.To = begin
		next := Span{From: begin, Status: status(t.To), Rule: t.Rule, Reason: because(t)}
		if last.From.Equal(begin) {
			*last = next
		} else {
			list = append(list, next)
		}
	}
	if last := &list[len(list)-1]; first && !state.Since.IsZero() {
		// No transition is left of what brought the present state.
		if !state.Since.After(from) {
			last.Status = status(string(state.Status))
		} else if state.Since.Before(to) {
			last.To = state.Since
			list = append(list, Span{From: state.Since, Status: status(string(state.Status))})
		}
	}
	list[len(list)-1].To = to
	return list
}

// because is the outcome of a transition, and what the prober said of it.
func because(t store.Transition) string {
	if t.Reason == "" {
		return string(t.Outcome)
	}
	if t.Outcome == "" {
		return t.Reason
	}
	return fmt.Sprintf("%s: %s", t.Outcome, t.Reason)
}

// interval is a time in which something was so.
type interval struct{ from, to time.Time }

// drained lists the times in which an operator kept a server out.
func drained(transitions []store.Transition, server string, order store.Drain, ordered bool, from, to time.Time) []interval {
	var list []interval
	var open *interval
	end := func(at time.Time) {
		if open != nil {
			if at.Before(open.to) {
				open.to = at
			}
			list, open = append(list, *open), nil
		}
	}
	seen := false
	for _, t := range transitions {
		if t.Server != server || t.Rule != store.RuleOrder {
			continue
		}
		if t.To == store.Undrained && !seen {
			open = &interval{from, t.At} // it began before the time
		}
		end(t.At)
		if t.To == store.Drained {
			open = &interval{t.At, t.HeldUntil}
		}
		seen = true
	}
	if !seen && ordered {
		open = &interval{order.Since, order.Until}
	}
	end(to)
	var inside []interval
	for _, d := range list {
		d.from, d.to = later(d.from, from), earlier(d.to, to)
		if d.from.Before(d.to) {
			inside = append(inside, d)
		}
	}
	return inside
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// overlay marks the part of the spans that is within an interval as drained.
func overlay(list []Span, d interval) []Span {
	var out []Span
	for _, s := range list {
		from, to := later(s.From, d.from), earlier(s.To, d.to)
		if !from.Before(to) {
			out = append(out, s)
			continue
		}
		for _, part := range []struct {
			interval
			drained bool
		}{{interval{s.From, from}, s.Drained}, {interval{from, to}, true}, {interval{to, s.To}, s.Drained}} {
			if part.from.Before(part.to) {
				cut := s
				cut.From, cut.To, cut.Drained = part.from, part.to, part.drained
				out = append(out, cut)
			}
		}
	}
	return out
}

// marks are what happened in a group, oldest first.
func marks(past store.History, from, to time.Time) []Mark {
	list := []Mark{} // an empty list in JSON, too
	add := func(at time.Time, kind MarkKind, server, text string) {
		if !at.Before(from) && !at.After(to) {
			list = append(list, Mark{At: at.UTC(), Kind: kind, Server: server, Text: text})
		}
	}
	for i, t := range past.Transitions {
		switch {
		case t.Rule == store.RuleOrder && t.To == store.Drained:
			add(t.At, MarkDrain, t.Server, fmt.Sprintf("drained for %s: %s", Short(t.HeldUntil.Sub(t.At)), t.Reason))
			if !replaced(past.Transitions[i+1:], t) {
				add(t.HeldUntil, MarkUndrain, t.Server, "the drain ended by itself")
			}
		case t.Rule == store.RuleOrder:
			add(t.At, MarkUndrain, t.Server, "the drain was taken back")
		case t.Server == "" && t.To == "open":
			add(t.At, MarkFailOpenBegin, "", "fail-open begins: "+meaning(health.Case(t.Rule), true))
		case t.Server == "":
			add(t.At, MarkFailOpenEnd, "", "fail-open ends: "+meaning(health.Case(t.Rule), false))
		default:
			text := fmt.Sprintf("%s -> %s: %s", t.From, t.To, t.Rule)
			if why := because(t); why != "" {
				text += " (" + why + ")"
			}
			if !t.HeldUntil.IsZero() {
				text += ", held for " + Short(t.HeldUntil.Sub(t.At))
			}
			add(t.At, MarkTransition, t.Server, text)
		}
	}
	for _, c := range past.Changes {
		name := TargetGroupName(c.TargetGroup)
		for _, moves := range []struct {
			kind MarkKind
			verb string
			list []store.Move
		}{
			{MarkRegister, "registered in", c.Registered},
			{MarkDeregister, "deregistered from", c.Deregistered},
			{MarkWithheld, "not deregistered from", c.Withheld},
		} {
			for _, m := range moves.list {
				add(c.At, moves.kind, m.Server, fmt.Sprintf("%s %s %s: %s", m.Target, moves.verb, name, m.Reason))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Mark) int { return a.At.Compare(b.At) })
	return list
}

// replaced reports whether a later order about the same server came before the
// end of the given one.
func replaced(after []store.Transition, order store.Transition) bool {
	return slices.ContainsFunc(after, func(t store.Transition) bool {
		return t.Rule == store.RuleOrder && t.Server == order.Server && t.At.Before(order.HeldUntil)
	})
}

// addLatency adds how long answers took: what the metrics say, and the newest
// probes from the rows.
func (o *Operator) addLatency(ctx context.Context, v *reconciler.View, t *Timeline) {
	metrics := o.Latencies
	read := func(server string) []Sample {
		if metrics == nil {
			return nil
		}
		list, err := metrics.Latency(ctx, t.Group, server, t.From, t.To)
		if err != nil {
			t.Notes = append(t.Notes, "latency is that of the newest probes only: "+oneLine(err))
			metrics = nil // one refusal is enough
		}
		return list
	}
	t.Latency = read("")
	for i := range t.Lanes {
		lane := &t.Lanes[i]
		if v.Group.ServerMetrics {
			lane.Latency = read(lane.Server)
		}
		recent := newest(v, lane.Row, t.From, t.To)
		if len(recent) > 0 {
			kept := slices.IndexFunc(lane.Latency, func(s Sample) bool { return !s.At.Before(recent[0].At) })
			if kept >= 0 {
				lane.Latency = lane.Latency[:kept]
			}
		}
		lane.Latency = append(lane.Latency, recent...)
	}
}

// newest are the latencies that a row remembers. It does not say when each probe
// was; from the newest on they are one interval apart, but for the fast ones.
func newest(v *reconciler.View, row string, from, to time.Time) []Sample {
	_, check, ok := v.Group.Check(row)
	if !ok {
		return nil
	}
	_, last := v.Rows[row].Observation().Evidence()
	recent := v.Rows[row].RecentLatencies()
	var list []Sample
	for i, latency := range recent {
		at := last.Add(-time.Duration(len(recent)-1-i) * check.Interval)
		if latency > 0 && !at.Before(from) && !at.After(to) {
			ms := float64(latency) / float64(time.Millisecond)
			list = append(list, Sample{At: at.UTC(), P50MS: ms, P99MS: ms})
		}
	}
	return list
}
