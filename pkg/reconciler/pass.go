package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"radwitness/pkg/announce"
	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
	"radwitness/pkg/telemetry"
)

// outcome is what a pass did to one target group.
type outcome struct {
	arn    string
	plan   balancer.Plan
	result balancer.Result
	err    error
}

// has reports whether a server is registered after the pass.
func (o outcome) has(server string) bool {
	is := func(c balancer.Change) bool { return c.Server == server }
	return (slices.Contains(o.plan.Registered, server) || slices.ContainsFunc(o.result.Registered, is)) &&
		!slices.ContainsFunc(o.result.Deregistered, is)
}

// mendable reports whether repeating the pass at once may end better. A target
// that the load balancer refuses, or a target group that is not there, waits
// for the next pass: delivering the records again would only hold up the shard.
func (o outcome) mendable() bool {
	switch {
	case o.err == nil, errors.Is(o.err, balancer.ErrTargetGroupNotFound), errors.Is(o.err, balancer.ErrTargetType):
		return false
	}
	return !o.result.OnlyRefusals() && !denied(o.err)
}

// denied reports whether a permission is missing.
func denied(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (strings.HasPrefix(api.ErrorCode(), "AccessDenied") || strings.HasPrefix(api.ErrorCode(), "Unauthorized"))
}

// pass makes the target groups of a group match the decision, and records how
// that went. In observe mode it does all but the two calls.
func (r *Reconciler) pass(ctx context.Context, v *view, d health.Decision) error {
	start := r.now()
	outcomes := make([]outcome, len(v.group.TargetGroups))
	for i, tg := range v.group.TargetGroups {
		o := &outcomes[i]
		o.arn = tg.ARN
		if o.plan, o.err = r.Balancer.Plan(ctx, v.group, tg, d); o.err != nil {
			continue
		}
		if v.group.Mode == fleet.Enforce && !o.plan.Empty() {
			o.result, o.err = r.Balancer.Apply(ctx, o.plan)
		}
	}
	r.report(v, d, outcomes, start)
	r.saveChanges(ctx, v, d, outcomes)

	var failures []error
	row := v.remember.Group
	row.Pass = store.PassDone
	for _, o := range outcomes {
		if o.err == nil {
			continue
		}
		failures = append(failures, o.err)
		if o.mendable() {
			row.Pass = store.PassPending
		} else if row.Pass == store.PassDone {
			row.Pass = store.PassFailed
		}
	}
	err := errors.Join(failures...)
	row.PassError = ""
	if err != nil {
		row.PassError = err.Error()
	}
	if row.Pass != v.remember.Group.Pass || row.PassError != v.remember.Group.PassError {
		if err := r.Health.SaveGroup(ctx, v.group.Name, row, nil); err != nil {
			return err
		}
	}
	if row.Pass == store.PassPending {
		return fmt.Errorf("passing over group %s: %w", v.group.Name, err)
	}
	r.setLastPass(v.group.Name, r.now())
	return nil
}

// saveChanges stores what a pass has changed, and has it announced. The change
// itself is made: that its history is not stored is logged, and no more.
func (r *Reconciler) saveChanges(ctx context.Context, v *view, d health.Decision, outcomes []outcome) {
	for _, o := range outcomes {
		if len(o.result.Registered)+len(o.result.Deregistered) == 0 {
			continue
		}
		c := store.Change{
			At: r.now(), TargetGroup: o.arn, Round: v.newest(), Case: d.Case, FailOpen: d.FailOpen,
			Registered: moves(o.result.Registered), Deregistered: moves(o.result.Deregistered), Withheld: moves(o.result.Withheld),
			Version: r.Fleet.Version,
		}
		if o.err != nil {
			c.Error = o.err.Error()
		}
		if err := r.Health.SaveChange(ctx, v.group.Name, c); err != nil {
			r.Log.Error("change not stored", "group", v.group.Name, "target_group", o.arn, "error", err)
		}
		v.news = append(v.news, announce.TargetGroupChange{
			Group: v.group.Name, TargetGroup: c.TargetGroup, Case: c.Case, FailOpen: c.FailOpen,
			Registered: c.Registered, Deregistered: c.Deregistered, Withheld: c.Withheld, EmptiedZones: o.plan.EmptiedZones,
			Error: c.Error, Round: c.Round, FleetVersion: c.Version,
		})
	}
}

func moves(changes []balancer.Change) []store.Move {
	var list []store.Move
	for _, c := range changes {
		list = append(list, store.Move{Target: c.Target.String(), Server: c.Server, Reason: c.Reason})
	}
	return list
}

// report writes the one line and the metrics of a pass.
func (r *Reconciler) report(v *view, d health.Decision, outcomes []outcome, start time.Time) {
	now := r.now()
	up := d.Count(health.StandingSolid, health.StandingInDoubt)
	down, held := d.Count(health.StandingDown), d.Count(health.StandingHoldDown)
	registered, changes, failed := 0, 0, 0
	for _, s := range v.group.Servers {
		if !slices.ContainsFunc(outcomes, func(o outcome) bool { return !o.has(s.Name) }) {
			registered++
		}
	}
	level := slog.LevelInfo
	targetGroups := make([]any, len(outcomes))
	for i, o := range outcomes {
		changes += len(o.result.Registered) + len(o.result.Deregistered)
		switch {
		case o.err != nil:
			failed++
			level = slog.LevelError
		case len(o.plan.EmptiedZones) > 0:
			level = max(level, slog.LevelWarn)
		}
		targetGroups[i] = o.summary(v.group.Mode)
	}
	lag := now.Sub(v.newest())
	r.Log.Log(context.Background(), level, "pass", "group", v.group.Name, "mode", v.group.Mode,
		"case", d.Case, "fail_open", d.FailOpen, "up", up, "down", down, "held", held, "registered", registered,
		"servers", len(v.group.Servers), "changes", changes, "lag_ms", lag.Milliseconds(),
		"took_ms", now.Sub(start).Milliseconds(), "target_groups", targetGroups)

	failOpen := 0.0
	if d.FailOpen {
		failOpen = 1
	}
	metrics := []telemetry.Metric{
		{Name: telemetry.MetricUp, Unit: "Count", Value: float64(up)},
		{Name: telemetry.MetricDown, Unit: "Count", Value: float64(down)},
		{Name: telemetry.MetricHeld, Unit: "Count", Value: float64(held)},
		{Name: telemetry.MetricRegistered, Unit: "Count", Value: float64(registered)},
		{Name: telemetry.MetricFailOpen, Unit: "Count", Value: failOpen},
		{Name: telemetry.MetricReconcileLag, Unit: "Milliseconds", Value: float64(lag.Milliseconds())},
	}
	if changes > 0 {
		metrics = append(metrics, telemetry.Metric{Name: telemetry.MetricChanges, Unit: "Count", Value: float64(changes)})
	}
	if failed > 0 {
		metrics = append(metrics, telemetry.Metric{Name: telemetry.MetricErrors, Unit: "Count", Value: float64(failed)})
	}
	if err := r.Metrics.Emit(now, telemetry.Dimensions{Group: v.group.Name}, metrics...); err != nil {
		r.Log.Error("metrics not written", "error", err)
	}
}

// summary is the part of the pass's line for one target group. What is empty is
// left out.
func (o outcome) summary(mode fleet.Mode) map[string]any {
	s := map[string]any{"arn": o.arn}
	list := func(key string, changes []balancer.Change) {
		if len(changes) > 0 {
			s[key] = changes
		}
	}
	if mode == fleet.Enforce {
		list("registered", o.result.Registered)
		list("deregistered", o.result.Deregistered)
	} else {
		list("would_register", o.plan.Register)
		list("would_deregister", o.plan.Deregister)
	}
	withheld := o.plan.Withheld
	if len(o.result.Withheld) > 0 {
		withheld = o.result.Withheld
	}
	list("withheld", withheld)
	if len(o.plan.Refused) > 0 {
		s["refused"] = o.plan.Refused
	}
	if len(o.plan.EmptiedZones) > 0 {
		s["emptied_zones"] = o.plan.EmptiedZones
	}
	if len(o.plan.Unmanaged) > 0 {
		s["unmanaged"] = o.plan.Unmanaged
	}
	if o.err != nil {
		s["error"] = o.err.Error()
	}
	return s
}
