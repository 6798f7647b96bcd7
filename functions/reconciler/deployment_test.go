package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/sivchari/kumo"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// deployment is an emulated account with a stack, whose prober is the test, and
// the environment of a shell that leads to it.
type deployment struct {
	stack      string
	file       string // the fleet file
	fleet      *fleet.Fleet
	url        string
	cfg        aws.Config
	elb        *elbv2.Client
	probes     *store.Probes
	reconciler *reconciler.Reconciler
	round      time.Time
}

// deploy makes an account with a group vpn of the servers ise-1 to ise-3, whose
// functions run with the given overrides.
func deploy(t *testing.T, overrides ...string) *deployment {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	name := "stack-" + strings.ToLower(rand.Text()[:8]) // kumo's servers share their state within a process
	d := &deployment{stack: name, url: srv.URL, cfg: aws.Config{
		Region: "us-east-1", BaseEndpoint: &srv.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}}
	db := dynamodb.NewFromConfig(d.cfg)
	if _, err := storetest.CreateTables(t.Context(), db, name+"-probes", name+"-health"); err != nil {
		t.Fatal(err)
	}
	d.elb = elbv2.NewFromConfig(d.cfg)
	created, err := d.elb.CreateTargetGroup(t.Context(), &elbv2.CreateTargetGroupInput{
		Name: &name, Protocol: elbv2types.ProtocolEnumUdp, Port: aws.Int32(1812), TargetType: elbv2types.TargetTypeEnumIp, VpcId: aws.String("vpc-1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.file = filepath.Join(t.TempDir(), "fleet.yaml")
	text := fmt.Sprintf(`
credentials: {corp: {env: CORP}}
groups:
  - name: vpn
    target_groups: [{arn: "%s"}]
    credentials: corp
    reconcile_interval: 1s
    servers:
      - {name: ise-1, address: 10.0.1.10}
      - {name: ise-2, address: 10.0.1.11}
      - {name: ise-3, address: 10.0.1.12}
`, *created.TargetGroups[0].TargetGroupArn)
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.fleet, err = fleet.Load(d.file, nil); err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{
		"RADWITNESS_PROBES_TABLE": name + "-probes", "RADWITNESS_HEALTH_TABLE": name + "-health", "RADWITNESS_FLEET_VERSION": d.fleet.Version,
	}
	for _, assignment := range overrides {
		name, value, _ := strings.Cut(assignment, "=")
		variables[name] = value
	}
	_, err = lambda.NewFromConfig(d.cfg).CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: aws.String(name + "-reconciler"), Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Role: aws.String("arn:aws:iam::123456789012:role/test"), Code: &lambdatypes.FunctionCode{ZipFile: []byte("none")},
		Environment: &lambdatypes.Environment{Variables: variables},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.probes = &store.Probes{DynamoDB: db, Table: name + "-probes"}
	d.reconciler = &reconciler.Reconciler{
		Fleet: d.fleet, Probes: d.probes, Health: &store.Health{DynamoDB: db, Table: name + "-health"},
		Balancer: &balancer.Client{ELBv2: d.elb}, Log: slog.New(slog.DiscardHandler),
	}
	d.round = time.Now().Add(-20 * time.Second).Truncate(time.Millisecond).UTC()

	for _, v := range []string{"AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_SESSION_TOKEN"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_ENDPOINT_URL", srv.URL)
	t.Setenv("NO_COLOR", "1")
	return d
}

// rounds makes several rounds, each a second after the one before, and lets the
// reconciler work on them. The outcomes are a letter a server: a(ccept),
// r(eject).
func (d *deployment) rounds(t *testing.T, outcomes ...string) {
	t.Helper()
	for _, letters := range outcomes {
		if err := d.probe(t.Context(), letters); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *deployment) probe(ctx context.Context, letters string) error {
	g := d.fleet.Groups[0]
	d.round = d.round.Add(time.Second)
	var records []reconciler.Record
	for i, s := range g.Servers {
		c := s.Checks[0]
		result := store.ProbeResult{
			Group: g.Name, Server: c.Row, Address: netip.AddrPortFrom(s.Address, c.Port).String(), Method: string(c.Method), Round: d.round,
			Outcome: health.Accept, Latency: 2 * time.Millisecond, Transactions: 1, Transmissions: 1,
		}
		if letters[i] == 'r' {
			result.Outcome, result.ReplyMessage = health.Reject, "no directory"
		}
		result.Evidence = c.Criteria.Evidence(result.Outcome)
		row, err := d.probes.Record(ctx, result)
		if err != nil {
			return err
		}
		records = append(records, reconciler.Record{Sequence: c.Row, Row: row})
	}
	if again := d.reconciler.Reconcile(ctx, records); again != nil {
		return fmt.Errorf("records %v failed", again)
	}
	return nil
}

// removeByHand deregisters a target as somebody might do in the console.
func (d *deployment) removeByHand(t *testing.T, address string) {
	t.Helper()
	_, err := d.elb.DeregisterTargets(t.Context(), &elbv2.DeregisterTargetsInput{
		TargetGroupArn: &d.fleet.Groups[0].TargetGroups[0].ARN,
		Targets:        []elbv2types.TargetDescription{{Id: &address, Port: aws.Int32(1812)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// environ is the shell's environment for radwitness itself.
func (d *deployment) environ() []string {
	return []string{"RADWITNESS_FLEET=" + d.file, "RADWITNESS_STACK=" + d.stack}
}

// run runs a command line as the deployment's operator.
func (d *deployment) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return run(t, d.environ(), args...)
}

func run(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = console{environ, nil, &out, &errs, args}.run(t.Context())
	return code, out.String(), errs.String()
}
