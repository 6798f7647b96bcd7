// Package estate is a large fleet on one machine, for measurements: tables and
// target groups in an emulator of AWS, servers on loopback addresses, and the
// events that Lambda would send of them.
package estate

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"radwitness/pkg/fleet"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// What the emulator knows the estate by.
const (
	Region      = "us-east-1"
	ProbesTable = "probes"
	HealthTable = "health"
	// Port is the RADIUS port of every server: not the usual one, so that a real
	// server on this machine is left alone.
	Port   = 21812
	Secret = "estate-secret"
	User   = "witness"
	// Password is that of the test account.
	Password = "estate-password"
)

// Size is how large an estate is. The groups are of one size, or nearly.
type Size struct{ Servers, Groups int }

// Estate is a running one.
type Estate struct {
	URL       string // of the emulator
	FleetFile string
	Fleet     *fleet.Fleet

	emulator *emulator
	dir      string
	probes   *store.Probes
	rows     map[string]store.ProbeRow // the newest, by group/server
	records  int
}

// New makes an estate with all servers registered and none probed yet.
func New(ctx context.Context, size Size) (_ *Estate, err error) {
	if size.Groups < 1 || size.Servers < size.Groups {
		return nil, fmt.Errorf("making an estate: %d servers in %d groups: every group needs one", size.Servers, size.Groups)
	}
	e := &Estate{rows: map[string]store.ProbeRow{}}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if e.emulator, err = startEmulator(); err != nil {
		return nil, err
	}
	e.URL = e.emulator.url
	if e.dir, err = os.MkdirTemp("", "radwitness-bench-"); err != nil {
		return nil, fmt.Errorf("making an estate: %w", err)
	}
	db := dynamodb.NewFromConfig(e.AWS())
	e.probes = &store.Probes{DynamoDB: db, Table: ProbesTable}
	if _, err := storetest.CreateTables(ctx, db, ProbesTable, HealthTable); err != nil {
		return nil, err
	}
	text, err := e.create(ctx, size)
	if err != nil {
		return nil, err
	}
	e.FleetFile = filepath.Join(e.dir, "fleet.yaml")
	if err := os.WriteFile(e.FleetFile, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("making an estate: %w", err)
	}
	e.Fleet, err = fleet.Load(e.FleetFile, nil)
	return e, err
}

// AWS is a configuration for calls to the emulator.
func (e *Estate) AWS() aws.Config {
	return aws.Config{Region: Region, BaseEndpoint: &e.URL, Credentials: credentials.NewStaticCredentialsProvider("estate", "estate", "")}
}

// Close ends the emulator and removes the fleet file.
func (e *Estate) Close() {
	if e.emulator != nil {
		e.emulator.close()
	}
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// create makes secret and target groups, and returns the text of the fleet file.
func (e *Estate) create(ctx context.Context, size Size) (string, error) {
	secret, err := secretsmanager.NewFromConfig(e.AWS()).CreateSecret(ctx, &secretsmanager.CreateSecretInput{
		Name:         aws.String("radius/estate"),
		SecretString: aws.String(fmt.Sprintf(`{"shared_secret":%q,"username":%q,"password":%q}`, Secret, User, Password)),
	})
	if err != nil {
		return "", fmt.Errorf("creating the secret: %w", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "defaults:\n  probe: {port: %d}\ncredentials:\n  estate: {secrets_manager: %q}\ngroups:\n", Port, aws.ToString(secret.ARN))
	elb := elbv2.NewFromConfig(e.AWS())
	for g := range size.Groups {
		name := fmt.Sprintf("group-%03d", g)
		created, err := elb.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{
			Name: &name, Protocol: elbv2types.ProtocolEnumUdp, Port: aws.Int32(Port), TargetType: elbv2types.TargetTypeEnumIp, VpcId: aws.String("vpc-1"),
		})
		if err != nil {
			return "", fmt.Errorf("creating target group %s: %w", name, err)
		}
		arn := created.TargetGroups[0].TargetGroupArn
		fmt.Fprintf(&text, "  - name: %s\n    mode: enforce\n    target_groups: [{arn: %q}]\n    credentials: estate\n    servers:\n", name, *arn)
		var targets []elbv2types.TargetDescription
		for s := g; s < size.Servers; s += size.Groups {
			address := address(s).String()
			fmt.Fprintf(&text, "      - {name: server-%04d, address: %s}\n", s, address)
			targets = append(targets, elbv2types.TargetDescription{Id: &address, Port: aws.Int32(Port)})
		}
		if _, err := elb.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: arn, Targets: targets}); err != nil {
			return "", fmt.Errorf("registering the targets of %s: %w", name, err)
		}
	}
	return text.String(), nil
}

// address is the loopback address of a server.
func address(server int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 100, byte(server >> 8), byte(server)})
}
