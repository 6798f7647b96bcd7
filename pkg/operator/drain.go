package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// The bounds of a drain. One for longer belongs into fleet.yaml as admin: out.
const (
	MinDrain = time.Minute
	MaxDrain = 30 * 24 * time.Hour
)

// maxReason is the most characters that the reason of a drain has. It is kept in
// several rows, and shown on one line.
const maxReason = 200

// poll is the time between two looks at what the reconciler has made of an order.
const poll = 500 * time.Millisecond

// ErrRefused marks an order that was not given because it would do harm, or is
// there already.
var ErrRefused = errors.New("refused")

// Order takes a server out for a time.
type Order struct {
	Server string        // NAME, or GROUP/NAME where several groups have one
	For    time.Duration // from MinDrain to MaxDrain
	Reason string        // one line of printable text
	Force  bool          // even if too few servers are left, and in place of an earlier order
	Wait   time.Duration // for the reconciler to carry it out; 0 does not wait
}

// Carried is what became of an order.
type Carried struct {
	Group        string            `json:"group"`
	Server       string            `json:"server"`
	Drained      bool              `json:"drained"`
	Until        *time.Time        `json:"until,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	TargetGroups int               `json:"target_groups"` // of the group
	Registered   int               `json:"registered"`    // in how many of them the server is
	Membership   health.Membership `json:"membership"`    // that the reconciler wants
	Done         bool              `json:"done"`          // the target groups are as the reconciler wants them
	TookSeconds  float64           `json:"took_s"`        // from the order to that
	Note         string            `json:"note,omitempty"`
}

// Drain orders the reconciler to keep a server out. ErrRefused says that it was
// not done without Force.
func (o *Operator) Drain(ctx context.Context, order Order) (Carried, error) {
	switch {
	case order.For < MinDrain || order.For > MaxDrain:
		return Carried{}, fmt.Errorf("a drain takes from 1m to 30d, not %v; for good, write admin: out in fleet.yaml", order.For)
	case order.Wait < 0:
		return Carried{}, fmt.Errorf("to wait for %v makes no sense", order.Wait)
	case strings.TrimSpace(order.Reason) == "":
		return Carried{}, errors.New("a drain needs a reason: others will ask")
	case utf8.RuneCountInString(order.Reason) > maxReason || strings.ContainsFunc(strings.TrimSpace(order.Reason), unprintable):
		return Carried{}, fmt.Errorf("the reason of a drain is one line of printable text, of %d characters at most", maxReason)
	}
	g, s, err := o.find(order.Server)
	if err != nil {
		return Carried{}, err
	}
	v, err := o.Viewer.View(ctx, g)
	if err != nil {
		return Carried{}, fmt.Errorf("looking at group %s: %w", g.Name, err)
	}
	if err := permitted(v, s, order.Force, o.now()); err != nil {
		return Carried{}, err
	}
	at := o.now().UTC().Truncate(time.Millisecond) // as the table keeps it
	drain := store.Drain{Since: at, Until: at.Add(order.For), Reason: strings.TrimSpace(order.Reason)}
	if err := o.Drains.Save(ctx, g.Name, s.Name, drain); err != nil {
		return Carried{}, err
	}
	if err := o.confirm(ctx, g, s, order.Force, at); err != nil {
		return Carried{}, err
	}
	c := Carried{Group: g.Name, Server: s.Name, Drained: true, Until: &drain.Until, Reason: drain.Reason}
	return o.await(ctx, g, s, c, at, order.Wait)
}

// confirm looks again at what an order leaves, and takes it back if that is too
// little: somebody else may have drained another server in the same moment.
func (o *Operator) confirm(ctx context.Context, g fleet.Group, s fleet.Server, force bool, at time.Time) error {
	if force {
		return nil
	}
	v, err := o.Viewer.View(ctx, g)
	if err != nil {
		return fmt.Errorf("looking at group %s again, with %s drained: %w", g.Name, s.Name, err)
	}
	if err := enough(v, s); err != nil {
		return errors.Join(err, o.Drains.Delete(ctx, g.Name, s.Name, at))
	}
	return nil
}

// unprintable reports whether a character would do something to a terminal, or
// is none (bytes that are not UTF-8).
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

// Undrain takes back the order about a server.
func (o *Operator) Undrain(ctx context.Context, server string, wait time.Duration) (Carried, error) {
	g, s, err := o.find(server)
	if err != nil {
		return Carried{}, err
	}
	v, err := o.Viewer.View(ctx, g)
	if err != nil {
		return Carried{}, fmt.Errorf("looking at group %s: %w", g.Name, err)
	}
	switch verdict, _ := v.Decision.Verdict(s.Name); {
	case s.Admin == fleet.AdminOut:
		return Carried{}, fmt.Errorf("%w: %s is out by admin: out in fleet.yaml, and comes back by a deployment without it", ErrRefused, s.Name)
	case verdict.Standing != health.StandingDrained && v.Remembered.Unreadable[s.Name] == nil:
		return Carried{}, fmt.Errorf("%w: %s is not drained", ErrRefused, s.Name)
	}
	at := o.now().UTC().Truncate(time.Millisecond)
	if err := o.Drains.Delete(ctx, g.Name, s.Name, at); err != nil {
		return Carried{}, err
	}
	return o.await(ctx, g, s, Carried{Group: g.Name, Server: s.Name}, at, wait)
}

// permitted refuses a drain that would leave too few servers, or that says again
// what is ordered already.
func permitted(v *reconciler.View, s fleet.Server, force bool, now time.Time) error {
	if s.Admin == fleet.AdminOut {
		return fmt.Errorf("%w: %s is out already, by admin: out in fleet.yaml", ErrRefused, s.Name)
	}
	if force {
		return nil
	}
	if verdict, _ := v.Decision.Verdict(s.Name); verdict.Standing == health.StandingDrained {
		order := v.Remembered.Drains[s.Name]
		return fmt.Errorf("%w: %s is drained for another %s (%s); -force puts this order in its place", ErrRefused, s.Name, Short(order.Until.Sub(now)), order.Reason)
	}
	return enough(v, s)
}

// enough refuses a drain that would leave too few servers.
func enough(v *reconciler.View, s fleet.Server) error {
	members := slices.Clone(v.Members)
	for i := range members {
		if members[i].Server == s.Name {
			members[i].Drained = "drained"
		}
	}
	after := health.Decide(v.Group.Below, members)
	need := max(1, v.Group.Below) // without a floor, too, nobody wants an empty group by accident
	if up := after.Count(health.StandingSolid); up < need {
		return fmt.Errorf("%w: without %s, group %s has %s surely up and needs %d%s; -force does it anyway",
			ErrRefused, s.Name, v.Group.Name, count(up, "server", "servers"), need, others(after, s.Name))
	}
	if name, found := deserted(v, s.Name, after); found {
		return fmt.Errorf("%w: without %s, users of target group %s would reach nobody: of those that are surely up none is past the load balancer's "+
			"first checks, which take minutes; -force does it anyway", ErrRefused, s.Name, name)
	}
	return nil
}

// deserted finds a target group that a server is in and without which users reach
// nobody who is surely up. One that was undrained a moment ago is up, as it was
// probed all the time, but the load balancer sends it nothing yet.
func deserted(v *reconciler.View, server string, after health.Decision) (name string, found bool) {
	if v.Group.Mode == fleet.Observe {
		return "", false // nothing leaves
	}
	for _, plan := range v.TargetGroups {
		if !slices.Contains(plan.Registered, server) {
			continue
		}
		if !slices.ContainsFunc(plan.Observed, func(l balancer.Listed) bool {
			verdict, _ := after.Verdict(l.Server)
			return verdict.Standing == health.StandingSolid && l.Registered() && l.State != elbv2types.TargetHealthStateEnumInitial
		}) {
			return TargetGroupName(plan.TargetGroup), true
		}
	}
	return "", false
}

// others says where the servers stand that are no help.
func others(d health.Decision, but string) string {
	var list []string
	for _, v := range d.Verdicts {
		if v.Server != but && v.Standing != health.StandingSolid {
			list = append(list, fmt.Sprintf("%s is %s", v.Server, v.Standing))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// find returns the server with the given name, or GROUP/NAME.
func (o *Operator) find(name string) (fleet.Group, fleet.Server, error) {
	var found []string
	var group fleet.Group
	var server fleet.Server
	for _, g := range o.Fleet.Groups {
		for _, s := range g.Servers {
			if full := g.Name + "/" + s.Name; s.Name == name || full == name {
				group, server = g, s
				found = append(found, full)
			}
		}
	}
	switch len(found) {
	case 0:
		return group, server, fmt.Errorf("server %q is not in the fleet; it has %s", name, strings.Join(ServerNames(o.Fleet), ", "))
	case 1:
		return group, server, nil
	}
	return group, server, fmt.Errorf("several groups have a server %q: name one of %s", name, strings.Join(found, ", "))
}

// ServerNames lists the servers of a fleet as an order may name them: with their
// group where several groups have one of the name.
func ServerNames(f *fleet.Fleet) []string {
	times := map[string]int{}
	for _, g := range f.Groups {
		for _, s := range g.Servers {
			times[s.Name]++
		}
	}
	var list []string
	for _, g := range f.Groups {
		for _, s := range g.Servers {
			if times[s.Name] > 1 {
				list = append(list, g.Name+"/"+s.Name)
			} else {
				list = append(list, s.Name)
			}
		}
	}
	return list
}

// await watches the reconciler carry out an order. It alone calls the load
// balancer, with its next batch of probe results, so that there is one at a time.
func (o *Operator) await(ctx context.Context, g fleet.Group, s fleet.Server, c Carried, at time.Time, wait time.Duration) (Carried, error) {
	c.TargetGroups = len(g.TargetGroups)
	for {
		v, err := o.Viewer.View(ctx, g)
		if err != nil {
			return c, fmt.Errorf("the order is given, but what became of it is not known: looking at group %s: %w", g.Name, err)
		}
		now := o.now()
		server := newServer(v, s, now, silent(v, now))
		c.Registered, c.Membership, c.TookSeconds = server.Registered, server.Membership, now.Sub(at).Seconds()
		if c.Done = carriedOut(server, len(g.TargetGroups)); c.Done {
			c.Note = ""
			if server.Membership != health.In && !c.Drained {
				c.Note = fmt.Sprintf("%s is %s: %s", s.Name, server.Standing, server.Next)
			}
			return c, nil
		}
		c.Note = obstacle(v, now)
		if wait == 0 || now.Sub(at) >= wait || g.Mode == fleet.Observe || silent(v, now) {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return c, nil // the order stands, and that is what is told
		case <-time.After(poll):
		}
	}
}

// carriedOut reports whether a server is in its target groups as it should be.
func carriedOut(s Server, targetGroups int) bool {
	switch s.Membership {
	case health.In:
		return s.Registered == targetGroups
	case health.Out:
		return s.Registered == 0
	}
	return true
}

// obstacle says why an order is not carried out yet.
func obstacle(v *reconciler.View, now time.Time) string {
	switch {
	case v.Group.Mode == fleet.Observe:
		return "the group is in observe mode, in which nothing is changed"
	case silent(v, now):
		return "the prober is silent, and without its results the reconciler does nothing; it obeys with the next one"
	case v.Remembered.Group.PassError != "":
		return "the last pass over the target groups failed: " + v.Remembered.Group.PassError
	}
	return "the reconciler obeys with its next pass"
}
