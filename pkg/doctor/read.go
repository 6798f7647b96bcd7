package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/sync/errgroup"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// maxReads is how many things are read at once: the account's API rate is
// shared with other tools.
const maxReads = 6

// ELBv2 is the part of the Elastic Load Balancing API that is read here. Targets
// are read by the Planner.
type ELBv2 interface {
	DescribeTargetGroups(context.Context, *elbv2.DescribeTargetGroupsInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error)
	DescribeTargetGroupAttributes(context.Context, *elbv2.DescribeTargetGroupAttributesInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupAttributesOutput, error)
	DescribeLoadBalancers(context.Context, *elbv2.DescribeLoadBalancersInput, ...func(*elbv2.Options)) (*elbv2.DescribeLoadBalancersOutput, error)
	DescribeLoadBalancerAttributes(context.Context, *elbv2.DescribeLoadBalancerAttributesInput, ...func(*elbv2.Options)) (*elbv2.DescribeLoadBalancerAttributesOutput, error)
	DescribeListeners(context.Context, *elbv2.DescribeListenersInput, ...func(*elbv2.Options)) (*elbv2.DescribeListenersOutput, error)
}

// Planner says what it would take to make a target group fit a decision. The
// reconciler's own does.
type Planner interface {
	Plan(context.Context, fleet.Group, fleet.TargetGroup, health.Decision) (balancer.Plan, error)
}

// Probes is what is read of table probes.
type Probes interface {
	Group(context.Context, string) (map[string]store.ProbeRow, error)
}

// Health is what is read of table health.
type Health interface {
	Group(context.Context, string) (store.GroupHealth, error)
}

// reader reads the facts.
type reader struct {
	*Doctor
	gaps gaps

	mu            sync.Mutex
	loadBalancers map[string]*LoadBalancer // by ARN
}

func (r *reader) read(ctx context.Context, group string) *Facts {
	f := &Facts{Fleet: r.Fleet, FileVersion: r.FileVersion, Stack: r.Stack, ProbesTable: r.ProbesTable, HealthTable: r.HealthTable}
	var work errgroup.Group // nothing fails: what cannot be read is a gap
	work.SetLimit(maxReads)
	run := func(step func()) { work.Go(func() error { step(); return nil }) }
	for _, g := range r.Fleet.Groups {
		if group != "" && g.Name != group {
			continue
		}
		examined := &Group{Group: g}
		f.Groups = append(f.Groups, examined)
		run(func() { r.readGroup(ctx, examined) })
	}
	r.readStack(ctx, f, run)
	_ = work.Wait()
	f.Gaps = r.gaps.list
	slices.SortFunc(f.Gaps, func(a, b Gap) int { return strings.Compare(a.Subject+a.What, b.Subject+b.What) })
	return f
}

// readGroup reads the rows of a group before its target groups: a server that is
// drained must not be in.
func (r *reader) readGroup(ctx context.Context, g *Group) {
	if r.deployed() {
		r.readRows(ctx, g)
		r.readPasses(ctx, g)
	}
	for _, tg := range g.Group.TargetGroups {
		examined := &TargetGroup{Group: g, Config: tg}
		g.TargetGroups = append(g.TargetGroups, examined)
		r.readTargetGroup(ctx, examined)
	}
}

// deployed reports whether there are tables: a stack that is not deployed names
// none.
func (r *reader) deployed() bool { return r.ProbesTable != "" && r.HealthTable != "" }

func (r *reader) readRows(ctx context.Context, g *Group) {
	var err error
	if g.Rows, err = r.Probes.Group(ctx, g.Name); err != nil {
		r.gap(subjectOfGroup(g), "rows of table "+r.ProbesTable, "dynamodb:Query", err)
	}
	remembered, err := r.Health.Group(ctx, g.Name)
	if err != nil {
		r.gap(subjectOfGroup(g), "rows of table "+r.HealthTable, "dynamodb:Query", err)
		return
	}
	g.Remembered = &remembered
}

func (r *reader) readTargetGroup(ctx context.Context, t *TargetGroup) {
	subject, arn := subjectOfTargetGroup(t), t.Config.ARN
	out, err := r.ELBv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{TargetGroupArns: []string{arn}})
	if _, missing := errors.AsType[*elbv2types.TargetGroupNotFoundException](err); missing || err == nil && len(out.TargetGroups) == 0 {
		t.Missing = true
		return
	}
	if err != nil {
		r.gap(subject, "the target group", "elasticloadbalancing:DescribeTargetGroups", err)
		return
	}
	t.Described = &out.TargetGroups[0]
	attributes, err := r.ELBv2.DescribeTargetGroupAttributes(ctx, &elbv2.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn})
	if err != nil {
		r.gap(subject, "its attributes", "elasticloadbalancing:DescribeTargetGroupAttributes", err)
	} else {
		t.Attributes = map[string]string{}
		for _, a := range attributes.Attributes {
			t.Attributes[aws.ToString(a.Key)] = aws.ToString(a.Value)
		}
	}
	for _, lb := range t.Described.LoadBalancerArns {
		t.LoadBalancers = append(t.LoadBalancers, r.loadBalancer(ctx, subject, lb))
	}
	plan, err := r.Planner.Plan(ctx, t.Group.Group, t.Config, everyone(t.Group, r.now()))
	switch {
	case errors.Is(err, balancer.ErrTargetType): // a check says so
	case err != nil:
		r.gap(subject, "its targets", "elasticloadbalancing:DescribeTargetHealth and ec2:DescribeInstances", err)
	default:
		t.Plan = &plan
	}
}

// everyone is the decision that everybody who is not drained has to be in.
func everyone(g *Group, now time.Time) health.Decision {
	var d health.Decision
	for _, s := range g.Servers {
		v := health.Verdict{Server: s.Name, Membership: health.In}
		if g.drained(s, now) {
			v.Membership = health.Keep
		}
		d.Verdicts = append(d.Verdicts, v)
	}
	return d
}

// loadBalancer reads a load balancer once for all of its target groups. Who asks
// while it is read waits.
func (r *reader) loadBalancer(ctx context.Context, subject subject, arn string) *LoadBalancer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lb, known := r.loadBalancers[arn]; known {
		return lb
	}
	lb := &LoadBalancer{LoadBalancer: elbv2types.LoadBalancer{LoadBalancerArn: &arn}}
	if r.loadBalancers == nil {
		r.loadBalancers = map[string]*LoadBalancer{}
	}
	r.loadBalancers[arn] = lb
	subject.name = "load balancer " + nameIn(arn)
	out, err := r.ELBv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{LoadBalancerArns: []string{arn}})
	switch {
	case err != nil:
		r.gap(subject, "the load balancer", "elasticloadbalancing:DescribeLoadBalancers", err)
	case len(out.LoadBalancers) > 0:
		lb.LoadBalancer = out.LoadBalancers[0]
	}
	attributes, err := r.ELBv2.DescribeLoadBalancerAttributes(ctx, &elbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &arn})
	if err != nil {
		r.gap(subject, "its attributes", "elasticloadbalancing:DescribeLoadBalancerAttributes", err)
	} else {
		lb.Attributes = map[string]string{}
		for _, a := range attributes.Attributes {
			lb.Attributes[aws.ToString(a.Key)] = aws.ToString(a.Value)
		}
	}
	listeners := elbv2.NewDescribeListenersPaginator(r.ELBv2, &elbv2.DescribeListenersInput{LoadBalancerArn: &arn})
	lb.Listened = true
	for listeners.HasMorePages() {
		page, err := listeners.NextPage(ctx)
		if err != nil {
			lb.Listened = false
			r.gap(subject, "its listeners", "elasticloadbalancing:DescribeListeners", err)
			break
		}
		lb.Listeners = append(lb.Listeners, page.Listeners...)
	}
	return lb
}

// gaps collects what could not be read.
type gaps struct {
	mu   sync.Mutex
	list []Gap
}

func (g *gaps) add(gap Gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, gap)
}

// gap notes that something could not be read.
func (r *reader) gap(s subject, what, action string, err error) {
	r.gaps.add(Gap{Group: s.group, Subject: s.name, What: what, Action: action, Denied: denied(err), Err: err})
}

// denied reports whether a permission is missing.
func denied(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (strings.HasPrefix(api.ErrorCode(), "AccessDenied") || strings.HasPrefix(api.ErrorCode(), "Unauthorized"))
}

// nameIn is the name in an ARN of Elastic Load Balancing
// (...:targetgroup/NAME/ID, ...:loadbalancer/net/NAME/ID).
func nameIn(arn string) string {
	if parts := strings.Split(arn, "/"); len(parts) > 2 {
		return parts[len(parts)-2]
	}
	return arn
}

// reason is an error of AWS in few words, without request ids and the names of
// what it went through.
func reason(err error) string {
	api, isAPI := errors.AsType[smithy.APIError](err)
	answer, isAnswer := errors.AsType[*smithyhttp.ResponseError](err)
	switch {
	case isAPI:
		return fmt.Sprintf("%s: %s", api.ErrorCode(), api.ErrorMessage())
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case isAnswer:
		return fmt.Sprintf("the answer has status %d and makes no sense", answer.HTTPStatusCode())
	}
	return err.Error()
}
