package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// maxTargets is how many targets one call names.
const maxTargets = 200

// Result is what became of a plan.
type Result struct {
	Registered   []Change
	Deregistered []Change
	Withheld     []Change // the plan's own, and what failed registrations added
	Failed       []*TargetError
}

// OnlyRefusals reports whether all that failed are single targets that the load
// balancer does not take. Repeating the plan at once would end the same.
func (r Result) OnlyRefusals() bool {
	return len(r.Failed) > 0 && !slices.ContainsFunc(r.Failed, func(f *TargetError) bool { return !blamesTarget(f.Err) })
}

// TargetError says that one target was not registered or deregistered.
type TargetError struct {
	Action string // "registering", "confirming" or "deregistering"
	Change Change
	Err    error // cause, shared by all targets of a call that failed as a whole
}

// Error names action, target, server and cause.
func (e *TargetError) Error() string {
	if e.Change.Server == "" {
		return fmt.Sprintf("%s %v: %v", e.Action, e.Change.Target, e.Err)
	}
	return fmt.Sprintf("%s %v (%s): %v", e.Action, e.Change.Target, e.Change.Server, e.Err)
}

// Unwrap returns the cause.
func (e *TargetError) Unwrap() error { return e.Err }

// Apply carries a plan out: it registers, and then deregisters what the floor
// allows with the registrations that succeeded. The list of targets that the
// plan rests on may be seconds old, so the servers that the floor rests on are
// registered again first, which does nothing to those that are. Apply goes on
// past targets that the load balancer refuses. The error joins a *TargetError for each of those
// with any error that stopped the registrations or the deregistrations as a
// whole; the result is complete in both cases.
func (c *Client) Apply(ctx context.Context, p Plan) (Result, error) {
	register := func(targets []elbv2types.TargetDescription) error {
		_, err := c.ELBv2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: &p.TargetGroup, Targets: targets})
		return err
	}
	registering := batch{action: "registering", send: register}
	registering.run(p.Register)
	confirming := batch{action: "confirming", send: register}
	confirming.run(p.Confirm)

	allowed, withheld := guard(p.Below, slices.Concat(confirming.done, registering.done), p.Deregister)
	deregistering := batch{action: "deregistering", send: func(targets []elbv2types.TargetDescription) error {
		_, err := c.ELBv2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: &p.TargetGroup, Targets: targets})
		return err
	}}
	deregistering.run(allowed)

	r := Result{
		Registered:   registering.done,
		Deregistered: deregistering.done,
		Withheld:     slices.SortedFunc(slices.Values(slices.Concat(p.Withheld, withheld)), byTarget),
		Failed:       slices.Concat(registering.failed, confirming.failed, deregistering.failed),
	}
	for _, f := range r.Failed {
		if _, ok := errors.AsType[*elbv2types.InvalidTargetException](f); ok {
			c.forget(f.Change.Target.ID)
		}
	}
	if err := errors.Join(registering.err(), confirming.err(), deregistering.err()); err != nil {
		return r, fmt.Errorf("changing targets of %s: %w", p.TargetGroup, err)
	}
	return r, nil
}

// batch makes the calls of one action.
type batch struct {
	action string
	send   func([]elbv2types.TargetDescription) error
	done   []Change
	failed []*TargetError
	fatal  error // ended the action; no call was made after it
}

// run makes calls of at most maxTargets targets.
func (b *batch) run(changes []Change) {
	for chunk := range slices.Chunk(changes, maxTargets) {
		b.try(chunk)
	}
}

// try makes one call. If the load balancer refuses it for one of its targets,
// the whole call had no effect: halving it until the culprit stands alone takes
// fewer calls than one for each target.
func (b *batch) try(changes []Change) {
	err := b.fatal
	if err == nil {
		err = typed(b.send(describe(changes)))
	}
	switch {
	case err == nil:
		b.done = append(b.done, changes...)
	case !blamesTarget(err):
		b.fatal = err
		fallthrough
	case len(changes) == 1:
		for _, change := range changes {
			b.failed = append(b.failed, &TargetError{Action: b.action, Change: change, Err: err})
		}
	default:
		half := len(changes) / 2
		b.try(changes[:half])
		b.try(changes[half:])
	}
}

// err joins what went wrong, the same cause once only.
func (b *batch) err() error {
	var errs []error
	if b.fatal != nil {
		errs = append(errs, fmt.Errorf("%s: %w", b.action, b.fatal))
	}
	for _, f := range b.failed {
		if blamesTarget(f.Err) {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// blamesTarget reports whether an error is about single targets, so that the
// others of the call may still succeed (ELBv2 API, errors of RegisterTargets).
func blamesTarget(err error) bool {
	_, invalid := errors.AsType[*elbv2types.InvalidTargetException](err)
	_, many := errors.AsType[*elbv2types.TooManyTargetsException](err)
	_, often := errors.AsType[*elbv2types.TooManyRegistrationsForTargetIdException](err)
	return invalid || many || often
}

// describe names the targets of a call. The port is always named: without it,
// deregistering a target that was registered with one succeeds and does nothing.
func describe(changes []Change) []elbv2types.TargetDescription {
	targets := make([]elbv2types.TargetDescription, len(changes))
	for i, change := range changes {
		targets[i] = elbv2types.TargetDescription{Id: &change.Target.ID, Port: &change.Target.Port}
	}
	return targets
}
