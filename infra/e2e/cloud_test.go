//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go/logging"
)

// The root of the repository, where cdk.json is.
const root = "../.."

const (
	account = "000000000000"
	region  = "us-east-1"
)

// cloud is an emulated AWS account.
type cloud struct {
	t        *testing.T
	endpoint string
	assembly string // cdk.out
	cfg      aws.Config
}

// startCloud runs ministack until the test ends.
func startCloud(t *testing.T) *cloud {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close() // it was opened only to find a free port
	c := &cloud{t: t, endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), assembly: filepath.Join(t.TempDir(), "cdk.out")}

	log := newLogFile(t, "ministack")
	cmd := exec.Command(filepath.Join(root, ".venv/bin/python"), "run_ministack.py")
	cmd.Env = append(c.environ(), fmt.Sprintf("GATEWAY_PORT=%d", port), "BIND_HOST=127.0.0.1", "AUTH=true", "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = log, log
	start(t, cmd)
	waitFor(t, 60*time.Second, "ministack to listen", func() error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	c.cfg, err = config.LoadDefaultConfig(t.Context(),
		config.WithRegion(region), config.WithBaseEndpoint(c.endpoint),
		config.WithLogger(logging.Nop{}), // ministack's ways of closing connections are no news
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("test", "test", "")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// environ is the environment of whatever calls the emulated account.
func (c *cloud) environ() []string {
	return append(os.Environ(),
		"AWS_ENDPOINT_URL="+c.endpoint, "AWS_REGION="+region, "AWS_DEFAULT_REGION="+region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true")
}

// cdk runs the CDK CLI and returns what it prints.
func (c *cloud) cdk(args ...string) (string, error) {
	cli, err := filepath.Abs(filepath.Join(root, "node_modules/.bin/cdk"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command(cli, append([]string{"--output", c.assembly, "--ci"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(c.environ(), "ARCH="+architecture().goArch, "NODE_NO_WARNINGS=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// mustCDK is cdk where failure ends the test.
func (c *cloud) mustCDK(args ...string) string {
	c.t.Helper()
	out, err := c.cdk(args...)
	if err != nil {
		c.t.Fatalf("cdk %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// operator builds the operator's command and returns what runs it on a fleet
// file, as an operator would who has nothing but that and the account.
func (c *cloud) operator(file string) func(args ...string) (string, error) {
	c.t.Helper()
	binary := filepath.Join(c.t.TempDir(), "radwitness")
	build := exec.Command("go", "build", "-o", binary, "./functions/reconciler")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("building the operator's command: %v\n%s", err, out)
	}
	return func(args ...string) (string, error) {
		cmd := exec.Command(binary, append([]string{"-config", file}, args...)...)
		cmd.Env = c.environ()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// place is what the account has before anything of ours.
type place struct {
	vpc, routeTable, targetGroup, secret string
	subnets                              []string
}

// furnish makes a VPC, a UDP target group with the servers in it, and the secret.
func (c *cloud) furnish(port int, servers []*radiusServer) place {
	c.t.Helper()
	ctx := c.t.Context()
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	var p place
	network := ec2.NewFromConfig(c.cfg)
	vpc, err := network.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("127.0.0.0/16")})
	must(err)
	p.vpc = *vpc.Vpc.VpcId
	for i, zone := range []string{"a", "b"} {
		subnet, err := network.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: &p.vpc, CidrBlock: aws.String(fmt.Sprintf("127.0.%d.0/24", i)), AvailabilityZone: aws.String(region + zone),
		})
		must(err)
		p.subnets = append(p.subnets, *subnet.Subnet.SubnetId)
	}
	table, err := network.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &p.vpc})
	must(err)
	p.routeTable = *table.RouteTable.RouteTableId

	balancer := elbv2.NewFromConfig(c.cfg)
	group, err := balancer.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{
		Name: aws.String("radius-auth"), Protocol: elbtypes.ProtocolEnumUdp, Port: aws.Int32(int32(port)),
		VpcId: &p.vpc, TargetType: elbtypes.TargetTypeEnumIp,
	})
	must(err)
	p.targetGroup = *group.TargetGroups[0].TargetGroupArn
	var targets []elbtypes.TargetDescription
	for _, s := range servers {
		targets = append(targets, elbtypes.TargetDescription{Id: &s.address})
	}
	_, err = balancer.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: &p.targetGroup, Targets: targets})
	must(err)

	value, err := json.Marshal(map[string]string{"shared_secret": sharedSecret, "username": username, "password": password})
	must(err)
	secret, err := secretsmanager.NewFromConfig(c.cfg).CreateSecret(ctx, &secretsmanager.CreateSecretInput{
		Name: aws.String("radius/vpn"), SecretString: aws.String(string(value)),
	})
	must(err)
	p.secret = *secret.ARN
	return p
}

// targets lists the addresses in the target group, sorted.
func (c *cloud) targets(p place) ([]string, error) {
	out, err := elbv2.NewFromConfig(c.cfg).DescribeTargetHealth(c.t.Context(), &elbv2.DescribeTargetHealthInput{TargetGroupArn: &p.targetGroup})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, d := range out.TargetHealthDescriptions {
		ids = append(ids, *d.Target.Id)
	}
	slices.Sort(ids)
	return ids, nil
}

// waitForTargets waits until exactly these servers are in the target group.
func (c *cloud) waitForTargets(p place, within time.Duration, servers ...*radiusServer) {
	c.t.Helper()
	var want []string
	for _, s := range servers {
		want = append(want, s.address)
	}
	waitFor(c.t, within, fmt.Sprintf("the targets to be %v", want), func() error {
		got, err := c.targets(p)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("they are %v", got)
		}
		return err
	})
}

// invoke calls a function and decodes its answer.
func (c *cloud) invoke(function, payload string, answer any) {
	c.t.Helper()
	out, err := lambda.NewFromConfig(c.cfg).Invoke(c.t.Context(), &lambda.InvokeInput{FunctionName: &function, Payload: []byte(payload)})
	if err != nil {
		c.t.Fatalf("invoking %s: %v", function, err)
	}
	if out.FunctionError != nil {
		c.t.Fatalf("%s answers %s: %s", function, *out.FunctionError, out.Payload)
	}
	if err := json.Unmarshal(out.Payload, answer); err != nil {
		c.t.Fatalf("reading the answer of %s, %s: %v", function, out.Payload, err)
	}
}

// command runs an operator's command and decodes what it prints. Its exit code
// depends on what it finds.
func (c *cloud) command(answer any, args ...string) {
	c.t.Helper()
	cmd := exec.Command("go", append([]string{"run", "./functions/reconciler"}, args...)...)
	cmd.Dir, cmd.Env = root, c.environ()
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		c.t.Fatalf("running %v: %v", args, err)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		c.t.Fatalf("reading what %v prints, %s: %v", args, out, err)
	}
}

// logs returns all that a function has logged.
func (c *cloud) logs(function string) string {
	c.t.Helper()
	client := cloudwatchlogs.NewFromConfig(c.cfg)
	group := "/aws/lambda/" + function
	var text strings.Builder
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(client, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group})
	for pages.HasMorePages() {
		page, err := pages.NextPage(c.t.Context())
		if err != nil {
			c.t.Fatalf("reading %s: %v", group, err)
		}
		for _, e := range page.Events {
			fmt.Fprintln(&text, aws.ToString(e.Message))
		}
	}
	return text.String()
}

// tables lists the tables of the account.
func (c *cloud) tables() ([]string, error) {
	out, err := dynamodb.NewFromConfig(c.cfg).ListTables(c.t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		return nil, err
	}
	return out.TableNames, nil
}

// functions lists the functions of the account.
func (c *cloud) functions() ([]string, error) {
	out, err := lambda.NewFromConfig(c.cfg).ListFunctions(c.t.Context(), &lambda.ListFunctionsInput{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range out.Functions {
		names = append(names, *f.FunctionName)
	}
	return names, nil
}

// waitFor asks again and again until there is no error.
func waitFor(t *testing.T, within time.Duration, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waiting %v for %s: %v", within, what, err)
		}
	}
}
