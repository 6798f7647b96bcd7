package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/health"
)

// Desired is what a target group should look like.
type Desired struct {
	Decision health.Decision
	Servers  []Resolution // every configured server of the group, in any order
	Prune    bool         // also deregister targets that no server owns
}

// Resolution is the target that stands for a server, or why there is none.
type Resolution struct {
	Server   string
	Target   Target // zero if Refused
	Refused  string // why the server cannot be resolved; empty if it is
	Zone     string // Availability Zone of its instance; empty if it is not known
	NotReady string // why the target cannot be registered now, though it may be deregistered; empty if it can
}

// Change is one target to be registered or deregistered, and why.
type Change struct {
	Target   Target          `json:"target"`
	Server   string          `json:"server,omitempty"`   // empty if no server owns the target
	Standing health.Standing `json:"standing,omitempty"` // of that server
	Serving  bool            `json:"serving,omitempty"`  // one to confirm is past the load balancer's first checks, so that users may reach it
	Reason   string          `json:"reason"`
}

// backs reports whether the server of the change, once registered, is one that
// the group can lean on.
func (c Change) backs() bool {
	return c.Standing == health.StandingSolid || c.Standing == health.StandingHoldDown
}

// needsFloor reports whether the target may only leave while enough others stay.
func (c Change) needsFloor() bool { return c.Standing != health.StandingDrained }

// Refusal is a server that cannot be put behind the load balancer as configured.
type Refusal struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// Listed is one target that the load balancer lists.
type Listed struct {
	Target Target `json:"target"`
	Server string `json:"server,omitempty"` // empty if no server owns the target
	TargetState
}

// Plan is what has to change in a target group, and what was seen and left
// alone. All lists are sorted, so equal inputs print equal plans.
type Plan struct {
	TargetGroup  string    `json:"target_group"` // ARN
	Register     []Change  `json:"register,omitempty"`
	Deregister   []Change  `json:"deregister,omitempty"`
	Confirm      []Change  `json:"confirm,omitempty"`    // registered and backing the group: registered again before a target leaves for its health
	Withheld     []Change  `json:"withheld,omitempty"`   // deregistrations that are wanted but would do harm
	Refused      []Refusal `json:"refused,omitempty"`    // servers that cannot be registered
	Unmanaged    []Target  `json:"unmanaged,omitempty"`  // registered, owned by no server
	Registered   []string  `json:"registered,omitempty"` // servers that were found registered
	Observed     []Listed  `json:"observed,omitempty"`
	EmptiedZones []string  `json:"emptied_zones,omitempty"` // Availability Zones that lose their last target: they leave the load balancer's DNS name
	Below        int       `json:"below"`                   // the floor: deregister nothing while fewer servers than this back the group; 0 is no floor
	Backing      int       `json:"backing"`                 // servers up or held down that are registered already and stay
}

// Empty reports whether there is nothing to call.
func (p Plan) Empty() bool {
	return len(p.Register) == 0 && len(p.Deregister) == 0
}

// NewPlan compares what is with what should be. It assumes that every
// registration will succeed; Client.Apply looks again when it knows.
func NewPlan(o Observation, d Desired) Plan {
	p := Plan{TargetGroup: o.ARN, Below: d.Decision.Below}
	owners := make(map[Target]string, len(d.Servers))
	zones := make(map[Target]string, len(d.Servers))
	var leaving []Change
	unresolved := "" // a server whose target is not known
	for _, r := range slices.SortedFunc(slices.Values(d.Servers), byServer) {
		if owner, taken := owners[r.Target]; taken && r.Refused == "" {
			r.Refused = fmt.Sprintf("%v is already the target of %s", r.Target, owner)
		}
		if r.Refused != "" {
			p.Refused = append(p.Refused, Refusal{r.Server, r.Refused})
			unresolved = r.Server
			continue
		}
		owners[r.Target], zones[r.Target] = r.Server, r.Zone
		registered := o.Registered(r.Target)
		if registered {
			p.Registered = append(p.Registered, r.Server)
		}
		state := o.States[r.Target]
		// A server without a verdict has no membership, which is as good as keep.
		v, _ := d.Decision.Verdict(r.Server)
		change := Change{Target: r.Target, Server: r.Server, Standing: v.Standing, Reason: v.Reason}
		switch {
		case registered && v.Membership == health.Out:
			leaving = append(leaving, change)
		case registered && change.backs() && !state.dead():
			change.Serving = state.State != elbv2types.TargetHealthStateEnumInitial
			p.Backing++
			p.Confirm = append(p.Confirm, change)
		case registered || v.Membership != health.In: // stays as it is
		case r.NotReady != "":
			p.Refused = append(p.Refused, Refusal{r.Server, r.NotReady})
		default:
			if state.State == elbv2types.TargetHealthStateEnumDraining {
				change.Reason += "; ends its draining"
			}
			p.Register = append(p.Register, change)
		}
	}

	for t, state := range o.States {
		owner, owned := owners[t]
		state.Zone = cmp.Or(state.Zone, zones[t])
		p.Observed = append(p.Observed, Listed{Target: t, Server: owner, TargetState: state})
		if owned || !state.Registered() {
			continue
		}
		p.Unmanaged = append(p.Unmanaged, t)
		change := Change{Target: t, Reason: "no configured server owns it"}
		switch {
		case !d.Prune:
		case unresolved != "":
			change.Reason += ", but it may be the target of " + unresolved
			p.Withheld = append(p.Withheld, change)
		default:
			leaving = append(leaving, change)
		}
	}

	allowed, withheld := guard(p.Below, slices.Concat(p.Confirm, p.Register), leaving)
	p.Deregister = allowed
	if p.Below == 0 || !slices.ContainsFunc(allowed, Change.needsFloor) {
		p.Confirm = nil
	}
	p.Withheld = append(p.Withheld, withheld...)
	for _, changes := range [][]Change{p.Register, p.Deregister, p.Confirm, p.Withheld} {
		slices.SortFunc(changes, byTarget)
	}
	p.EmptiedZones = emptied(o, zones, p)
	slices.SortFunc(p.Unmanaged, Target.Compare)
	slices.SortFunc(p.Observed, func(a, b Listed) int { return a.Target.Compare(b.Target) })
	return p
}

// emptied lists the zones in which the plan leaves no target. A load balancer
// without cross-zone balancing takes such a zone out of its DNS name, for all
// of its target groups.
func emptied(o Observation, zones map[Target]string, p Plan) []string {
	zone := func(t Target) string { return cmp.Or(o.States[t].Zone, zones[t]) }
	is := func(t Target) func(Change) bool { return func(c Change) bool { return c.Target == t } }
	stays := map[string]bool{"": true, "all": true}
	for t, state := range o.States {
		if state.Registered() && !slices.ContainsFunc(p.Deregister, is(t)) {
			stays[zone(t)] = true
		}
	}
	for _, c := range p.Register {
		stays[zone(c.Target)] = true
	}
	var list []string
	for _, c := range p.Deregister {
		if z := zone(c.Target); !stays[z] && !slices.Contains(list, z) {
			list = append(list, z)
		}
	}
	slices.Sort(list)
	return list
}

// guard splits deregistrations into those that may go and those that must wait.
// staying are the targets that are registered and stay, or have been registered
// now. As long as fewer than below of them back the group, nothing leaves but
// what an operator has drained: the NLB must not be left with less than the
// fail-open floor because a registration failed. Nor does anything leave before
// one of them is past the NLB's first checks, which take minutes: until then
// users reach only those that leave, and any answer is better than none.
func guard(below int, staying, leaving []Change) (allowed, withheld []Change) {
	backing, serving := 0, false
	for _, c := range staying {
		if c.backs() {
			backing++
			serving = serving || c.Serving
		}
	}
	for _, c := range leaving {
		switch {
		case below == 0 || !c.needsFloor():
		case backing < below:
			c.Reason = fmt.Sprintf("%s; but only %d registered servers are up or held down, the floor is %d", c.Reason, backing, below)
			withheld = append(withheld, c)
			continue
		case !serving:
			c.Reason += "; but those that are up or held down are not past the load balancer's first checks"
			withheld = append(withheld, c)
			continue
		}
		allowed = append(allowed, c)
	}
	return allowed, withheld
}

func byServer(a, b Resolution) int { return strings.Compare(a.Server, b.Server) }

func byTarget(a, b Change) int {
	return cmp.Or(a.Target.Compare(b.Target), strings.Compare(a.Server, b.Server))
}
