package simulation

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"

	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
)

// staleness is how long a list of targets may be out of date.
const staleness = 5 * time.Second

// firstChecks is how long a target is initial: AWS speaks of two to three minutes.
const firstChecks = 150 * time.Second

// place is a target in a target group.
type place struct {
	arn, id string
	port    int32
}

// snapshot is what a target group looked like before its last change.
type snapshot struct {
	targets []balancertest.Target
	changed time.Time
}

// cloud is ELBv2 and EC2 with faults, and the place where changes are judged.
type cloud struct {
	*balancertest.AWS
	*world
	mu       sync.Mutex
	fleet    *fleet.Fleet // of the running invocation
	lucks    map[string]*luck
	before   map[string]snapshot // by ARN
	launched int                 // instances so far
	owners   map[string]string   // addresses of all instances that ever were, by id
	types    map[string]elbv2types.TargetTypeEnum
}

// begin prepares for the calls of one invocation.
func (c *cloud) begin(f *fleet.Fleet, lucks map[string]*luck) {
	c.fleet, c.lucks = f, lucks
	c.ResetCalls()
}

// groupOf is the group that a target group belongs to.
func (c *cloud) groupOf(arn string) (fleet.Group, bool) {
	for _, g := range c.fleet.Groups {
		for _, tg := range g.TargetGroups {
			if tg.ARN == arn {
				return g, true
			}
		}
	}
	return fleet.Group{}, false
}

// call is made before each call about a group.
func (c *cloud) call(group string) error {
	switch err := c.lucks[group].call(APIThrottled); err {
	case errThrottled:
		return &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded", Fault: smithy.FaultClient}
	default:
		return err
	}
}

func (c *cloud) DescribeTargetGroups(ctx context.Context, in *elbv2.DescribeTargetGroupsInput, _ ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, _ := c.groupOf(in.TargetGroupArns[0])
	if err := c.call(g.Name); err != nil {
		return nil, err
	}
	return c.AWS.DescribeTargetGroups(ctx, in)
}

func (c *cloud) DescribeTargetHealth(ctx context.Context, in *elbv2.DescribeTargetHealthInput, _ ...func(*elbv2.Options)) (*elbv2.DescribeTargetHealthOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arn := *in.TargetGroupArn
	g, _ := c.groupOf(arn)
	if err := c.call(g.Name); err != nil {
		return nil, err
	}
	out, err := c.AWS.DescribeTargetHealth(ctx, in)
	if old, known := c.before[arn]; err == nil && known && c.now.Sub(old.changed) < staleness && c.lucks[g.Name].strikes(StaleTargets) {
		out.TargetHealthDescriptions = nil
		for _, t := range old.targets {
			out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, elbv2types.TargetHealthDescription{
				Target: &elbv2types.TargetDescription{Id: &t.ID, Port: &t.Port}, TargetHealth: &elbv2types.TargetHealth{State: t.State, Reason: t.Reason},
			})
		}
	}
	return out, err
}

func (c *cloud) RegisterTargets(ctx context.Context, in *elbv2.RegisterTargetsInput, _ ...func(*elbv2.Options)) (*elbv2.RegisterTargetsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arn := *in.TargetGroupArn
	g, _ := c.groupOf(arn)
	if err := c.call(g.Name); err != nil {
		return nil, err
	}
	if c.lucks[g.Name].strikes(TooManyTargets) {
		return nil, &elbv2types.TooManyTargetsException{Message: aws.String("simulated")}
	}
	before := c.Targets(arn)
	out, err := c.AWS.RegisterTargets(ctx, in)
	if err != nil {
		return out, err
	}
	c.changed(arn, before)
	for _, t := range in.Targets {
		c.tracef("registered %s:%d in %s", *t.Id, *t.Port, arn)
		if !registered(before, *t.Id, *t.Port) {
			c.judgeRegistration(g, place{arn, *t.Id, *t.Port})
		}
	}
	if c.lucks[g.Name].strikes(APIAnswerLost) {
		return nil, errLost
	}
	return out, nil
}

func (c *cloud) DeregisterTargets(ctx context.Context, in *elbv2.DeregisterTargetsInput, _ ...func(*elbv2.Options)) (*elbv2.DeregisterTargetsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arn := *in.TargetGroupArn
	g, _ := c.groupOf(arn)
	if err := c.call(g.Name); err != nil {
		return nil, err
	}
	before := c.Targets(arn)
	out, err := c.AWS.DeregisterTargets(ctx, in)
	if err != nil {
		return out, err
	}
	c.changed(arn, before)
	for _, t := range in.Targets {
		c.tracef("deregistered %s:%d in %s", *t.Id, *t.Port, arn)
		if registered(before, *t.Id, *t.Port) {
			c.judgeDeregistration(g, place{arn, *t.Id, *t.Port})
		}
	}
	if c.lucks[g.Name].strikes(APIAnswerLost) {
		return nil, errLost
	}
	return out, nil
}

func (c *cloud) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, options ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.fleet.Groups {
		for _, s := range g.Servers {
			if c.lucks[g.Name] != nil && slices.Contains(in.Filters[0].Values, s.Address.String()) {
				if err := c.call(g.Name); err != nil {
					return nil, err
				}
				return c.AWS.DescribeInstances(ctx, in, options...)
			}
		}
	}
	return c.AWS.DescribeInstances(ctx, in, options...)
}

// changed notes a change that succeeded. Answers about the target group may
// be as if it had not been made for a while.
func (c *cloud) changed(arn string, before []balancertest.Target) {
	c.before[arn] = snapshot{before, c.now}
	c.report.Changes++
}

// registered reports whether a target is in a list and does not drain.
func registered(targets []balancertest.Target, id string, port int32) bool {
	return slices.ContainsFunc(targets, func(t balancertest.Target) bool {
		return t.ID == id && t.Port == port && t.State != elbv2types.TargetHealthStateEnumDraining
	})
}

// owner is the server of a group that a target stands for, now or before its
// instance was replaced; running is false in the second case.
func (c *cloud) owner(g fleet.Group, id string) (s fleet.Server, owned, running bool) {
	former, replaced := c.owners[id]
	for _, s := range g.Servers {
		address := s.Address.String()
		if address == id || replaced && address == former {
			return s, true, address == id || c.machines[address].instance == id && !c.machines[address].stopped
		}
	}
	return fleet.Server{}, false, false
}

// targetOf is the target that stands for a server in a target group; false if
// there is none at present.
func (c *cloud) targetOf(tg fleet.TargetGroup, s fleet.Server) (place, bool) {
	p := place{tg.ARN, s.Address.String(), int32(tg.Port)}
	if c.types[tg.ARN] == elbv2types.TargetTypeEnumInstance {
		m := c.machines[s.Address.String()]
		if m == nil {
			return p, false
		}
		p.id = m.instance
	}
	return p, true
}

// has reports whether a target is registered.
func (c *cloud) has(p place) bool { return registered(c.Targets(p.arn), p.id, p.port) }
