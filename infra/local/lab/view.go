package lab

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// history is how many transitions of a group a View holds.
const history = 10

// View is what an operator sees of the system.
type View []Group

// Group is what is to be seen of a group.
type Group struct {
	Name        string
	Mode        fleet.Mode
	Below       int
	Row         store.GroupRow     // zero before the first decision
	Servers     []Server           // in the order of the fleet
	Transitions []store.Transition // newest first
}

// Server is what is to be seen of a server.
type Server struct {
	Group, Name  string
	Address      netip.AddrPort // where it is probed
	State        health.State
	Probe        store.ProbeRow // zero before the first probe
	Registered   int            // in how many target groups
	TargetGroups int
	Fault        string // empty if the server is not the lab's
}

// In reports whether the server is in all of its target groups.
func (s Server) In() bool { return s.Registered == s.TargetGroups }

// Registered is how many servers are in all of their target groups.
func (g Group) Registered() int {
	n := 0
	for _, s := range g.Servers {
		if s.In() {
			n++
		}
	}
	return n
}

// View reads tables and target groups as they are now.
func (l *Lab) View(ctx context.Context) (View, error) {
	view := make(View, len(l.Fleet.Groups))
	for i, g := range l.Fleet.Groups {
		var err error
		if view[i], err = l.viewGroup(ctx, g); err != nil {
			return nil, fmt.Errorf("viewing group %s: %w", g.Name, err)
		}
	}
	return view, nil
}

func (l *Lab) viewGroup(ctx context.Context, g fleet.Group) (Group, error) {
	rows, err := l.Probes.Group(ctx, g.Name)
	if err != nil {
		return Group{}, err
	}
	remembered, err := l.Health.Group(ctx, g.Name)
	if err != nil {
		return Group{}, err
	}
	transitions, err := l.Health.Transitions(ctx, g.Name, history)
	if err != nil {
		return Group{}, err
	}
	observed := make([]balancer.Observation, len(g.TargetGroups))
	for i, tg := range g.TargetGroups {
		if observed[i], err = l.balancer.Observe(ctx, tg.ARN); err != nil {
			return Group{}, err
		}
	}

	view := Group{Name: g.Name, Mode: g.Mode, Below: g.Below, Row: remembered.Group, Transitions: transitions}
	for i, s := range g.Servers {
		check := worstCheck(s, remembered.States, rows)
		server := Server{
			Group: g.Name, Name: s.Name, Address: netip.AddrPortFrom(s.Address, check.Port),
			State: remembered.States[check.Row], Probe: rows[check.Row], TargetGroups: len(g.TargetGroups),
		}
		if server.State.Status == "" {
			server.State.Status = health.Unknown
		}
		for j, tg := range g.TargetGroups {
			if observed[j].Registered(targetOf(s, tg, observed[j].Port)) {
				server.Registered++
			}
		}
		if l.Faults() {
			server.Fault = l.servers[i].Fault().String()
		}
		view.Servers = append(view.Servers, server)
	}
	return view, nil
}

// worstCheck is the check of a server to show: the first that is not up or is
// failing, or else its first.
func worstCheck(s fleet.Server, states map[string]health.State, rows map[string]store.ProbeRow) fleet.Probe {
	for _, c := range s.Checks {
		if states[c.Row].Status != health.Up || rows[c.Row].ConsecutiveFailures > 0 {
			return c
		}
	}
	return s.Checks[0]
}

// targetOf is the target that stands for a server in a target group of type ip.
func targetOf(s fleet.Server, tg fleet.TargetGroup, groupPort int32) balancer.Target {
	port := int32(tg.Port)
	if port == 0 {
		port = groupPort
	}
	return balancer.Target{ID: s.Address.String(), Port: port}
}

// RemoveTarget deregisters a server from all target groups of its group, as
// somebody might do by hand in the console.
func (l *Lab) RemoveTarget(ctx context.Context, group, server string) error {
	g, _ := l.Fleet.Group(group)
	s, ok := g.Server(server)
	if !ok {
		return fmt.Errorf("removing a target: there is no server %s/%s", group, server)
	}
	for _, tg := range g.TargetGroups {
		o, err := l.balancer.Observe(ctx, tg.ARN)
		if err != nil {
			return err
		}
		t := targetOf(s, tg, o.Port)
		_, err = l.elbv2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{
			TargetGroupArn: &tg.ARN, Targets: []elbv2types.TargetDescription{{Id: &t.ID, Port: &t.Port}},
		})
		if err != nil {
			return fmt.Errorf("deregistering %v by hand: %w", t, err)
		}
	}
	return nil
}

// Servers lists the servers of all groups, in the order of the fleet.
func (v View) Servers() []Server {
	var all []Server
	for _, g := range v {
		all = slices.Concat(all, g.Servers)
	}
	return all
}
