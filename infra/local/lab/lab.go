// Package lab runs the whole system in one process: kumo for AWS, RADIUS servers
// on loopback addresses, both functions' real handlers, and what calls them on
// AWS, the schedule and the stream's event source mapping.
//
// The functions know nothing of it: they get JSON events and talk HTTP to an
// endpoint. What the lab shows it reads as an operator would, from the two tables
// and from the load balancer.
package lab

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/store"
)

// Config says what to run.
type Config struct {
	Fleet       *File             // servers of the user's own, from LoadFleet; nil starts three servers of the lab's
	Environ     []string          // RADWITNESS_ overrides for the lab's servers, and the variables that credentials name
	Credentials probe.Credentials // of the lab's servers; zero makes random ones
	Log         io.Writer         // logs and metrics of the functions; must be safe for concurrent use
	Faults      Faults            // of AWS; nil has none
}

// Handler is a function as Lambda invokes it.
type Handler func(context.Context, json.RawMessage) (json.RawMessage, error)

// Faults break what is between the functions and AWS.
type Faults interface {
	// Transport makes the functions' calls.
	Transport(next http.RoundTripper) http.RoundTripper
	// Handler invokes a function; an invocation lives for longest at most, or as
	// long as it takes.
	Handler(name string, longest time.Duration, next Handler) Handler
}

// Lab is a running system. Its methods may be called from any goroutine.
type Lab struct {
	Fleet    *fleet.Fleet
	Calls    *Calls     // made by the functions
	Operator aws.Config // for clients of a person's own; their calls are not counted
	Probes   *store.Probes
	Health   *store.Health

	cloud      *cloud
	fleetText  []byte   // Fleet's file
	fleetDir   string   // where the files are that it names
	overrides  []string // of its keys
	elbv2      *elbv2.Client
	balancer   *balancer.Client
	servers    []*radiustest.Server // in the order of the group's; empty with a fleet of the user's own
	stopProber context.CancelFunc
	stopAll    context.CancelFunc
	prober     sync.WaitGroup
	reconciler sync.WaitGroup
}

// Start builds a lab and sets it going. Close ends it.
func Start(ctx context.Context, cfg Config) (_ *Lab, err error) {
	l := &Lab{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.cloud, err = newCloud(ctx, cfg.Faults); err != nil {
		return nil, err
	}
	l.Calls, l.Operator = l.cloud.calls, l.cloud.operator
	l.elbv2 = elbv2.NewFromConfig(l.Operator)
	l.balancer = &balancer.Client{ELBv2: l.elbv2}
	db := dynamodb.NewFromConfig(l.Operator)
	l.Probes = &store.Probes{DynamoDB: db, Table: l.cloud.probes}
	l.Health = &store.Health{DynamoDB: db, Table: l.cloud.health}

	name := "the lab's fleet.yaml"
	if cfg.Fleet != nil {
		name, l.fleetDir = cfg.Fleet.Path, filepath.Dir(cfg.Fleet.Path)
		l.fleetText, err = l.cloud.adopt(ctx, cfg.Fleet)
	} else {
		l.fleetText, err = l.ownFleet(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	if l.Fleet, err = fleet.Parse(name, l.fleetText, cfg.Environ); err != nil {
		return nil, err
	}
	file, err := fleet.Parse(name, l.fleetText, nil)
	if err != nil {
		return nil, err
	}
	l.overrides = fleet.Overrides(cfg.Environ)
	if err := l.cloud.deploy(ctx, file.Version, l.overrides); err != nil {
		return nil, err
	}
	f, err := newFunctions(l, cfg)
	if err != nil {
		return nil, err
	}
	var all, probing context.Context
	all, l.stopAll = context.WithCancel(context.WithoutCancel(ctx))
	probing, l.stopProber = context.WithCancel(all)
	l.prober.Go(func() { f.playSchedule(probing) })
	l.reconciler.Go(func() { f.mapping.Run(all) })
	l.reconciler.Go(func() { f.metrics.run(all) })
	return l, nil
}

// Close stops everything and waits for it.
func (l *Lab) Close() {
	if l.stopAll != nil {
		l.stopAll()
	}
	l.prober.Wait()
	l.reconciler.Wait()
	for _, s := range l.servers {
		s.Close()
	}
	if l.cloud != nil {
		l.cloud.server.Close()
	}
}

// StopProber ends the prober as a lost schedule or a broken deployment would,
// and returns when its last invocation is over. It does not come back.
func (l *Lab) StopProber() {
	l.stopProber()
	l.prober.Wait()
}

// Faults reports whether the servers are the lab's, so that they can have faults.
func (l *Lab) Faults() bool { return len(l.servers) > 0 }

// Packets is how many RADIUS requests the lab's servers have received.
func (l *Lab) Packets() int {
	n := 0
	for _, s := range l.servers {
		n += s.Received()
	}
	return n
}
