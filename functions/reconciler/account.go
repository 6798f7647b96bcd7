//go:build !lambda.norpc

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/urfave/cli/v3"

	"radwitness/pkg/balancer"
	"radwitness/pkg/bootstrap"
	"radwitness/pkg/fleet"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// account is a deployment, and the means to look at it.
type account struct {
	fleet          *fleet.Fleet
	aws            aws.Config
	probes, health string // tables
}

// connect finds the fleet, the AWS account and the tables.
func (c console) connect(ctx context.Context, cmd *cli.Command) (*account, error) {
	a, err := c.login(ctx, cmd)
	if err == nil && (a.probes == "" || a.health == "") {
		err = c.adopt(ctx, cmd, a)
	}
	return a, err
}

// login finds the fleet and the AWS account, and the tables if they are named.
func (c console) login(ctx context.Context, cmd *cli.Command) (*account, error) {
	f, err := c.fleet(cmd, c.environ)
	if err != nil {
		return nil, err
	}
	a := &account{
		fleet:  f,
		probes: cmp.Or(cmd.String("probes-table"), c.variable("RADWITNESS_PROBES_TABLE")),
		health: cmp.Or(cmd.String("health-table"), c.variable("RADWITNESS_HEALTH_TABLE")),
	}
	a.aws, err = bootstrap.AWS(ctx,
		config.WithSharedConfigProfile(cmd.String("profile")), config.WithRegion(cmd.String("region")),
		config.WithLogger(logging.Nop{}), // an operator can do nothing about what the SDK finds odd
	)
	if err != nil {
		return nil, err
	}
	a.aws.Region = cmp.Or(a.aws.Region, regionOf(f))
	if _, err := a.aws.Credentials.Retrieve(ctx); err != nil {
		return nil, noCredentialsError{err}
	}
	return a, nil
}

// fleet reads the fleet file with the overrides of an environment.
func (c console) fleet(cmd *cli.Command, environ []string) (*fleet.Fleet, error) {
	path := cmp.Or(cmd.String("config"), c.variable("RADWITNESS_FLEET"), "fleet.yaml")
	f, err := fleet.Load(path, environ)
	if errors.Is(err, fs.ErrNotExist) && !cmd.IsSet("config") {
		return nil, fmt.Errorf("%w: say where it is with -config FILE or RADWITNESS_FLEET", err)
	}
	return f, err
}

// fleetOrNone is the fleet for suggestions, in which errors have no place.
func (c console) fleetOrNone(cmd *cli.Command) *fleet.Fleet {
	if f, err := c.fleet(cmd, c.environ); err == nil {
		return f
	}
	return &fleet.Fleet{}
}

// variable is one of the environment, empty if it is not set.
func (c console) variable(name string) string {
	for _, assignment := range c.environ {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return value
		}
	}
	return ""
}

// regionOf is the region of a fleet's target groups, which all are in one
// (arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID).
func regionOf(f *fleet.Fleet) string {
	return strings.Split(f.Groups[0].TargetGroups[0].ARN, ":")[3]
}

// stack is the name of the deployed stack; empty if nothing tells it.
func (c console) stack(f *fleet.Fleet) string {
	if name := c.variable("RADWITNESS_STACK"); name != "" || f.Deploy == nil {
		return name
	}
	return f.Deploy.StackName
}

// deployedFleet is the variable that says which fleet file is deployed.
const deployedFleet = "RADWITNESS_FLEET_VERSION"

// adopt asks the deployed reconciler for its tables, and for the overrides that
// the functions run with.
func (c console) adopt(ctx context.Context, cmd *cli.Command, a *account) error {
	stack := c.stack(a.fleet)
	if stack == "" {
		return errors.New("it is not known which tables to read: the fleet file has no section deploy, so set RADWITNESS_STACK to the stack's name, or give -probes-table and -health-table")
	}
	name := stack + "-reconciler"
	out, err := lambda.NewFromConfig(a.aws).GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return fmt.Errorf("asking function %s for its tables: %w", name, err)
	}
	deployed := map[string]string{}
	if out.Environment != nil {
		deployed = out.Environment.Variables
	}
	a.probes = cmp.Or(a.probes, deployed["RADWITNESS_PROBES_TABLE"])
	a.health = cmp.Or(a.health, deployed["RADWITNESS_HEALTH_TABLE"])
	if a.probes == "" || a.health == "" {
		return fmt.Errorf("function %s does not say which tables it uses: give -probes-table and -health-table", name)
	}
	// The last of a name wins: what this shell sets is set on purpose.
	environ := make([]string, 0, len(deployed)+len(c.environ))
	for name, value := range deployed {
		environ = append(environ, name+"="+value)
	}
	if a.fleet, err = c.fleet(cmd, append(environ, c.environ...)); err != nil {
		return err
	}
	if version := deployed[deployedFleet]; version != "" {
		file, err := c.fleet(cmd, nil)
		if err != nil {
			return err
		}
		if file.Version != version {
			c.warn("this fleet file is version %s, and version %s is deployed: what is shown here is not what the functions do", file.Version, version)
		}
	}
	return nil
}

// warn tells a person what a report does not.
func (c console) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, "radwitness: warning: "+format+"\n", args...)
}

// look does something with an operator's view of the deployment.
func (c console) look(ctx context.Context, cmd *cli.Command, do func(*operator.Operator) error) error {
	a, err := c.connect(ctx, cmd)
	if err != nil {
		return err
	}
	err = do(a.operator())
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return fmt.Errorf("there is no table %s or %s in %s: deploy the stack, or choose another account, region or table (%w)", a.probes, a.health, a.place(ctx), err)
	}
	return err
}

// place names region and account, as far as AWS says which one it is.
func (a *account) place(ctx context.Context) string {
	out, err := sts.NewFromConfig(a.aws).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return a.aws.Region
	}
	return fmt.Sprintf("%s of account %s", a.aws.Region, aws.ToString(out.Account))
}

// operator is what the commands look through. It decides with the reconciler's
// own code.
func (a *account) operator() *operator.Operator {
	db := dynamodb.NewFromConfig(a.aws)
	health := &store.Health{DynamoDB: db, Table: a.health}
	return &operator.Operator{
		Fleet:     a.fleet,
		Viewer:    a.reconciler(health),
		History:   health,
		Drains:    &store.Drains{DynamoDB: db, Table: a.health},
		Latencies: &operator.Metrics{CloudWatch: cloudwatch.NewFromConfig(a.aws)},
	}
}

// reconciler is one that only looks. What it would log is in what it returns.
func (a *account) reconciler(health *store.Health) *reconciler.Reconciler {
	return &reconciler.Reconciler{
		Fleet:    a.fleet,
		Probes:   &store.Probes{DynamoDB: health.DynamoDB, Table: a.probes},
		Health:   health,
		Balancer: &balancer.Client{ELBv2: elbv2.NewFromConfig(a.aws), EC2: ec2.NewFromConfig(a.aws)},
		Log:      slog.New(slog.DiscardHandler),
	}
}
