package doctor

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/store"
)

// Facts are what was read. A nil pointer, map or slice is something that could
// not be, and stands among the Gaps.
type Facts struct {
	At          time.Time
	Fleet       *fleet.Fleet
	FileVersion string
	Stack       string
	ProbesTable string
	HealthTable string

	Groups      []*Group
	Credentials []*Credential
	Prober      *Function
	Reconciler  *Function
	Mappings    []Mapping // of the reconciler
	Schedules   []*Schedule
	Tables      []*Table // probes and health; none if nothing is deployed
	Queues      []Queue
	IteratorAge *time.Duration // oldest record of the last minutes that the reconciler was given
	Skew        *time.Duration // what this machine's clock is behind AWS's
	Gaps        []Gap
}

// silenced reports whether it is known already why no probes are made: a check of
// the stack says so.
func (f *Facts) silenced() bool {
	return f.Prober.stopped() || slices.ContainsFunc(f.Schedules, func(s *Schedule) bool {
		return s.Missing || s.State == schedulertypes.ScheduleStateDisabled
	})
}

// idle reports whether it is known already why the reconciler does nothing.
func (f *Facts) idle() bool {
	m := f.mapping()
	return f.Reconciler.stopped() || f.Mappings != nil && (m == nil || aws.ToString(m.State) != mappingEnabled)
}

// stopped reports whether a function cannot run.
func (fn *Function) stopped() bool {
	return fn != nil && (fn.Missing || fn.Reserved != nil && *fn.Reserved == 0)
}

// Gap is something that could not be read.
type Gap struct {
	Group   string
	Subject string
	What    string
	Action  string // the permission that it needs
	Denied  bool   // it is missing
	Err     error
}

// Group is a group of the fleet.
type Group struct {
	fleet.Group
	TargetGroups []*TargetGroup // in the order of the fleet
	Rows         map[string]store.ProbeRow
	Remembered   *store.GroupHealth
	Passes       *float64 // passes of the reconciler in the last minutes
}

// newest is the newest round of any check of the group, but for those from the
// future; zero if there is none.
func (g *Group) newest(now time.Time) time.Time {
	var newest time.Time
	for _, row := range g.Rows {
		if _, _, ok := g.Check(row.Server); ok && row.Round.After(newest) && !row.Round.After(now.Add(maxSkew)) {
			newest = row.Round
		}
	}
	return newest
}

// drained reports whether an operator keeps a server out.
func (g *Group) drained(s fleet.Server, now time.Time) bool {
	if s.Admin == fleet.AdminOut {
		return true
	}
	return g.Remembered != nil && now.Before(g.Remembered.Drains[s.Name].Until)
}

// TargetGroup is a target group and what leads to it.
type TargetGroup struct {
	Group      *Group
	Config     fleet.TargetGroup
	Missing    bool
	Described  *elbv2types.TargetGroup
	Attributes map[string]string
	// Plan is what a pass would do if every server that is not drained had to be in.
	Plan          *balancer.Plan
	LoadBalancers []*LoadBalancer // that listen for it
}

// LoadBalancer is a load balancer.
type LoadBalancer struct {
	elbv2types.LoadBalancer
	Attributes map[string]string
	Listeners  []elbv2types.Listener
	Listened   bool // the listeners could be read
}

// Credential is one source of a secret.
type Credential struct {
	Name    string
	Err     error // why a prober could not use it, without any part of the secret
	Unknown bool  // it could not be read from here: nothing follows
	Short   bool  // the shared secret has less than 16 octets
	Account bool  // it has a user name and a password
	Needed  bool  // a check of a server needs an account
}

// Function is a Lambda function.
type Function struct {
	Name        string
	Missing     bool
	State       lambdatypes.State
	StateReason string
	Update      lambdatypes.LastUpdateStatus
	Timeout     time.Duration
	Environment map[string]string
	Reserved    *int32 // concurrency; nil has none
	Concurrency bool   // Reserved could be read
}

// Mapping is an event source mapping.
type Mapping = lambdatypes.EventSourceMappingConfiguration

// Schedule is a schedule of the prober.
type Schedule struct {
	Name       string
	Missing    bool
	State      schedulertypes.ScheduleState
	Expression string
	Window     schedulertypes.FlexibleTimeWindowMode
	Target     string // ARN
}

// Table is a DynamoDB table.
type Table struct {
	Name      string
	SortKey   string // that it should have
	Streams   bool   // it should have a stream
	Missing   bool
	Status    string
	Keys      []string // partition key, sort key
	StreamARN string   // empty without a stream
	View      string   // of the stream
	Expiry    *string  // attribute of the time to live, empty if it is switched off
}

// Queue is a queue that holds what a function could not work on.
type Queue struct {
	Of       string // function
	URL      string
	Messages int
}
