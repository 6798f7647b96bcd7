package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

const vpc = "vpc-1"

// rig is a client in front of the fake, on a clock that the test moves.
type rig struct {
	t      *testing.T
	aws    *balancertest.AWS
	client *balancer.Client
	now    time.Time
	group  fleet.Group
	tg     fleet.TargetGroup
}

// newRig makes a rig with one target group. What the test leaves out is as in
// the most common group: addresses, UDP, port 1812.
func newRig(t *testing.T, tg balancertest.TargetGroup) *rig {
	r := &rig{t: t, now: newest, tg: fleet.TargetGroup{ARN: arn}}
	clock := func() time.Time { return r.now }
	r.aws = balancertest.New(clock)
	r.client = &balancer.Client{ELBv2: r.aws, EC2: r.aws, Now: clock}
	tg.ARN, tg.VPCID, tg.Protocol = arn, vpc, elbv2types.ProtocolEnumUdp
	if tg.Port == 0 {
		tg.Port = 1812
	}
	r.aws.AddTargetGroup(tg)
	return r
}

// server adds a server.
func (r *rig) server(name, address string) {
	r.group.Servers = append(r.group.Servers, fleet.Server{Name: name, Address: netip.MustParseAddr(address)})
}

// put registers a target, healthy, on port 1812.
func (r *rig) put(id string) {
	r.aws.Put(arn, balancertest.Target{ID: id, Port: 1812, State: elbv2types.TargetHealthStateEnumHealthy})
}

// plan must succeed.
func (r *rig) plan(d health.Decision) balancer.Plan {
	r.t.Helper()
	p, err := r.client.Plan(context.Background(), r.group, r.tg, d)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// pass plans and applies, and must succeed.
func (r *rig) pass(d health.Decision) balancer.Result {
	r.t.Helper()
	result, err := r.client.Apply(context.Background(), r.plan(d))
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// listed is what the load balancer lists.
func (r *rig) listed() []string {
	var ids []string
	for _, t := range r.aws.Targets(arn) {
		ids = append(ids, fmt.Sprintf("%s:%d %s", t.ID, t.Port, t.State))
	}
	return ids
}

// changes counts the calls that change something.
func (r *rig) changes() int {
	return r.aws.Count(balancertest.RegisterTargets, balancertest.DeregisterTargets)
}

// sizes lists how many targets each call of an operation named.
func (r *rig) sizes(operation string) []int {
	var sizes []int
	for _, call := range r.aws.Calls(operation) {
		switch in := call.Input.(type) {
		case *elbv2.RegisterTargetsInput:
			sizes = append(sizes, len(in.Targets))
		case *elbv2.DeregisterTargetsInput:
			sizes = append(sizes, len(in.Targets))
		}
	}
	return sizes
}

// decide makes a decision of verdicts "server up", "server down" and so on.
func decide(below int, verdicts ...string) health.Decision {
	d := health.Decision{Below: below}
	for _, v := range verdicts {
		server, word, _ := strings.Cut(v, " ")
		switch standing := health.Standing(word); standing {
		case health.StandingSolid:
			d.Verdicts = append(d.Verdicts, verdict(server, health.In, standing))
		default:
			d.Verdicts = append(d.Verdicts, verdict(server, health.Out, standing))
		}
	}
	return d
}

func TestObserve(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Port: 1645})
	r.aws.Put(arn, balancertest.Target{ID: "2001:DB8:0::1", Port: 1812, State: elbv2types.TargetHealthStateEnumHealthy})
	r.aws.Put(arn, balancertest.Target{ID: "10.0.1.10", State: elbv2types.TargetHealthStateEnumUnused, Reason: elbv2types.TargetHealthReasonEnumNotInUse})
	o, err := r.client.Observe(context.Background(), arn)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "observation", o, balancer.Observation{
		TargetGroup: balancer.TargetGroup{ARN: arn, Type: elbv2types.TargetTypeEnumIp, Port: 1645, Protocol: elbv2types.ProtocolEnumUdp, VPCID: vpc},
		States: map[balancer.Target]balancer.TargetState{
			{ID: "2001:db8::1", Port: 1812}: healthy,
			{ID: "10.0.1.10", Port: 1645}:   notInUse,
		},
	})
}

func TestObserveErrors(t *testing.T) {
	ctx := context.Background()
	for _, typ := range []elbv2types.TargetTypeEnum{elbv2types.TargetTypeEnumAlb, elbv2types.TargetTypeEnumLambda} {
		r := newRig(t, balancertest.TargetGroup{Type: typ})
		if _, err := r.client.Observe(ctx, arn); !errors.Is(err, balancer.ErrTargetType) {
			t.Errorf("%s: %v", typ, err)
		}
	}
	r := newRig(t, balancertest.TargetGroup{})
	_, err := r.client.Observe(ctx, "arn:other")
	if _, typed := errors.AsType[*elbv2types.TargetGroupNotFoundException](err); !typed || !errors.Is(err, balancer.ErrTargetGroupNotFound) {
		t.Errorf("unknown group: %v", err)
	}
	r.pass(decide(0))
	r.aws.RemoveTargetGroup(arn)
	if _, err := r.client.Observe(ctx, arn); !errors.Is(err, balancer.ErrTargetGroupNotFound) {
		t.Errorf("group deleted meanwhile: %v", err)
	}
	if _, err := r.client.Apply(ctx, balancer.Plan{TargetGroup: arn, Register: []balancer.Change{{Target: at("10.0.1.10")}}}); !errors.Is(err, balancer.ErrTargetGroupNotFound) {
		t.Errorf("group deleted before the call: %v", err)
	}
	// Some answer an unknown group with an empty list.
	empty := &balancer.Client{ELBv2: noGroups{r.aws}}
	if _, err := empty.Plan(ctx, fleet.Group{}, fleet.TargetGroup{ARN: arn}, decide(0)); !errors.Is(err, balancer.ErrTargetGroupNotFound) {
		t.Errorf("empty answer: %v", err)
	}
}

// noGroups finds no target group, and does not call that an error.
type noGroups struct{ balancer.ELBv2 }

func (noGroups) DescribeTargetGroups(context.Context, *elbv2.DescribeTargetGroupsInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error) {
	return new(elbv2.DescribeTargetGroupsOutput), nil
}

// F03: the call names the exact port, which need not be the group's.
func TestPortOfTheCall(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Port: 1812, DeregistrationDelay: time.Minute})
	r.server("ise-1", "10.0.1.10")
	r.tg.Port = 11812
	r.put("10.0.1.10")
	r.pass(decide(0, "ise-1 up"))
	same(t, "up", r.listed(), []string{"10.0.1.10:1812 healthy", "10.0.1.10:11812 healthy"})
	r.pass(decide(0, "ise-1 down"))
	same(t, "down", r.listed(), []string{"10.0.1.10:1812 healthy", "10.0.1.10:11812 draining"})
}

// F04: a draining target is out, and comes back by being registered.
func TestDraining(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{DeregistrationDelay: 5 * time.Minute, InitialDelay: 2 * time.Minute})
	r.server("ise-1", "10.0.1.10")
	r.put("10.0.1.10")
	r.pass(decide(0, "ise-1 down"))
	same(t, "failing", r.listed(), []string{"10.0.1.10:1812 draining"})

	r.now = r.now.Add(time.Minute)
	r.aws.ResetCalls()
	r.pass(decide(0, "ise-1 down"))
	if n := r.changes(); n != 0 {
		t.Errorf("still failing: %d calls", n)
	}
	r.pass(decide(0, "ise-1 up"))
	same(t, "recovered", r.listed(), []string{"10.0.1.10:1812 initial"})
	r.now = r.now.Add(10 * time.Minute)
	same(t, "later", r.listed(), []string{"10.0.1.10:1812 healthy"})
}

// F13 and P8: a group at rest is only looked at.
func TestSteadyGroupMakesNoChange(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{})
	r.server("ise-1", "10.0.1.10")
	r.server("ise-2", "10.0.1.11")
	r.put("10.0.1.10")
	r.put("10.0.1.99")
	for range 100 {
		r.pass(decide(1, "ise-1 up", "ise-2 down"))
	}
	same(t, "calls that change", r.changes(), 0)
	same(t, "DescribeTargetGroups", r.aws.Count(balancertest.DescribeTargetGroups), 1)
	same(t, "DescribeTargetHealth", r.aws.Count(balancertest.DescribeTargetHealth), 100)
	same(t, "all calls", r.aws.Count(), 101)
}

// F13: throttling is an error, not a loop, and leaves one effective change.
func TestThrottled(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{})
	r.server("ise-1", "10.0.1.10")
	d := decide(1, "ise-1 up")
	r.aws.Throttle(balancertest.RegisterTargets, 3)
	for i := range 3 {
		result, err := r.client.Apply(context.Background(), r.plan(d))
		if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "Throttling" {
			t.Errorf("error %v", err)
		}
		if !strings.Contains(err.Error(), "changing targets of "+arn+": registering: ") || strings.Count(err.Error(), "Rate exceeded") != 1 {
			t.Errorf("error text %q", err)
		}
		if len(result.Failed) != 1 || result.Failed[0].Change.Server != "ise-1" || len(result.Registered) != 0 || result.OnlyRefusals() {
			t.Errorf("result %+v", result)
		}
		same(t, "calls", r.aws.Count(balancertest.RegisterTargets), i+1)
	}
	if result := r.pass(d); result.OnlyRefusals() {
		t.Error("a success is taken for a refusal")
	}
	r.pass(d)
	same(t, "calls", r.aws.Count(balancertest.RegisterTargets), 4)
	same(t, "listed", r.listed(), []string{"10.0.1.10:1812 healthy"})
}

func TestObserveThrottled(t *testing.T) {
	for _, operation := range []string{balancertest.DescribeTargetGroups, balancertest.DescribeTargetHealth} {
		r := newRig(t, balancertest.TargetGroup{})
		r.aws.Throttle(operation, 1)
		if _, err := r.client.Plan(context.Background(), r.group, r.tg, decide(0)); err == nil || !strings.Contains(err.Error(), "Rate exceeded") {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

// many adds n servers, s0 on, with the addresses 10.1.0.0 on.
func (r *rig) many(n int) (names, addresses []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("s%d", i))
		addresses = append(addresses, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
		r.server(names[i], addresses[i])
	}
	return names, addresses
}

func all(names []string, standing health.Standing) health.Decision {
	var verdicts []string
	for _, name := range names {
		verdicts = append(verdicts, name+" "+string(standing))
	}
	return decide(0, verdicts...)
}

func TestChunks(t *testing.T) {
	for n, want := range map[int][]int{0: nil, 1: {1}, 199: {199}, 200: {200}, 201: {200, 1}, 401: {200, 200, 1}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t, balancertest.TargetGroup{})
			names, _ := r.many(n)
			r.pass(all(names, health.StandingSolid))
			same(t, "register", r.sizes(balancertest.RegisterTargets), want)
			same(t, "registered", len(r.listed()), n)
			r.pass(all(names, health.StandingDown))
			same(t, "deregister", r.sizes(balancertest.DeregisterTargets), want)
			same(t, "registered", len(r.listed()), 0)
		})
	}
}

// One bad target is named and does not keep the others out.
func TestInvalidTarget(t *testing.T) {
	for _, n := range []int{1, 2, 5, 200, 201} {
		for _, bad := range []int{0, n / 2, n - 1} {
			t.Run(fmt.Sprintf("%d of %d", bad, n), func(t *testing.T) {
				r := newRig(t, balancertest.TargetGroup{})
				names, addresses := r.many(n)
				r.aws.SetInvalid(addresses[bad], true)
				result, err := r.client.Apply(context.Background(), r.plan(all(names, health.StandingSolid)))
				same(t, "registered", len(result.Registered), n-1)
				same(t, "listed", len(r.listed()), n-1)
				if len(result.Failed) != 1 || result.Failed[0].Change.Server != names[bad] {
					t.Fatalf("failed: %v", result.Failed)
				}
				failed, ok := errors.AsType[*balancer.TargetError](err)
				if !ok || failed.Change.Target != at(addresses[bad]) {
					t.Errorf("error %v", err)
				}
				if _, ok := errors.AsType[*elbv2types.InvalidTargetException](err); !ok {
					t.Errorf("error without its cause: %v", err)
				}
				if want := fmt.Sprintf("registering %s:1812 (%s): ", addresses[bad], names[bad]); !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name the target", err)
				}
				if !result.OnlyRefusals() {
					t.Error("a refusal is not seen as one")
				}
				if calls := r.aws.Count(balancertest.RegisterTargets); calls > 20 {
					t.Errorf("%d calls to find one bad target", calls)
				}
			})
		}
	}
}

func TestTooManyTargets(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{MaxTargets: 3})
	names, _ := r.many(5)
	result, err := r.client.Apply(context.Background(), r.plan(all(names, health.StandingSolid)))
	if _, ok := errors.AsType[*elbv2types.TooManyTargetsException](err); !ok {
		t.Errorf("error %v", err)
	}
	same(t, "registered", len(result.Registered), 3)
	same(t, "failed", len(result.Failed), 2)
	same(t, "listed", len(r.listed()), 3)
}

func TestTooManyRegistrations(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{})
	names, _ := r.many(3)
	r.aws.Fail(balancertest.RegisterTargets, 2, &elbv2types.TooManyRegistrationsForTargetIdException{})
	result, err := r.client.Apply(context.Background(), r.plan(all(names, health.StandingSolid)))
	if failed, ok := errors.AsType[*balancer.TargetError](err); !ok || failed.Change.Server != "s0" {
		t.Errorf("error %v", err)
	}
	same(t, "registered", idsOf(result.Registered), []string{"10.1.0.1", "10.1.0.2"})
}

// An error of the API ends an action at once, and spares it the other calls.
func TestAPIErrorEndsTheAction(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{})
	names, addresses := r.many(450)
	r.put("10.0.1.99")
	r.group.Prune = true
	r.aws.SetInvalid(addresses[0], true)
	r.aws.Fail(balancertest.RegisterTargets, 1, &elbv2types.InvalidTargetException{})
	r.aws.Throttle(balancertest.RegisterTargets, 1)
	result, err := r.client.Apply(context.Background(), r.plan(all(names, health.StandingSolid)))
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "Throttling" {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(err.Error(), "Rate exceeded"); n != 1 {
		t.Errorf("cause named %d times", n)
	}
	same(t, "calls", r.sizes(balancertest.RegisterTargets), []int{200, 100})
	same(t, "failed", len(result.Failed), 450)
	same(t, "deregistered", idsOf(result.Deregistered), []string{"10.0.1.99"})
}

// What leaves depends on the registrations that really succeeded.
func TestFailedRegistrationHoldsBack(t *testing.T) {
	tests := []struct {
		name                   string
		d                      health.Decision
		deregistered, withheld []string
	}{
		{"enough without it", decide(1, "a up", "b down", "c up"), []string{"10.0.1.2"}, nil},
		{"one short without it", decide(2, "a up", "b down", "c up"), nil, []string{"10.0.1.2"}},
		{"drained by an operator", decide(1, "a up", "b drained"), []string{"10.0.1.2"}, nil},
		{"fail closed", decide(0, "a up", "b down"), []string{"10.0.1.2"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, balancertest.TargetGroup{})
			r.server("a", "10.0.1.1")
			r.server("b", "10.0.1.2")
			r.server("c", "10.0.1.3")
			r.put("10.0.1.2")
			r.put("10.0.1.3")
			r.aws.SetInvalid("10.0.1.1", true)
			p := r.plan(tt.d)
			same(t, "planned", idsOf(p.Deregister), []string{"10.0.1.2"})
			result, err := r.client.Apply(context.Background(), p)
			if err == nil {
				t.Error("no error")
			}
			same(t, "deregistered", idsOf(result.Deregistered), tt.deregistered)
			same(t, "withheld", idsOf(result.Withheld), tt.withheld)
			for _, c := range result.Withheld {
				if !strings.HasPrefix(c.Reason, "down; but only ") {
					t.Errorf("reason %q", c.Reason)
				}
			}
			same(t, "changes", r.aws.Count(balancertest.DeregisterTargets), len(tt.deregistered))

			r.aws.SetInvalid("10.0.1.1", false)
			r.pass(tt.d)
			if p := r.plan(tt.d); !p.Empty() {
				t.Errorf("not at rest: %+v", p)
			}
		})
	}
}

// A deregistration that fails is named, with the target nobody owns.
func TestDeregisterFails(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{})
	r.put("10.0.1.99")
	r.group.Prune = true
	r.aws.Fail(balancertest.DeregisterTargets, 1, &elbv2types.InvalidTargetException{})
	_, err := r.client.Apply(context.Background(), r.plan(decide(0)))
	if err == nil || !strings.Contains(err.Error(), ": deregistering 10.0.1.99:1812: InvalidTarget") {
		t.Errorf("error %v", err)
	}
}

func TestResolveAddresses(t *testing.T) {
	tests := []struct {
		typ     elbv2types.TargetGroupIpAddressTypeEnum
		address string
		id      string
		refused string
	}{
		{"", "10.0.1.10", "10.0.1.10", ""},
		{"", "2001:DB8:0::1", "2001:db8::1", ""},
		{"ipv4", "::ffff:10.0.1.10", "10.0.1.10", ""},
		{"ipv4", "2001:db8::1", "", "2001:db8::1 does not fit the target group, which takes ipv4 addresses"},
		{"ipv6", "2001:db8::1", "2001:db8::1", ""},
		{"ipv6", "10.0.1.10", "", "10.0.1.10 does not fit the target group, which takes ipv6 addresses"},
	}
	for _, tt := range tests {
		r := newRig(t, balancertest.TargetGroup{IPAddressType: tt.typ})
		r.server("ise-1", tt.address)
		p := r.plan(decide(0, "ise-1 up"))
		if tt.refused != "" {
			same(t, tt.address, p.Refused, []balancer.Refusal{{Server: "ise-1", Reason: tt.refused}})
		} else {
			same(t, tt.address, p.Register, []balancer.Change{{Target: at(tt.id), Server: "ise-1", Standing: "up", Reason: "up"}})
		}
	}
}

func TestResolveInstances(t *testing.T) {
	running := balancertest.Instance{ID: "i-1", VPCID: vpc, Primary: "10.0.1.10", Secondary: []string{"10.0.1.11"}}
	with := func(i balancertest.Instance, change func(*balancertest.Instance)) balancertest.Instance {
		change(&i)
		return i
	}
	inState := func(id string, s ec2types.InstanceStateName) balancertest.Instance {
		return with(running, func(i *balancertest.Instance) { i.ID, i.State = id, s })
	}
	tests := []struct {
		name      string
		address   string
		instances []balancertest.Instance
		id        string
		refused   string
	}{
		{"primary address", "10.0.1.10", []balancertest.Instance{running}, "i-1", ""},
		{"mapped address", "::ffff:10.0.1.10", []balancertest.Instance{running}, "i-1", ""},
		{"secondary address", "10.0.1.11", []balancertest.Instance{running}, "",
			"10.0.1.11 is a secondary address of i-1; an instance target is served on its primary address 10.0.1.10: use an ip target group"},
		{"IPv6 address", "2001:db8::1", []balancertest.Instance{running}, "",
			"2001:db8::1 is not an IPv4 address, and instance targets are served on those only: use an ip target group"},
		{"nobody", "10.0.1.12", []balancertest.Instance{running}, "", "no instance in vpc-1 has the address 10.0.1.12"},
		{"another VPC", "10.0.1.10", []balancertest.Instance{with(running, func(i *balancertest.Instance) { i.VPCID = "vpc-2" })}, "",
			"no instance in vpc-1 has the address 10.0.1.10"},
		{"terminated", "10.0.1.10", []balancertest.Instance{inState("i-1", "terminated")}, "", "no instance in vpc-1 has the address 10.0.1.10"},
		{"stopped", "10.0.1.10", []balancertest.Instance{inState("i-1", "stopped")}, "", "i-1 is stopped, only a running instance can be registered"},
		{"pending", "10.0.1.10", []balancertest.Instance{inState("i-1", "pending")}, "", "i-1 is pending, only a running instance can be registered"},
		{"replaced", "10.0.1.10", []balancertest.Instance{inState("i-0", "stopping"), running, inState("i-2", "terminated")}, "i-1", ""},
		{"two that run", "10.0.1.10", []balancertest.Instance{inState("i-2", "running"), running}, "", "10.0.1.10 belongs to several instances: i-1, i-2"},
		{"two that stopped", "10.0.1.10", []balancertest.Instance{inState("i-2", "stopped"), inState("i-3", "stopped")}, "", "10.0.1.10 belongs to several instances: i-2, i-3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
			r.aws.SetPageSize(1)
			for _, i := range tt.instances {
				r.aws.SetInstance(i)
			}
			r.server("ise-1", tt.address)
			p := r.plan(decide(0, "ise-1 up"))
			var refused []balancer.Refusal
			if tt.refused != "" {
				refused = []balancer.Refusal{{Server: "ise-1", Reason: tt.refused}}
			}
			same(t, "refused", p.Refused, refused)
			var register []string
			if tt.id != "" {
				register = []string{tt.id}
			}
			same(t, "register", idsOf(p.Register), register)
			if _, err := r.client.Apply(context.Background(), p); err != nil {
				t.Errorf("applying: %v", err)
			}
		})
	}
}

// An instance that stopped keeps its address and its registration.
func TestStoppedInstanceLeaves(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
	r.aws.SetInstance(balancertest.Instance{ID: "i-1", VPCID: vpc, Primary: "10.0.1.10", State: "stopped"})
	r.server("ise-1", "10.0.1.10")
	r.put("i-1")
	same(t, "deregistered", idsOf(r.pass(decide(0, "ise-1 down")).Deregistered), []string{"i-1"})
}

// A list of targets that is seconds old may show a target that has just left.
// What the floor rests on is registered again before anything leaves.
func TestTheFloorRestsOnNoOldList(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{})
	r.server("ise-1", "10.0.1.10")
	r.server("ise-2", "10.0.1.11")
	r.put("10.0.1.10")
	r.put("10.0.1.11")
	p := r.plan(decide(1, "ise-1 up", "ise-2 down"))
	same(t, "confirm", idsOf(p.Confirm), []string{"10.0.1.10"})
	r.aws.Remove(arn, "10.0.1.10", 1812)
	result, err := r.client.Apply(context.Background(), p)
	same(t, "error", err, nil)
	same(t, "deregistered", idsOf(result.Deregistered), []string{"10.0.1.11"})
	same(t, "listed", r.listed(), []string{"10.0.1.10:1812 healthy"})

	r.put("10.0.1.11")
	p = r.plan(decide(1, "ise-1 up", "ise-2 down"))
	r.aws.SetInvalid("10.0.1.10", true)
	result, err = r.client.Apply(context.Background(), p)
	if err == nil {
		t.Error("the refused confirmation is no error")
	}
	same(t, "withheld", idsOf(result.Withheld), []string{"10.0.1.11"})
	for _, d := range []health.Decision{decide(1, "ise-1 up"), decide(0, "ise-1 up", "ise-2 down")} {
		if p := r.plan(d); p.Confirm != nil {
			t.Errorf("confirming %v without need", p.Confirm)
		}
	}
}

// A stopped instance is listed, and nothing can lean on it.
func TestTheFloorRestsOnNoStoppedInstance(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
	r.server("ise-1", "10.0.1.10")
	r.server("ise-2", "10.0.1.11")
	for i, id := range []string{"i-1", "i-2"} {
		r.aws.SetInstance(balancertest.Instance{ID: id, VPCID: vpc, Primary: fmt.Sprintf("10.0.1.1%d", i)})
		r.put(id)
	}
	r.aws.SetInstance(balancertest.Instance{ID: "i-1", VPCID: vpc, Primary: "10.0.1.10", State: "stopped"})
	p := r.plan(decide(1, "ise-1 up", "ise-2 down"))
	same(t, "backing", p.Backing, 0)
	same(t, "withheld", idsOf(p.Withheld), []string{"i-2"})
}

// Another instance took an address over while a warm function remembers the
// old one: before the new one is pruned, or leant on the old one, EC2 is asked.
func TestAReplacedInstanceIsNotPruned(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
	r.group.Prune = true
	r.server("ise-1", "10.0.1.10")
	r.aws.SetInstance(balancertest.Instance{ID: "i-1", VPCID: vpc, Primary: "10.0.1.10"})
	r.pass(decide(1, "ise-1 up"))
	r.aws.SetInstance(balancertest.Instance{ID: "i-1", VPCID: vpc, Primary: "10.0.1.10", State: "terminated"})
	r.aws.SetInstance(balancertest.Instance{ID: "i-2", VPCID: vpc, Primary: "10.0.1.10"})
	r.put("i-2")
	r.put("10.9.9.9")
	p := r.plan(decide(0, "ise-1 up"))
	same(t, "deregister", idsOf(p.Deregister), []string{"10.9.9.9"})
	same(t, "registered", p.Registered, []string{"ise-1"})
}

// stateless finds one instance and leaves out its state.
type stateless struct{}

func (stateless) DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	address := aws.String("10.0.1.10")
	return &ec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: []ec2types.Instance{{
		InstanceId: aws.String("i-1"), PrivateIpAddress: address,
		NetworkInterfaces: []ec2types.InstanceNetworkInterface{{PrivateIpAddresses: []ec2types.InstancePrivateIpAddress{
			{PrivateIpAddress: address}, {PrivateIpAddress: aws.String("no address")},
		}}},
	}}}}}, nil
}

func TestInstanceWithoutState(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
	r.client.EC2 = stateless{}
	r.server("ise-1", "10.0.1.10")
	same(t, "refused", r.plan(decide(0, "ise-1 up")).Refused, []balancer.Refusal{
		{Server: "ise-1", Reason: "i-1 is in no known state, only a running instance can be registered"},
	})
}

func TestLocationsAreRemembered(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
	r.aws.SetInstance(balancertest.Instance{ID: "i-1", VPCID: vpc, Primary: "10.0.1.10"})
	r.server("ise-1", "10.0.1.10")
	r.server("ise-2", "10.0.1.11")
	d := decide(0, "ise-1 up")
	lookups := func(want int) {
		t.Helper()
		r.plan(d)
		same(t, "DescribeInstances", r.aws.Count(balancertest.DescribeInstances), want)
	}
	lookups(1)
	r.now = r.now.Add(time.Minute - time.Millisecond)
	lookups(1)
	r.now = r.now.Add(time.Millisecond)
	lookups(2)
	r.server("ise-3", "10.0.1.12")
	lookups(3)
	in := r.aws.Calls(balancertest.DescribeInstances)[2].Input.(*ec2.DescribeInstancesInput)
	same(t, "addresses asked for", in.Filters[0].Values, []string{"10.0.1.12"})

	// The instance was replaced; the load balancer's refusal says so first.
	r.aws.RemoveInstance("i-1")
	r.aws.SetInstance(balancertest.Instance{ID: "i-2", VPCID: vpc, Primary: "10.0.1.10"})
	p := r.plan(d)
	same(t, "register", idsOf(p.Register), []string{"i-1"})
	if _, err := r.client.Apply(context.Background(), p); err == nil {
		t.Error("registered an instance that is gone")
	}
	same(t, "registered", idsOf(r.pass(d).Registered), []string{"i-2"})
}

func TestManyInstances(t *testing.T) {
	for n, want := range map[int]int{199: 1, 200: 1, 201: 2} {
		r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
		names, addresses := r.many(n)
		for i, address := range addresses {
			r.aws.SetInstance(balancertest.Instance{ID: "i-" + names[i], VPCID: vpc, Primary: address})
		}
		same(t, "registered", len(r.pass(all(names, health.StandingSolid)).Registered), n)
		same(t, "DescribeInstances", r.aws.Count(balancertest.DescribeInstances), want)
	}
}

// An instance that cannot be looked up is an error, not an absence.
func TestResolveErrors(t *testing.T) {
	r := newRig(t, balancertest.TargetGroup{Type: elbv2types.TargetTypeEnumInstance})
	r.server("ise-1", "10.0.1.10")
	r.aws.Throttle(balancertest.DescribeInstances, 1)
	if _, err := r.client.Plan(context.Background(), r.group, r.tg, decide(0)); err == nil || !strings.Contains(err.Error(), "Rate exceeded") {
		t.Errorf("throttled: %v", err)
	}
	blind := &balancer.Client{ELBv2: r.aws}
	if _, err := blind.Plan(context.Background(), r.group, r.tg, decide(0)); err == nil || !strings.Contains(err.Error(), "no EC2 client") {
		t.Errorf("no EC2: %v", err)
	}
}

// One client serves passes over different groups at the same time.
func TestConcurrentPasses(t *testing.T) {
	fake := balancertest.New(nil)
	client := &balancer.Client{ELBv2: fake, EC2: fake}
	var wg sync.WaitGroup
	for g := range 8 {
		arn := fmt.Sprintf("arn:%d", g)
		fake.AddTargetGroup(balancertest.TargetGroup{ARN: arn, Type: elbv2types.TargetTypeEnumInstance, VPCID: vpc, Port: 1812})
		address := fmt.Sprintf("10.0.1.%d", g/2) // two groups share an instance
		fake.SetInstance(balancertest.Instance{ID: "i-" + address, VPCID: vpc, Primary: address})
		group := fleet.Group{Servers: []fleet.Server{{Name: "a", Address: netip.MustParseAddr(address)}}}
		wg.Go(func() {
			for _, d := range slices.Repeat([]health.Decision{decide(0, "a up"), decide(0, "a down")}, 20) {
				p, err := client.Plan(context.Background(), group, fleet.TargetGroup{ARN: arn}, d)
				if err == nil {
					_, err = client.Apply(context.Background(), p)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	same(t, "changes", fake.Count(balancertest.RegisterTargets, balancertest.DeregisterTargets), 8*40)
}
