// Package balancertest is an in-memory Elastic Load Balancing v2 and EC2 that
// behaves as AWS does where emulators do not: a target is an id and a port,
// deregistering takes time, a new target is not healthy at once, one bad target
// fails the whole call, and deregistering without the right port does nothing.
// It runs on an injected clock, so that an hour of draining takes no time.
package balancertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
)

// The operations, as Fail, Count and Call name them.
const (
	DescribeTargetGroups = "DescribeTargetGroups"
	DescribeTargetHealth = "DescribeTargetHealth"
	RegisterTargets      = "RegisterTargets"
	DeregisterTargets    = "DeregisterTargets"
	DescribeInstances    = "DescribeInstances"
)

// maxFilterValues is EC2's limit on the values of one filter.
const maxFilterValues = 200

// TargetGroup is a target group to be put into the fake.
type TargetGroup struct {
	ARN                 string
	Type                elbv2types.TargetTypeEnum // empty means ip
	IPAddressType       elbv2types.TargetGroupIpAddressTypeEnum
	Port                int32
	Protocol            elbv2types.ProtocolEnum
	VPCID               string
	DeregistrationDelay time.Duration // from draining to gone; 0 means at once
	InitialDelay        time.Duration // from initial to healthy; 0 means at once
	MaxTargets          int           // 0 means no limit
}

// Instance is an EC2 instance to be put into the fake.
type Instance struct {
	ID        string
	VPCID     string
	Primary   string
	Secondary []string                   // further addresses of the same interface
	State     ec2types.InstanceStateName // empty means running
	Zone      string                     // Availability Zone
}

// Target is a target as the load balancer lists it.
type Target struct {
	ID     string
	Port   int32
	State  elbv2types.TargetHealthStateEnum
	Reason elbv2types.TargetHealthReasonEnum
	Zone   string // Availability Zone of an address; only Put knows one
}

// Call is one call that was made, also when it failed.
type Call struct {
	Operation string
	Input     any // the SDK's input, not to be changed
	Err       error
}

// AWS is the fake. It is safe for concurrent use; make it with New.
type AWS struct {
	now func() time.Time

	mu        sync.Mutex
	groups    map[string]*group
	instances map[string]Instance
	invalid   map[string]bool
	failures  map[string][]error
	calls     []Call
	pageSize  int
}

// group is a target group with its targets.
type group struct {
	TargetGroup
	targets map[key]*entry
}

// key is the identity of a target.
type key struct {
	id   string
	port int32
}

// entry is a target. Its state follows from the clock, or is pinned by Put.
type entry struct {
	portNamed bool // registered with a port of its own
	absent    bool // deregistered; still listed while it drains
	since     time.Time
	pinned    *Target
}

// New makes an empty fake on the given clock; nil means time.Now.
func New(now func() time.Time) *AWS {
	if now == nil {
		now = time.Now
	}
	return &AWS{
		now:       now,
		groups:    make(map[string]*group),
		instances: make(map[string]Instance),
		invalid:   make(map[string]bool),
		failures:  make(map[string][]error),
	}
}

// AddTargetGroup adds a target group, or replaces it by an empty one.
func (a *AWS) AddTargetGroup(g TargetGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g.Type = cmp.Or(g.Type, elbv2types.TargetTypeEnumIp)
	a.groups[g.ARN] = &group{TargetGroup: g, targets: make(map[key]*entry)}
}

// RemoveTargetGroup deletes a target group.
func (a *AWS) RemoveTargetGroup(arn string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.groups, arn)
}

// SetInstance adds or changes an instance.
func (a *AWS) SetInstance(i Instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i.State = cmp.Or(i.State, ec2types.InstanceStateNameRunning)
	a.instances[i.ID] = i
}

// RemoveInstance makes an instance unknown.
func (a *AWS) RemoveInstance(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.instances, id)
}

// SetInvalid says whether registering the id answers InvalidTarget.
func (a *AWS) SetInvalid(id string, invalid bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.invalid[id] = invalid
}

// SetPageSize limits the instances in one answer; 0 means no limit.
func (a *AWS) SetPageSize(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pageSize = n
}

// Put lists a target in a state that stays until it is registered or
// deregistered. No call is recorded: it is what somebody else did.
func (a *AWS) Put(arn string, t Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.groups[arn].targets[key{t.ID, t.Port}] = &entry{
		portNamed: true,
		absent:    t.State == elbv2types.TargetHealthStateEnumDraining || t.Reason == elbv2types.TargetHealthReasonEnumNotRegistered,
		since:     a.now(),
		pinned:    &t,
	}
}

// Remove drops a target at once, without draining and without a recorded call.
func (a *AWS) Remove(arn, id string, port int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.groups[arn].targets, key{id, port})
}

// Targets lists the targets of a group, sorted, as DescribeTargetHealth would,
// without a recorded call. It is empty for an unknown group.
func (a *AWS) Targets(arn string) []Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.groups[arn]; g != nil {
		return a.list(g, a.now())
	}
	return nil
}

// Fail makes the next n calls of an operation answer the error and do nothing.
func (a *AWS) Fail(operation string, n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures[operation] = append(a.failures[operation], slices.Repeat([]error{err}, n)...)
}

// Throttle makes the next n calls of an operation answer that the rate is
// exceeded.
func (a *AWS) Throttle(operation string, n int) {
	a.Fail(operation, n, &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded", Fault: smithy.FaultClient})
}

// Calls returns the calls made so far, of the given operations or of all.
func (a *AWS) Calls(operations ...string) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var calls []Call
	for _, c := range a.calls {
		if len(operations) == 0 || slices.Contains(operations, c.Operation) {
			calls = append(calls, c)
		}
	}
	return calls
}

// Count returns how many calls were made, of the given operations or of all.
func (a *AWS) Count(operations ...string) int { return len(a.Calls(operations...)) }

// ResetCalls forgets the calls made so far.
func (a *AWS) ResetCalls() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = nil
}

// DescribeTargetGroups answers for the groups named by ARN.
func (a *AWS) DescribeTargetGroups(ctx context.Context, in *elbv2.DescribeTargetGroupsInput, _ ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error) {
	return serve(ctx, a, DescribeTargetGroups, in, func(time.Time) (*elbv2.DescribeTargetGroupsOutput, error) {
		out := new(elbv2.DescribeTargetGroupsOutput)
		for _, arn := range in.TargetGroupArns {
			g, err := a.group(&arn)
			if err != nil {
				return nil, err
			}
			described := elbv2types.TargetGroup{
				TargetGroupArn: aws.String(g.ARN),
				TargetType:     g.Type,
				IpAddressType:  g.IPAddressType,
				Protocol:       g.Protocol,
				VpcId:          aws.String(g.VPCID),
			}
			if g.Port != 0 {
				described.Port = aws.Int32(g.Port)
			}
			out.TargetGroups = append(out.TargetGroups, described)
		}
		return out, nil
	})
}

// DescribeTargetHealth lists all targets of a group. A choice of targets is
// not supported.
func (a *AWS) DescribeTargetHealth(ctx context.Context, in *elbv2.DescribeTargetHealthInput, _ ...func(*elbv2.Options)) (*elbv2.DescribeTargetHealthOutput, error) {
	return serve(ctx, a, DescribeTargetHealth, in, func(now time.Time) (*elbv2.DescribeTargetHealthOutput, error) {
		g, err := a.group(in.TargetGroupArn)
		if err != nil {
			return nil, err
		}
		if len(in.Targets) > 0 {
			return nil, fmt.Errorf("balancertest: %s with a choice of targets is not supported", DescribeTargetHealth)
		}
		out := new(elbv2.DescribeTargetHealthOutput)
		for _, t := range a.list(g, now) {
			out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, elbv2types.TargetHealthDescription{
				Target:       t.describe(),
				TargetHealth: &elbv2types.TargetHealth{State: t.State, Reason: t.Reason},
			})
		}
		return out, nil
	})
}

// RegisterTargets registers all targets, or none if one of them is bad. It ends
// the draining of a target and leaves a registered one as it is.
func (a *AWS) RegisterTargets(ctx context.Context, in *elbv2.RegisterTargetsInput, _ ...func(*elbv2.Options)) (*elbv2.RegisterTargetsOutput, error) {
	return serve(ctx, a, RegisterTargets, in, func(now time.Time) (*elbv2.RegisterTargetsOutput, error) {
		g, err := a.group(in.TargetGroupArn)
		if err != nil {
			return nil, err
		}
		fresh := make(map[key]*entry)
		for _, t := range in.Targets {
			k := g.key(t)
			if !a.valid(g, k.id) {
				return nil, &elbv2types.InvalidTargetException{Message: aws.String("The following targets are not valid: " + k.id)}
			}
			if known := g.targets[k]; known == nil || known.absent {
				fresh[k] = &entry{portNamed: t.Port != nil, since: now}
			}
		}
		registered := len(fresh)
		for _, known := range g.targets {
			if !known.absent {
				registered++
			}
		}
		if g.MaxTargets > 0 && registered > g.MaxTargets {
			return nil, &elbv2types.TooManyTargetsException{Message: aws.String("Too many targets")}
		}
		maps.Copy(g.targets, fresh)
		return new(elbv2.RegisterTargetsOutput), nil
	})
}

// DeregisterTargets makes targets drain. It succeeds and does nothing for a
// target that is not there; so it does for a target that was registered with a
// port when the call names none.
func (a *AWS) DeregisterTargets(ctx context.Context, in *elbv2.DeregisterTargetsInput, _ ...func(*elbv2.Options)) (*elbv2.DeregisterTargetsOutput, error) {
	return serve(ctx, a, DeregisterTargets, in, func(now time.Time) (*elbv2.DeregisterTargetsOutput, error) {
		g, err := a.group(in.TargetGroupArn)
		if err != nil {
			return nil, err
		}
		for _, t := range in.Targets {
			known := g.targets[g.key(t)]
			if known == nil || known.absent || known.portNamed && t.Port == nil {
				continue
			}
			known.absent, known.since, known.pinned = true, now, nil
		}
		return new(elbv2.DeregisterTargetsOutput), nil
	})
}

// DescribeInstances answers by the filters vpc-id, instance-state-name and
// network-interface.addresses.private-ip-address, in pages.
func (a *AWS) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	return serve(ctx, a, DescribeInstances, in, func(time.Time) (*ec2.DescribeInstancesOutput, error) {
		var matches []Instance
		for _, id := range slices.Sorted(maps.Keys(a.instances)) {
			ok, err := a.instances[id].matches(in.Filters)
			if err != nil {
				return nil, err
			}
			if ok {
				matches = append(matches, a.instances[id])
			}
		}
		out := new(ec2.DescribeInstancesOutput)
		first, end := 0, len(matches)
		if in.NextToken != nil {
			var err error
			if first, err = strconv.Atoi(*in.NextToken); err != nil || first < 0 || first > end {
				return nil, &smithy.GenericAPIError{Code: "InvalidNextToken", Message: *in.NextToken}
			}
		}
		if a.pageSize > 0 && end > first+a.pageSize {
			end = first + a.pageSize
			out.NextToken = aws.String(strconv.Itoa(end))
		}
		for _, i := range matches[first:end] {
			out.Reservations = append(out.Reservations, ec2types.Reservation{Instances: []ec2types.Instance{i.describe()}})
		}
		return out, nil
	})
}

// serve records a call and answers it: by a planned failure, or by the operation.
func serve[Out any](ctx context.Context, a *AWS, operation string, in any, do func(now time.Time) (*Out, error)) (*Out, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out *Out
	err := ctx.Err()
	if planned := a.failures[operation]; err == nil && len(planned) > 0 {
		err, a.failures[operation] = planned[0], planned[1:]
	}
	if err == nil {
		out, err = do(a.now())
	}
	a.calls = append(a.calls, Call{Operation: operation, Input: in, Err: err})
	return out, err
}

// group finds a target group.
func (a *AWS) group(arn *string) (*group, error) {
	if g := a.groups[aws.ToString(arn)]; g != nil {
		return g, nil
	}
	return nil, &elbv2types.TargetGroupNotFoundException{Message: aws.String("One or more target groups not found")}
}

// valid reports whether the id can be registered in the group.
func (a *AWS) valid(g *group, id string) bool {
	if a.invalid[id] {
		return false
	}
	if g.Type == elbv2types.TargetTypeEnumInstance {
		i, known := a.instances[id]
		return known && i.VPCID == g.VPCID && i.State == ec2types.InstanceStateNameRunning
	}
	address, err := netip.ParseAddr(id)
	return err == nil && address.Is6() == (g.IPAddressType == elbv2types.TargetGroupIpAddressTypeEnumIpv6)
}

// key gives a target without a port the port of the group.
func (g *group) key(t elbv2types.TargetDescription) key {
	return key{aws.ToString(t.Id), cmp.Or(aws.ToInt32(t.Port), g.Port)}
}

// list drops the targets that have drained, and those of instances that are
// gone, and lists the others, sorted.
func (a *AWS) list(g *group, now time.Time) []Target {
	targets := make([]Target, 0, len(g.targets))
	for k, e := range g.targets {
		age := now.Sub(e.since)
		t := Target{ID: k.id, Port: k.port, State: elbv2types.TargetHealthStateEnumHealthy}
		instance, known := a.instances[k.id]
		switch {
		case known && instance.State == ec2types.InstanceStateNameTerminated:
			delete(g.targets, k) // as the load balancer does by itself
			continue
		case known && !e.absent && instance.State != ec2types.InstanceStateNameRunning:
			t.State, t.Reason = elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumInvalidState
		case e.pinned != nil:
			t = *e.pinned
		case e.absent && age >= g.DeregistrationDelay:
			delete(g.targets, k)
			continue
		case e.absent:
			t.State, t.Reason = elbv2types.TargetHealthStateEnumDraining, elbv2types.TargetHealthReasonEnumDeregistrationInProgress
		case age < g.InitialDelay:
			t.State, t.Reason = elbv2types.TargetHealthStateEnumInitial, elbv2types.TargetHealthReasonEnumRegistrationInProgress
		}
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port))
	})
	return targets
}

// describe is the target in the SDK's form.
func (t Target) describe() *elbv2types.TargetDescription {
	d := &elbv2types.TargetDescription{Id: aws.String(t.ID), Port: aws.Int32(t.Port)}
	if t.Zone != "" {
		d.AvailabilityZone = aws.String(t.Zone)
	}
	return d
}

// matches reports whether the instance passes all filters.
func (i Instance) matches(filters []ec2types.Filter) (bool, error) {
	all := true
	for _, f := range filters {
		if len(f.Values) > maxFilterValues {
			return false, &smithy.GenericAPIError{Code: "FilterLimitExceeded", Message: aws.ToString(f.Name)}
		}
		var have []string
		switch aws.ToString(f.Name) {
		case "vpc-id":
			have = []string{i.VPCID}
		case "instance-state-name":
			have = []string{string(i.State)}
		case "network-interface.addresses.private-ip-address":
			have = i.addresses()
		default:
			return false, &smithy.GenericAPIError{Code: "InvalidParameterValue", Message: "The filter '" + aws.ToString(f.Name) + "' is invalid"}
		}
		all = all && slices.ContainsFunc(have, func(v string) bool { return slices.Contains(f.Values, v) })
	}
	return all, nil
}

// addresses lists the primary address and then the others.
func (i Instance) addresses() []string { return append([]string{i.Primary}, i.Secondary...) }

// describe is the instance in the SDK's form.
func (i Instance) describe() ec2types.Instance {
	nic := ec2types.InstanceNetworkInterface{PrivateIpAddress: aws.String(i.Primary)}
	for n, address := range i.addresses() {
		nic.PrivateIpAddresses = append(nic.PrivateIpAddresses, ec2types.InstancePrivateIpAddress{
			PrivateIpAddress: aws.String(address), Primary: aws.Bool(n == 0),
		})
	}
	return ec2types.Instance{
		InstanceId:        aws.String(i.ID),
		VpcId:             aws.String(i.VPCID),
		PrivateIpAddress:  aws.String(i.Primary),
		State:             &ec2types.InstanceState{Name: i.State},
		Placement:         &ec2types.Placement{AvailabilityZone: aws.String(i.Zone)},
		NetworkInterfaces: []ec2types.InstanceNetworkInterface{nic},
	}
}
