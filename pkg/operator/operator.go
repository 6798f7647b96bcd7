package operator

import (
	"context"
	"fmt"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// Viewer shows a group as a pass over it would find it. The reconciler is one.
type Viewer interface {
	View(context.Context, fleet.Group) (*reconciler.View, error)
}

// History is the part of table health that tells the past.
type History interface {
	History(ctx context.Context, group string, since time.Time) (store.History, error)
}

// Drains takes orders to keep servers out, and takes them back.
type Drains interface {
	Save(ctx context.Context, group, server string, order store.Drain) error
	Delete(ctx context.Context, group, server string, at time.Time) error
}

// Latencies knows how long the answers of a server have taken, or of a whole
// group where server is empty. Without samples it knows nothing of it.
type Latencies interface {
	Latency(ctx context.Context, group, server string, from, to time.Time) ([]Sample, error)
}

// Operator looks at a fleet and gives orders.
type Operator struct {
	Fleet     *fleet.Fleet
	Viewer    Viewer
	History   History
	Drains    Drains
	Latencies Latencies        // nil knows the newest probes' only
	Now       func() time.Time // nil means time.Now
}

func (o *Operator) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// groups lists the group with the given name, or all if it is empty.
func (o *Operator) groups(name string) ([]fleet.Group, error) {
	if name == "" {
		return o.Fleet.Groups, nil
	}
	g, ok := o.Fleet.Group(name)
	if !ok {
		return nil, fmt.Errorf("group %q is not in the fleet; it has %s", name, names(o.Fleet.Groups, func(g fleet.Group) string { return g.Name }))
	}
	return []fleet.Group{g}, nil
}

// present makes a zero time absent from JSON.
func present(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
