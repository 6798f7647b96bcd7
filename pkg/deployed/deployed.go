// Package deployed finds what the commands work on: the fleet file, the AWS
// account, and the tables of the deployed stack. It says what to do about the
// errors that are met on the way.
package deployed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"radwitness/pkg/bootstrap"
	"radwitness/pkg/fleet"
)

// Source is what a command line and its environment say of a deployed system. What is
// empty is looked for in the usual places.
type Source struct {
	Environ     []string // in the form of os.Environ
	FleetFile   string
	Profile     string // of AWS, as Region is
	Region      string
	ProbesTable string
	HealthTable string
	Warn        func(string) // told what a report does not say
}

// System is a fleet with its AWS account.
type System struct {
	Fleet       *fleet.Fleet
	AWS         aws.Config
	ProbesTable string // both are empty after LogIn if nothing but the stack names them
	HealthTable string
}

// Connect finds the fleet, the AWS account and the tables.
func (s Source) Connect(ctx context.Context) (*System, error) {
	d, err := s.LogIn(ctx)
	if err == nil && (d.ProbesTable == "" || d.HealthTable == "") {
		err = s.Adopt(ctx, d)
	}
	return d, err
}

// LogIn finds the fleet and the AWS account, and the tables if they are named.
func (s Source) LogIn(ctx context.Context) (*System, error) {
	f, err := s.Fleet(s.Environ)
	if err != nil {
		return nil, err
	}
	d := &System{
		Fleet:       f,
		ProbesTable: cmp.Or(s.ProbesTable, s.Variable("RADWITNESS_PROBES_TABLE")),
		HealthTable: cmp.Or(s.HealthTable, s.Variable("RADWITNESS_HEALTH_TABLE")),
	}
	d.AWS, err = bootstrap.AWS(ctx,
		config.WithSharedConfigProfile(s.Profile), config.WithRegion(s.Region),
		config.WithLogger(logging.Nop{}), // an operator can do nothing about what the SDK finds odd
	)
	if err != nil {
		return nil, err
	}
	d.AWS.Region = cmp.Or(d.AWS.Region, RegionOf(f))
	if _, err := d.AWS.Credentials.Retrieve(ctx); err != nil {
		return nil, noCredentialsError{err}
	}
	return d, nil
}

// Fleet reads the fleet file with the overrides of an environment.
func (s Source) Fleet(environ []string) (*fleet.Fleet, error) {
	f, err := fleet.Load(cmp.Or(s.FleetFile, s.Variable("RADWITNESS_FLEET"), "fleet.yaml"), environ)
	if errors.Is(err, fs.ErrNotExist) && s.FleetFile == "" {
		return nil, fmt.Errorf("%w: say where it is with -config FILE or RADWITNESS_FLEET", err)
	}
	return f, err
}

// FleetOrNone is the fleet for suggestions, in which errors have no place.
func (s Source) FleetOrNone() *fleet.Fleet {
	if f, err := s.Fleet(s.Environ); err == nil {
		return f
	}
	return &fleet.Fleet{}
}

// LookUp returns a variable of the environment.
func (s Source) LookUp(name string) (string, bool) {
	for _, assignment := range s.Environ {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Variable is one of the environment, empty if it is not set.
func (s Source) Variable(name string) string {
	value, _ := s.LookUp(name)
	return value
}

// RegionOf is the region of a fleet's target groups, which all are in one
// (arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID).
func RegionOf(f *fleet.Fleet) string {
	return strings.Split(f.Groups[0].TargetGroups[0].ARN, ":")[3]
}

// Stack is the name of the deployed stack; empty if nothing tells it.
func (s Source) Stack(f *fleet.Fleet) string {
	if name := s.Variable("RADWITNESS_STACK"); name != "" || f.Deploy == nil {
		return name
	}
	return f.Deploy.StackName
}

// deployedFleet is the variable that says which fleet file is deployed.
const deployedFleet = "RADWITNESS_FLEET_VERSION"

// Adopt asks the deployed reconciler for its tables, and for the overrides that
// the functions run with.
func (s Source) Adopt(ctx context.Context, d *System) error {
	stack := s.Stack(d.Fleet)
	if stack == "" {
		return errors.New("it is not known which tables to read: the fleet file has no section deploy, so set RADWITNESS_STACK to the stack's name, or give -probes-table and -health-table")
	}
	name := stack + "-reconciler"
	out, err := lambda.NewFromConfig(d.AWS).GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return fmt.Errorf("asking function %s for its tables: %w", name, err)
	}
	deployed := map[string]string{}
	if out.Environment != nil {
		deployed = out.Environment.Variables
	}
	d.ProbesTable = cmp.Or(d.ProbesTable, deployed["RADWITNESS_PROBES_TABLE"])
	d.HealthTable = cmp.Or(d.HealthTable, deployed["RADWITNESS_HEALTH_TABLE"])
	if d.ProbesTable == "" || d.HealthTable == "" {
		return fmt.Errorf("function %s does not say which tables it uses: give -probes-table and -health-table", name)
	}
	// The last of a name wins: what this shell sets is set on purpose.
	environ := make([]string, 0, len(deployed)+len(s.Environ))
	for name, value := range deployed {
		environ = append(environ, name+"="+value)
	}
	if d.Fleet, err = s.Fleet(append(environ, s.Environ...)); err != nil {
		return err
	}
	if version := deployed[deployedFleet]; version != "" {
		file, err := s.Fleet(nil)
		if err != nil {
			return err
		}
		if file.Version != version {
			s.warn("this fleet file is version %s, and version %s is deployed: what is shown here is not what the functions do", file.Version, version)
		}
	}
	return nil
}

func (s Source) warn(format string, args ...any) {
	if s.Warn != nil {
		s.Warn(fmt.Sprintf(format, args...))
	}
}

// Explain says where a table was looked for that is not there; other errors it
// returns as they are.
func (d *System) Explain(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return fmt.Errorf("there is no table %s or %s in %s: deploy the stack, or choose another account, region or table (%w)",
			d.ProbesTable, d.HealthTable, d.place(ctx), err)
	}
	return err
}

// place names region and account, as far as AWS says which one it is.
func (d *System) place(ctx context.Context) string {
	out, err := sts.NewFromConfig(d.AWS).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return d.AWS.Region
	}
	return fmt.Sprintf("%s of account %s", d.AWS.Region, aws.ToString(out.Account))
}
