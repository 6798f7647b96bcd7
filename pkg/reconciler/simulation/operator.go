package simulation

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

const vpc = "vpc-1"

// drawFleet makes the first fleet and the world it describes.
func (w *world) drawFleet() *fleet.Fleet {
	f := &fleet.Fleet{Version: "v1"}
	for i := range 1 + w.rng.IntN(4)/3 {
		g := fleet.Group{
			Name: fmt.Sprintf("g%d", i), Mode: fleet.Enforce, Prune: w.rng.IntN(5) == 0,
			ReconcileInterval: pick(w.rng, 10*time.Second, 30*time.Second),
			Health:            health.Policy{FailureThreshold: pick(w.rng, 1, 2, 3, 3), HoldDown: pick(w.rng, 15*time.Second, 40*time.Second, 2*time.Minute)},
		}
		g.Health.HoldDownMax = g.Health.HoldDown * time.Duration(pick(w.rng, 1, 2))
		n := pick(w.rng, 1, 2, 2, 3, 3, 4)
		g.Below = pick(w.rng, 1, 1, 1, 0, n, 1+n/2)
		interval := pick(w.rng, 10*time.Second, 15*time.Second, 30*time.Second)
		for range n {
			g.Servers = append(g.Servers, w.drawServer(interval))
		}
		for j := range 1 + w.rng.IntN(3)/2 {
			arn := fmt.Sprintf("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/g%d-%d/0123456789abcdef", i, j)
			g.TargetGroups = append(g.TargetGroups, fleet.TargetGroup{ARN: arn, Port: uint16(1812 + j)})
			w.cloud.types[arn] = pick(w.rng, elbv2types.TargetTypeEnumIp, elbv2types.TargetTypeEnumInstance)
			w.makeTargetGroup(arn)
		}
		f.Groups = append(f.Groups, g)
	}
	for _, g := range f.Groups {
		for _, s := range g.Servers {
			w.makeInstance(s.Address.String())
		}
	}
	return f
}

// drawServer makes a server at an address that nobody has had.
func (w *world) drawServer(interval time.Duration) fleet.Server {
	n := len(w.machines) + 1
	name := "s" + strconv.Itoa(n)
	s := fleet.Server{
		Name: name, Address: netip.AddrFrom4([4]byte{10, 0, 1, byte(n)}), Admin: fleet.AdminAuto,
		Checks: []fleet.Probe{{
			Row: name, Port: 1812, Interval: interval, FastInterval: time.Second, AttemptTimeout: 500 * time.Millisecond, Attempts: 2,
			Criteria: health.Criteria{HealthyOn: []health.Outcome{health.Accept}, FailureOn: []health.Outcome{health.Reject, health.Timeout, health.Refused}},
		}},
	}
	w.machines[s.Address.String()] = &machine{}
	return s
}

func (w *world) makeTargetGroup(arn string) {
	w.cloud.AddTargetGroup(balancertest.TargetGroup{
		ARN: arn, Type: w.cloud.types[arn], Port: 1812, Protocol: elbv2types.ProtocolEnumUdp, VPCID: vpc,
		DeregistrationDelay: 2 * time.Minute, InitialDelay: firstChecks,
	})
}

// makeInstance runs a new instance at an address.
func (w *world) makeInstance(address string) {
	if w.machines[address].instance != "" {
		w.setInstance(address, ec2types.InstanceStateNameTerminated)
	}
	w.cloud.launched++
	id := "i-" + strconv.Itoa(w.cloud.launched)
	w.machines[address].instance, w.machines[address].stopped = id, false
	w.cloud.owners[id] = address
	w.setInstance(address, ec2types.InstanceStateNameRunning)
}

func (w *world) setInstance(address string, state ec2types.InstanceStateName) {
	w.cloud.SetInstance(balancertest.Instance{ID: w.machines[address].instance, VPCID: vpc, Primary: address, State: state})
}

// mishap lets things happen that no call brings about, every few seconds.
func (w *world) mishap() {
	if len(w.weather) == 0 {
		return
	}
	w.after(w.between(time.Second, 20*time.Second), w.mishap)
	for _, m := range []struct {
		fault Fault
		do    func()
	}{
		{ServerFailed, w.failServer},
		{CommonCause, w.failAll},
		{ClockStep, func() { w.prober.offset = w.between(-90*time.Second, 90*time.Second) }},
		{ShardSplit, w.splitShard},
		{TargetInvalid, w.refuseTarget},
		{TargetGroupDeleted, w.deleteTargetGroup},
		{InstanceStopped, w.stopInstance},
		{InstanceReplaced, w.replaceInstance},
		{DriftRemoved, w.removeTarget},
		{DriftAdded, w.addTarget},
		{ForeignTarget, func() {
			g := w.drawGroup()
			tg := pick(w.rng, g.TargetGroups...)
			w.cloud.put(place{tg.ARN, "10.9.9." + strconv.Itoa(1+w.rng.IntN(3)), int32(tg.Port)})
		}},
		{Drained, w.drain},
		{FleetChanged, w.changeFleet},
	} {
		if w.strikes(m.fault) {
			m.do()
		}
	}
}

func (w *world) drawGroup() fleet.Group { return pick(w.rng, w.current().Groups...) }

// drawAddress draws the address of a server of the current fleet.
func (w *world) drawAddress() string {
	return pick(w.rng, w.drawGroup().Servers...).Address.String()
}

func (w *world) drawOutcome() health.Outcome {
	return pick(w.rng, health.Reject, health.Timeout, health.Refused, health.Challenge, health.ProberError)
}

func (w *world) failServer() {
	m := w.machines[w.drawAddress()]
	m.fails = w.drawOutcome()
	w.after(w.between(time.Second, 4*time.Minute), func() { m.fails = "" })
}

// failAll is a directory that is gone: it reaches the servers seconds apart.
func (w *world) failAll() {
	lasts := w.between(5*time.Second, 2*time.Minute)
	outcome := w.drawOutcome()
	for _, s := range w.drawGroup().Servers {
		m := w.machines[s.Address.String()]
		w.after(w.between(0, 8*time.Second), func() { m.fails = outcome })
		w.after(lasts+w.between(8*time.Second, 16*time.Second), func() { m.fails = "" })
	}
}

// splitShard moves a group's records to a shard of their own.
func (w *world) splitShard() {
	parent := pick(w.rng, w.shards...)
	if len(parent.groups) == 0 {
		return
	}
	last := len(parent.groups) - 1
	w.shards = append(w.shards, &shard{world: w, groups: []string{parent.groups[last]}, behind: parent})
	parent.groups = parent.groups[:last]
}

func (w *world) refuseTarget() {
	id := w.drawAddress()
	if w.rng.IntN(2) == 0 {
		id = w.machines[id].instance
	}
	w.cloud.SetInvalid(id, true)
	w.after(w.between(time.Second, 2*time.Minute), func() { w.cloud.SetInvalid(id, false) })
}

func (w *world) deleteTargetGroup() {
	arn := pick(w.rng, w.drawGroup().TargetGroups...).ARN
	w.cloud.RemoveTargetGroup(arn)
	w.after(w.between(time.Second, time.Minute), func() { w.makeTargetGroup(arn) })
}

func (w *world) stopInstance() {
	address := w.drawAddress()
	m := w.machines[address]
	m.fails = health.Timeout
	id := m.instance
	m.stopped = true
	w.setInstance(address, ec2types.InstanceStateNameStopped)
	w.after(w.between(10*time.Second, 2*time.Minute), func() {
		if m.instance == id { // else it was terminated meanwhile
			w.setInstance(address, ec2types.InstanceStateNameRunning)
			m.stopped, m.fails = false, ""
		}
	})
}

// replaceInstance terminates an instance; a new one takes its address over.
func (w *world) replaceInstance() {
	address := w.drawAddress()
	m := w.machines[address]
	w.setInstance(address, ec2types.InstanceStateNameTerminated)
	m.stopped, m.fails = true, health.Timeout
	w.after(w.between(time.Second, 90*time.Second), func() {
		w.makeInstance(address)
		m.fails = ""
	})
}

// put lists a target as somebody else registered it.
func (c *cloud) put(p place) {
	if len(c.Targets(p.arn)) == 0 {
		return // the target group may be gone
	}
	c.Put(p.arn, balancertest.Target{ID: p.id, Port: p.port, State: elbv2types.TargetHealthStateEnumHealthy})
}

// drawTarget draws a server's target.
func (w *world) drawTarget() (place, bool) {
	g := w.drawGroup()
	return w.cloud.targetOf(pick(w.rng, g.TargetGroups...), pick(w.rng, g.Servers...))
}

func (w *world) removeTarget() {
	if p, known := w.drawTarget(); known && w.cloud.has(p) {
		w.cloud.Remove(p.arn, p.id, p.port)
	}
}

func (w *world) addTarget() {
	if p, known := w.drawTarget(); known {
		w.cloud.put(p)
	}
}

func (w *world) drain() {
	g := w.drawGroup()
	s := pick(w.rng, g.Servers...)
	w.setDrain(g.Name, s.Name, &store.Drain{Until: w.now.Add(w.between(10*time.Second, 2*time.Minute)), Reason: "patching"})
}

// changeFleet rolls out another version of fleet.yaml.
func (w *world) changeFleet() {
	old := w.current()
	f := &fleet.Fleet{Version: "v" + strconv.Itoa(len(w.fleets)+1), Groups: slices.Clone(old.Groups)}
	for i := range f.Groups {
		f.Groups[i].Servers = slices.Clone(f.Groups[i].Servers)
	}
	i := w.rng.IntN(len(f.Groups))
	g := &f.Groups[i]
	j := w.rng.IntN(len(g.Servers))
	change := pick(w.rng, "add", "remove", "rename", "re-address", "move", "remove group", "mode", "prune", "admin", "below", "policy")
	switch change {
	case "add":
		s := w.drawServer(g.Servers[0].Checks[0].Interval)
		w.makeInstance(s.Address.String())
		g.Servers = append(g.Servers, s)
	case "remove":
		if len(g.Servers) > 1 {
			g.Servers = slices.Delete(g.Servers, j, j+1)
		}
	case "rename":
		g.Servers[j].Name += "x"
		g.Servers[j].Checks = slices.Clone(g.Servers[j].Checks)
		g.Servers[j].Checks[0].Row = g.Servers[j].Name
	case "re-address":
		s := w.drawServer(g.Servers[j].Checks[0].Interval)
		w.makeInstance(s.Address.String())
		if w.rng.IntN(2) == 0 {
			w.machines[s.Address.String()].fails = health.Timeout // not in service yet
			w.after(w.between(time.Second, 2*time.Minute), func() { w.machines[s.Address.String()].fails = "" })
		}
		g.Servers[j].Address = s.Address
	case "move":
		if to := &f.Groups[(i+1)%len(f.Groups)]; len(f.Groups) > 1 && len(g.Servers) > 1 {
			to.Servers = append(to.Servers, g.Servers[j])
			g.Servers = slices.Delete(g.Servers, j, j+1)
		}
	case "remove group":
		if len(f.Groups) > 1 {
			f.Groups = slices.Delete(f.Groups, i, i+1)
			g = &f.Groups[0]
		}
	case "mode":
		g.Mode = pick(w.rng, fleet.Enforce, fleet.Observe)
	case "prune":
		g.Prune = !g.Prune
	case "admin":
		g.Servers[j].Admin = pick(w.rng, fleet.AdminAuto, fleet.AdminOut)
	case "below":
		g.Below = w.rng.IntN(len(g.Servers) + 1)
	case "policy":
		g.Health.FailureThreshold = 1 + w.rng.IntN(3)
		w.policyChanged = true
	}
	// A floor above what can serve is an error of the configuration.
	for k := range f.Groups {
		able := 0
		for _, s := range f.Groups[k].Servers {
			if s.Admin != fleet.AdminOut {
				able++
			}
		}
		f.Groups[k].Below = min(f.Groups[k].Below, able)
	}
	w.tracef("fleet %s: %s in %s", f.Version, change, g.Name)
	w.fleets = append(w.fleets, f)
	w.rolling = w.now.Add(w.between(0, 90*time.Second))
}
