// Package functions_test runs both bootstraps as Lambda does: as processes that
// take their invocations from the Runtime API.
package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/sivchari/kumo"

	"radwitness/pkg/health"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

const (
	sharedSecret = "plugh-shared"
	password     = "battery-staple"
	// timeout of the functions: the prober's minute ends two seconds before it.
	timeout = 6 * time.Second
)

// account is an emulated AWS account with what a deployment makes.
type account struct {
	url         string
	cfg         aws.Config
	lambda      *lambda.Client
	db          *dynamodb.Client
	elb         *elbv2.Client
	targetGroup string
	fleet       string // path of the fleet file
}

func newAccount(t *testing.T, server netip.AddrPort) *account {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	a := &account{url: srv.URL, cfg: aws.Config{
		Region: "us-east-1", BaseEndpoint: &srv.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}}
	a.lambda, a.db, a.elb = lambda.NewFromConfig(a.cfg), dynamodb.NewFromConfig(a.cfg), elbv2.NewFromConfig(a.cfg)
	if _, err := storetest.CreateTables(t.Context(), a.db, "functions-probes", "functions-health"); err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(map[string]string{"shared_secret": sharedSecret, "username": "probe", "password": password})
	if err != nil {
		t.Fatal(err)
	}
	_, err = secretsmanager.NewFromConfig(a.cfg).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
		Name: aws.String("functions-secret"), SecretString: aws.String(string(secret)),
	})
	if err != nil {
		t.Fatal(err)
	}
	group, err := a.elb.CreateTargetGroup(t.Context(), &elbv2.CreateTargetGroupInput{
		Name: aws.String("functions"), Protocol: elbv2types.ProtocolEnumUdp, Port: aws.Int32(int32(server.Port())),
		TargetType: elbv2types.TargetTypeEnumIp, VpcId: aws.String("vpc-1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.targetGroup = aws.ToString(group.TargetGroups[0].TargetGroupArn)
	a.fleet = filepath.Join(t.TempDir(), "fleet.yaml")
	text := fmt.Sprintf(`
defaults: {probe: {interval: 1s, attempt_timeout: 250ms, attempts: 2, port: %d}}
credentials: {corp: {secrets_manager: functions-secret}}
groups:
  - {name: vpn, target_groups: [{arn: "%s"}], credentials: corp, servers: [{name: radius-1, address: %s}]}
`, server.Port(), a.targetGroup, server.Addr())
	if err := os.WriteFile(a.fleet, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start builds a function for this machine and runs it as a Lambda function.
func (a *account) start(t *testing.T, name string) *output {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-ldflags=-s -w", "-o", binary, "./"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	_, err := a.lambda.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &name, Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Role: aws.String("arn:aws:iam::123456789012:role/test"), Timeout: aws.Int32(int32(timeout.Seconds())),
		Code: &lambdatypes.FunctionCode{ZipFile: []byte("the process is started by hand")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out output
	process := exec.Command(binary)
	process.Stdout, process.Stderr = &out, &out
	process.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(a.url, "http://") + "/_runtime/" + name,
		"AWS_LAMBDA_FUNCTION_NAME=" + name, "AWS_LAMBDA_FUNCTION_VERSION=$LATEST", "_HANDLER=bootstrap", "LAMBDA_TASK_ROOT=" + filepath.Dir(a.fleet),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL=" + a.url,
		"RADWITNESS_PROBES_TABLE=functions-probes", "RADWITNESS_HEALTH_TABLE=functions-health",
		"RADWITNESS_EVENT_BUS=default", "RADWITNESS_FAILURE_QUEUE=" + a.url + "/123456789012/failures",
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	return &out
}

// invoke calls a function and returns its answer.
func (a *account) invoke(t *testing.T, name string, event any) string {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := a.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	if out.FunctionError != nil {
		t.Fatalf("%s failed: %s", name, out.Payload)
	}
	return string(out.Payload)
}

func TestBootstraps(t *testing.T) {
	server := radiustest.Start(t, radiustest.Config{Secret: sharedSecret, Users: map[string]string{"probe": password}})
	a := newAccount(t, server.Addr())
	logs := []*output{a.start(t, "prober"), a.start(t, "reconciler")}

	report := a.invoke(t, "prober", map[string]any{"group": "vpn", "server": "radius-1"})
	if !strings.Contains(report, `"outcome":"accept"`) {
		t.Errorf("request by hand: %s", report)
	}
	if answer := a.invoke(t, "prober", events.EventBridgeEvent{
		Version: "0", Source: "aws.events", DetailType: "Scheduled Event", Time: time.Now(), Detail: json.RawMessage("{}"),
	}); answer != "null" {
		t.Errorf("scheduled event: %s", answer)
	}
	probes := &store.Probes{DynamoDB: a.db, Table: "functions-probes"}
	rows, err := probes.Group(t.Context(), "vpn")
	if err != nil {
		t.Fatal(err)
	}
	row := rows["radius-1"]
	if row.Outcome != health.Accept || row.ConsecutiveSuccesses < 2 || row.Requests != int64(row.ConsecutiveSuccesses) {
		t.Fatalf("row after a scheduled event: %+v", row)
	}

	at := func(t time.Time) events.DynamoDBAttributeValue {
		return events.NewStringAttribute(t.Format("2006-01-02T15:04:05.000Z"))
	}
	answer := a.invoke(t, "reconciler", events.DynamoDBEvent{Records: []events.DynamoDBEventRecord{{
		EventID: "1", EventName: "MODIFY", EventSource: "aws:dynamodb", Change: events.DynamoDBStreamRecord{
			SequenceNumber: "100", StreamViewType: "NEW_AND_OLD_IMAGES",
			NewImage: map[string]events.DynamoDBAttributeValue{
				"group": events.NewStringAttribute("vpn"), "server": events.NewStringAttribute("radius-1"),
				"round": at(row.Round), "outcome": events.NewStringAttribute(string(row.Outcome)),
				"consecutive_successes": events.NewNumberAttribute(fmt.Sprint(row.ConsecutiveSuccesses)),
				"success_since":         at(row.SuccessSince), "last_success": at(row.LastSuccess),
			},
		},
	}}})
	if answer != `{"batchItemFailures":[]}` {
		t.Errorf("stream event: %s", answer)
	}
	targets, err := a.elb.DescribeTargetHealth(t.Context(), &elbv2.DescribeTargetHealthInput{TargetGroupArn: &a.targetGroup})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(targets.TargetHealthDescriptions); n != 1 {
		t.Errorf("%d targets registered, want the server", n)
	}
	plan := a.invoke(t, "reconciler", map[string]string{"action": "plan", "group": "vpn"})
	if !strings.Contains(plan, `"case":"serving"`) {
		t.Errorf("plan: %s", plan)
	}

	for _, log := range logs {
		text := log.String()
		if !strings.Contains(text, `"msg":"minute"`) && !strings.Contains(text, `"msg":"pass"`) {
			t.Errorf("log without a minute or a pass:\n%s", text)
		}
		for _, s := range []string{sharedSecret, password} {
			if strings.Contains(text+report+plan, s) {
				t.Errorf("a secret is shown:\n%s", text)
			}
		}
	}
}
