// Package balancer keeps the target groups of a Network Load Balancer equal to
// a group decision: observe what is registered, plan what has to change, apply
// the plan. Planning is pure, so a plan can be printed, compared and tested.
//
// Registering comes before deregistering, and the floor of the decision is
// checked again in between against the registrations that really succeeded.
// Other controllers of target groups remove first, or remove without a floor.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// Errors that callers tell apart. Both come wrapped.
var (
	ErrTargetGroupNotFound = errors.New("target group not found")
	ErrTargetType          = errors.New("target type is neither ip nor instance")
)

// ELBv2 is the part of the Elastic Load Balancing API that a Client calls.
type ELBv2 interface {
	DescribeTargetGroups(context.Context, *elbv2.DescribeTargetGroupsInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error)
	DescribeTargetHealth(context.Context, *elbv2.DescribeTargetHealthInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetHealthOutput, error)
	RegisterTargets(context.Context, *elbv2.RegisterTargetsInput, ...func(*elbv2.Options)) (*elbv2.RegisterTargetsOutput, error)
	DeregisterTargets(context.Context, *elbv2.DeregisterTargetsInput, ...func(*elbv2.Options)) (*elbv2.DeregisterTargetsOutput, error)
}

// EC2 is the part of the EC2 API that a Client calls.
type EC2 interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
}

// Client plans and applies passes over target groups. It never repeats a
// failed call: retries and their pace belong to the SDK clients it is given.
// Passes over different target groups may run at the same time.
type Client struct {
	ELBv2 ELBv2
	EC2   EC2              // nil if no target group has instance targets
	Now   func() time.Time // nil means time.Now

	mu        sync.Mutex
	groups    map[string]TargetGroup // by ARN; kept for good, as nothing in it can change
	locations map[place]location
}

// Plan observes one target group of a group of servers and compares it with
// the decision. It changes nothing.
func (c *Client) Plan(ctx context.Context, group fleet.Group, tg fleet.TargetGroup, d health.Decision) (Plan, error) {
	o, err := c.Observe(ctx, tg.ARN)
	if err != nil {
		return Plan{}, err
	}
	servers, remembered, err := c.resolve(ctx, o.TargetGroup, int32(tg.Port), group.Servers, false)
	if err != nil {
		return Plan{}, err
	}
	p := NewPlan(o, Desired{Decision: d, Servers: servers, Prune: group.Prune})
	if remembered && outdated(o, p, servers) {
		if servers, _, err = c.resolve(ctx, o.TargetGroup, int32(tg.Port), group.Servers, true); err != nil {
			return Plan{}, err
		}
		p = NewPlan(o, Desired{Decision: d, Servers: servers, Prune: group.Prune})
	}
	return p, nil
}

// outdated reports whether a plan may rest on instances that are there no
// more: it prunes what may be a server's new instance, or the load balancer
// says that a server's instance does not run.
func outdated(o Observation, p Plan, servers []Resolution) bool {
	return slices.ContainsFunc(p.Deregister, func(c Change) bool { return c.Server == "" }) ||
		slices.ContainsFunc(servers, func(r Resolution) bool { return r.Refused == "" && o.States[r.Target].dead() })
}

// Observe reads a target group and the states of its targets. It fails with
// ErrTargetGroupNotFound or ErrTargetType if there is nothing to work on.
func (c *Client) Observe(ctx context.Context, arn string) (Observation, error) {
	group, err := c.describe(ctx, arn)
	if err != nil {
		return Observation{}, err
	}
	out, err := c.ELBv2.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: &arn})
	if err != nil {
		return Observation{}, fmt.Errorf("describing targets of %s: %w", arn, typed(err))
	}
	o := Observation{TargetGroup: group, States: make(map[Target]TargetState, len(out.TargetHealthDescriptions))}
	for _, d := range out.TargetHealthDescriptions {
		var state TargetState
		if d.TargetHealth != nil {
			state = TargetState{State: d.TargetHealth.State, Reason: d.TargetHealth.Reason}
		}
		if d.Target != nil {
			state.Zone = aws.ToString(d.Target.AvailabilityZone)
			o.States[group.target(aws.ToString(d.Target.Id), aws.ToInt32(d.Target.Port))] = state
		}
	}
	return o, nil
}

// describe returns a target group, from memory if it was described before.
func (c *Client) describe(ctx context.Context, arn string) (TargetGroup, error) {
	c.mu.Lock()
	group, known := c.groups[arn]
	c.mu.Unlock()
	if known {
		return group, nil
	}
	out, err := c.ELBv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{TargetGroupArns: []string{arn}})
	if err != nil {
		return TargetGroup{}, fmt.Errorf("describing target group %s: %w", arn, typed(err))
	}
	if len(out.TargetGroups) != 1 {
		return TargetGroup{}, fmt.Errorf("describing target group %s: %w", arn, ErrTargetGroupNotFound)
	}
	found := out.TargetGroups[0]
	group = TargetGroup{
		ARN:           arn,
		Type:          found.TargetType,
		IPAddressType: found.IpAddressType,
		Port:          aws.ToInt32(found.Port),
		Protocol:      found.Protocol,
		VPCID:         aws.ToString(found.VpcId),
	}
	if group.Type != elbv2types.TargetTypeEnumIp && group.Type != elbv2types.TargetTypeEnumInstance {
		return TargetGroup{}, fmt.Errorf("using target group %s of type %q: %w", arn, group.Type, ErrTargetType)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups = make(map[string]TargetGroup)
	}
	c.groups[arn] = group
	return group, nil
}

// typed marks the SDK errors that have a name in this package.
func typed(err error) error {
	if _, ok := errors.AsType[*elbv2types.TargetGroupNotFoundException](err); ok {
		return fmt.Errorf("%w: %w", ErrTargetGroupNotFound, err)
	}
	return err
}

// now reads the clock.
func (c *Client) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}
