package lab

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/sivchari/kumo"

	"radwitness/pkg/probe"
	"radwitness/pkg/store/storetest"
)

const region = "us-east-1"

// cloud is kumo with what the CDK app and its user would have made in AWS.
type cloud struct {
	server         *kumo.Server
	suffix         string // of all names: kumo's servers share their state within a process
	stack          string // name of what the CDK app would have deployed
	operator       aws.Config
	functions      aws.Config // its calls are counted
	calls          *Calls
	probes, health string // tables
	stream         string // ARN
	nlb, vpc       string // ARN of the load balancer, id of its VPC
	listeners      int32
}

// newCloud starts kumo and creates tables and load balancer.
func newCloud(ctx context.Context, faults Faults) (*cloud, error) {
	server := kumo.NewServer()
	c := &cloud{server: server, suffix: strings.ToLower(rand.Text()[:8]), calls: &Calls{next: http.DefaultTransport}}
	c.operator = aws.Config{
		Region: region, BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("lab", "lab", ""),
	}
	c.functions = c.operator.Copy()
	c.functions.HTTPClient = &http.Client{Transport: c.calls}
	if faults != nil {
		c.functions.HTTPClient = &http.Client{Transport: faults.Transport(c.calls)}
	}
	c.stack = "radwitness-" + c.suffix
	c.probes, c.health = "probes-"+c.suffix, "health-"+c.suffix
	if err := c.create(ctx); err != nil {
		server.Close()
		return nil, err
	}
	return c, nil
}

func (c *cloud) create(ctx context.Context) (err error) {
	c.stream, err = storetest.CreateTables(ctx, dynamodb.NewFromConfig(c.operator), c.probes, c.health)
	if err != nil {
		return err
	}
	out, err := elbv2.NewFromConfig(c.operator).CreateLoadBalancer(ctx, &elbv2.CreateLoadBalancerInput{
		Name: aws.String("radius-" + c.suffix), Type: elbv2types.LoadBalancerTypeEnumNetwork,
		Scheme: elbv2types.LoadBalancerSchemeEnumInternal, Subnets: []string{"subnet-lab"},
	})
	if err != nil {
		return fmt.Errorf("creating the load balancer: %w", err)
	}
	c.nlb, c.vpc = aws.ToString(out.LoadBalancers[0].LoadBalancerArn), aws.ToString(out.LoadBalancers[0].VpcId)
	return nil
}

// createTargetGroup makes a UDP target group of type ip behind the load
// balancer, and returns its ARN.
func (c *cloud) createTargetGroup(ctx context.Context, port uint16) (string, error) {
	c.listeners++
	client := elbv2.NewFromConfig(c.operator)
	out, err := client.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{
		Name: aws.String(fmt.Sprintf("radius-%s-%d", c.suffix, c.listeners)), TargetType: elbv2types.TargetTypeEnumIp,
		Protocol: elbv2types.ProtocolEnumUdp, Port: aws.Int32(int32(port)), VpcId: &c.vpc,
		HealthCheckProtocol: elbv2types.ProtocolEnumTcp, // NLBs have no check over UDP
	})
	if err != nil {
		return "", fmt.Errorf("creating a target group: %w", err)
	}
	arn := out.TargetGroups[0].TargetGroupArn
	if err := setAttributes(ctx, client, arn); err != nil {
		return "", err
	}
	_, err = client.CreateListener(ctx, &elbv2.CreateListenerInput{
		LoadBalancerArn: &c.nlb, Protocol: elbv2types.ProtocolEnumUdp, Port: aws.Int32(1811 + c.listeners),
		DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: arn}},
	})
	if err != nil {
		return "", fmt.Errorf("creating a listener: %w", err)
	}
	return *arn, nil
}

// setAttributes sets what docs/deploy.md advises.
func setAttributes(ctx context.Context, client *elbv2.Client, targetGroup *string) error {
	in := &elbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: targetGroup}
	for _, a := range [][2]string{
		{"deregistration_delay.timeout_seconds", "120"},
		{"deregistration_delay.connection_termination.enabled", "true"},
		{"load_balancing.cross_zone.enabled", "true"},
	} {
		in.Attributes = append(in.Attributes, elbv2types.TargetGroupAttribute{Key: &a[0], Value: &a[1]})
	}
	if _, err := client.ModifyTargetGroupAttributes(ctx, in); err != nil {
		return fmt.Errorf("setting the attributes of a target group: %w", err)
	}
	return nil
}

// createSecret stores credentials as the prober expects them, and returns the
// secret's ARN.
func (c *cloud) createSecret(ctx context.Context, of probe.Credentials) (string, error) {
	value, err := json.Marshal(map[string]string{
		"shared_secret": string(of.SharedSecret), "username": of.Username, "password": string(of.Password),
	})
	if err != nil {
		return "", fmt.Errorf("encoding the secret: %w", err)
	}
	out, err := secretsmanager.NewFromConfig(c.operator).CreateSecret(ctx, &secretsmanager.CreateSecretInput{
		Name: aws.String("radius-" + c.suffix), SecretString: aws.String(string(value)),
	})
	if err != nil {
		return "", fmt.Errorf("creating the secret: %w", err)
	}
	return aws.ToString(out.ARN), nil
}
