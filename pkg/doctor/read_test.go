package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
	"radwitness/pkg/store"
)

// elb adds to the fake what only a doctor asks for.
type elb struct {
	*balancertest.AWS
	ELBv2
}

func (e elb) DescribeTargetGroups(ctx context.Context, in *elbv2.DescribeTargetGroupsInput, _ ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error) {
	return e.AWS.DescribeTargetGroups(ctx, in)
}

func (e elb) DescribeTargetGroupAttributes(context.Context, *elbv2.DescribeTargetGroupAttributesInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupAttributesOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDenied"}
}

// Servers are looked for in EC2 as the reconciler does it, also those that no
// pass would register now.
func TestInstances(t *testing.T) {
	cloud := balancertest.New(nil)
	cloud.AddTargetGroup(balancertest.TargetGroup{
		ARN: authARN, Type: elbv2types.TargetTypeEnumInstance, Port: 1812, Protocol: elbv2types.ProtocolEnumUdp, VPCID: "vpc-1",
	})
	cloud.SetInstance(balancertest.Instance{ID: "i-1", VPCID: "vpc-1", Primary: "10.0.1.10", Zone: "eu-central-1a"})
	cloud.SetInstance(balancertest.Instance{ID: "i-2", VPCID: "vpc-1", Primary: "10.0.1.11", State: ec2types.InstanceStateNameStopped})
	cloud.SetInstance(balancertest.Instance{ID: "i-3", VPCID: "vpc-1", Primary: "10.0.1.99", Secondary: []string{"10.0.1.12"}})
	cloud.SetInstance(balancertest.Instance{ID: "i-4", VPCID: "vpc-1", Primary: "10.0.1.13", State: ec2types.InstanceStateNameStopped})
	cloud.Put(authARN, balancertest.Target{ID: "i-1", Port: 1812, State: elbv2types.TargetHealthStateEnumHealthy})
	g := &Group{
		Group: fleet.Group{Name: "vpn"},
		Remembered: &store.GroupHealth{Drains: map[string]store.Drain{
			"drained": {Until: now.Add(time.Minute)}, "stopped": {Until: now.Add(-time.Minute)},
		}},
	}
	for i, name := range []string{"well", "stopped", "secondary", "drained", "nowhere"} {
		g.Servers = append(g.Servers, fleet.Server{
			Name: name, Address: netip.AddrFrom4([4]byte{10, 0, 1, byte(10 + i)}), Checks: []fleet.Probe{{Port: 1812}},
		})
	}
	r := &reader{Doctor: &Doctor{
		ELBv2: elb{AWS: cloud}, Planner: &balancer.Client{ELBv2: cloud, EC2: cloud}, Now: func() time.Time { return now },
	}}
	tg := &TargetGroup{Group: g, Config: fleet.TargetGroup{ARN: authARN}}
	r.readTargetGroup(t.Context(), tg)
	if tg.Plan == nil {
		t.Fatalf("no plan, gaps %+v", r.gaps.list)
	}
	var got []string
	for _, v := range checkServerTargets(tg) {
		got = append(got, string(v.level)+" "+v.says)
	}
	want := []string{
		"fail nowhere: no instance in vpc-1 has the address 10.0.1.14",
		"fail secondary: 10.0.1.12 is a secondary address of i-3; an instance target is served on its primary address 10.0.1.99: use an ip target group",
		"fail stopped: i-2 is stopped, only a running instance can be registered",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if zone := tg.Plan.Observed[0].Zone; zone != "eu-central-1a" {
		t.Errorf("the zone of an instance is %q, and EC2 knows it", zone)
	}
	wantGap := []Gap{{
		Group: "vpn", Subject: "target group auth", What: "its attributes",
		Action: "elasticloadbalancing:DescribeTargetGroupAttributes", Denied: true,
	}}
	for i := range r.gaps.list {
		r.gaps.list[i].Err = nil
	}
	if diff := cmp.Diff(wantGap, r.gaps.list); diff != "" || tg.Attributes != nil {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	if calls := cloud.Count(balancertest.RegisterTargets) + cloud.Count(balancertest.DeregisterTargets); calls != 0 {
		t.Errorf("a doctor has made %d changes", calls)
	}
}

// queues are Lambda and SQS as far as failures go there.
type queues struct {
	Lambda
	SQS
	destination string
	asked       []string
}

func (q *queues) GetFunctionEventInvokeConfig(context.Context, *lambda.GetFunctionEventInvokeConfigInput, ...func(*lambda.Options)) (*lambda.GetFunctionEventInvokeConfigOutput, error) {
	switch q.destination {
	case "":
		return nil, errors.New("no route")
	case "none":
		return nil, &lambdatypes.ResourceNotFoundException{}
	}
	return &lambda.GetFunctionEventInvokeConfigOutput{
		DestinationConfig: &lambdatypes.DestinationConfig{OnFailure: &lambdatypes.OnFailure{Destination: &q.destination}},
	}, nil
}

func (q *queues) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	q.asked = append(q.asked, *in.QueueOwnerAWSAccountId+"/"+*in.QueueName)
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("https://" + *in.QueueName)}, nil
}

func (q *queues) GetQueueAttributes(_ context.Context, in *sqs.GetQueueAttributesInput, _ ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	q.asked = append(q.asked, *in.QueueUrl)
	return &sqs.GetQueueAttributesOutput{Attributes: map[string]string{"ApproximateNumberOfMessages": "3"}}, nil
}

func TestFailuresOfTheProber(t *testing.T) {
	for _, test := range []struct {
		destination string
		want        []Queue
		asked       []string
		gaps        int
	}{
		{
			"arn:aws:sqs:eu-central-1:123456789012:minutes", []Queue{{Of: "radwitness-prober", URL: "https://minutes", Messages: 3}},
			[]string{"123456789012/minutes", "https://minutes"}, 0,
		},
		{"arn:aws:sns:eu-central-1:123456789012:topic", nil, nil, 0},
		{"none", nil, nil, 0},
		{"", nil, nil, 1},
	} {
		q := &queues{destination: test.destination}
		r := &reader{Doctor: &Doctor{Lambda: q, SQS: q}}
		got := r.proberQueue(t.Context(), &Function{Name: "radwitness-prober"})
		if diff := cmp.Diff(test.want, got); diff != "" || !cmp.Equal(q.asked, test.asked) || len(r.gaps.list) != test.gaps {
			t.Errorf("%q: asked for %v, gaps %v, queues:\n%s", test.destination, q.asked, r.gaps.list, diff)
		}
	}
}

// secrets answer with what they are told.
type secrets struct {
	value probe.Credentials
	err   error
}

func (s secrets) Get(context.Context, fleet.Credential) (probe.Credentials, error) {
	return s.value, s.err
}

// What is wrong with a secret is told from what keeps us from it.
func TestSecrets(t *testing.T) {
	call := func(err error) error {
		return fmt.Errorf("reading secret radius: %w", &smithy.OperationError{ServiceID: "Secrets Manager", OperationName: "GetSecretValue", Err: err})
	}
	manager, env := fleet.Credential{SecretsManager: "radius"}, fleet.Credential{Env: "LAB"}
	for _, test := range []struct {
		name   string
		source fleet.Credential
		secret secrets
		want   string
		gaps   int
	}{
		{"well", manager, secrets{value: probe.Credentials{SharedSecret: probe.Secret("0123456789abcdef"), Username: "u"}}, "ok can be read; ok 16 octets or more", 0},
		{"short", manager, secrets{value: probe.Credentials{SharedSecret: probe.Secret("0123456789abcde"), Username: "u"}},
			"ok can be read; warn the shared secret has less than 16 octets", 0},
		{"malformed", manager, secrets{err: errors.New("reading secret radius: is not a JSON object")}, "fail reading secret radius: is not a JSON object", 0},
		{"not there", manager, secrets{err: call(&smithy.GenericAPIError{Code: "ResourceNotFoundException", Message: "no"})}, "fail ResourceNotFoundException: no", 0},
		{"not ours to read", manager, secrets{err: call(&smithy.GenericAPIError{Code: "AccessDeniedException"})}, "", 1},
		{"no way to the API", manager, secrets{err: call(context.DeadlineExceeded)}, "", 1},
		{"another's environment", env, secrets{err: errors.New("LAB_SHARED_SECRET is missing or empty")}, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &reader{Doctor: &Doctor{Fleet: &fleet.Fleet{Credentials: map[string]fleet.Credential{"corp": test.source}}, Credentials: test.secret}}
			c := &Credential{Name: "corp", Needed: true}
			r.readCredential(t.Context(), c)
			var got []string
			if !c.Unknown {
				for _, v := range append(checkSecret(c), checkSecretLength(c)...) {
					got = append(got, string(v.level)+" "+v.says)
				}
			}
			if said := strings.Join(got, "; "); said != test.want || len(r.gaps.list) != test.gaps {
				t.Errorf("it says %q, want %q; gaps %v", said, test.want, r.gaps.list)
			}
		})
	}
}
