package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"radwitness/infra/local/eventsource"
	"radwitness/pkg/balancer"
	"radwitness/pkg/credentials"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
	"radwitness/pkg/telemetry"
)

// The functions' timeouts, as the CDK app sets them.
const (
	proberTimeout     = 90 * time.Second
	reconcilerTimeout = 60 * time.Second
)

// functions are both Lambda functions, and what invokes them.
type functions struct {
	mapping   eventsource.Mapping // of table probes to the reconciler
	metrics   *cloudWatch
	newProber func() *prober.Prober
	log       *slog.Logger // of what stands for AWS
	faults    Faults       // nil has none

	mu          sync.Mutex
	idleProbers []*prober.Prober
}

// newFunctions wires the functions as their mains do.
func newFunctions(l *Lab, cfg Config) (*functions, error) {
	log, err := telemetry.NewLogger(cfg.Log, "")
	if err != nil {
		return nil, err
	}
	sink := newCloudWatch(l.Operator, log.With("function", "lab"))
	metrics := &telemetry.Metrics{Out: io.MultiWriter(cfg.Log, sink)}
	db := dynamodb.NewFromConfig(l.cloud.functions)
	secrets := &credentials.Store{
		SecretsManager: sync.OnceValues(func() (credentials.SecretsManagerAPI, error) {
			return secretsmanager.NewFromConfig(l.cloud.functions), nil
		}),
		LookupEnv: lookup(cfg.Environ),
		Warn:      func(err error) { log.Warn("credentials not refreshed", "error", err) },
	}
	newReconciler := func() *reconciler.Reconciler {
		return &reconciler.Reconciler{
			Fleet:    l.Fleet,
			Probes:   &store.Probes{DynamoDB: db, Table: l.cloud.probes},
			Health:   &store.Health{DynamoDB: db, Table: l.cloud.health},
			Balancer: &balancer.Client{ELBv2: elbv2.NewFromConfig(l.cloud.functions)},
			Log:      log.With("function", "reconciler"),
			Metrics:  metrics,
		}
	}
	var warm atomic.Pointer[reconciler.Reconciler]
	warm.Store(newReconciler())
	reconcile := func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		return invoke(ctx, reconcilerTimeout, warm.Load().Handle, event)
	}
	f := &functions{metrics: sink, log: log.With("function", "lab"), faults: cfg.Faults}
	if f.faults != nil {
		handler := f.faults.Handler("reconciler", time.Second, reconcile)
		reconcile = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
			answer, err := handler(ctx, event)
			if err != nil {
				warm.Store(newReconciler()) // one that was killed comes back cold
			}
			return answer, err
		}
	}
	f.newProber = func() *prober.Prober {
		return &prober.Prober{
			Fleet: l.Fleet, Transactor: &probe.Prober{}, Credentials: secrets,
			Store: &store.Probes{DynamoDB: db, Table: l.cloud.probes},
			Log:   log.With("function", "prober"), Metrics: metrics,
		}
	}
	f.mapping = eventsource.Mapping{
		Streams: dynamodbstreams.NewFromConfig(l.Operator), StreamARN: l.cloud.stream, Log: f.log,
		Function: reconcile,
	}
	return f, nil
}

// lookup reads variables from an environment in the form of os.Environ.
func lookup(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, assignment := range environ {
			if value, ok := strings.CutPrefix(assignment, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

// invoke calls a handler as Lambda does: JSON in, JSON out, and a deadline.
func invoke(ctx context.Context, timeout time.Duration, handle func(context.Context, json.RawMessage) (any, error), event json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := handle(ctx, event)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return b, nil
}

// playSchedule sends a scheduled event now and every minute from then on, as
// rate(1 minute) does, until the context ends. Full minutes would let the second
// invocation overlap with the first for no good.
func (f *functions) playSchedule(ctx context.Context) {
	var invocations sync.WaitGroup
	defer invocations.Wait()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for ctx.Err() == nil {
		at := time.Now()
		invocations.Go(func() { f.invokeProber(ctx, at) })
		select {
		case <-minute.C:
		case <-ctx.Done():
		}
	}
}

// invokeProber runs one minute. A minute ends a little after the next has begun,
// and Lambda gives an environment to one invocation at a time, so there are two
// probers in turn.
func (f *functions) invokeProber(ctx context.Context, at time.Time) {
	event, err := json.Marshal(events.EventBridgeEvent{
		Version: "0", ID: at.UTC().Format("20060102T150405"), DetailType: "Scheduled Event", Source: "aws.scheduler",
		AccountID: "000000000000", Region: region, Time: at.UTC().Truncate(time.Second), Resources: []string{},
		Detail: json.RawMessage("{}"),
	})
	if err != nil {
		f.log.Error("scheduled event not sent", "error", err)
		return
	}
	p := f.takeProber()
	handler := Handler(func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		return invoke(ctx, proberTimeout, p.Handle, event)
	})
	if f.faults != nil {
		handler = f.faults.Handler("prober", time.Minute, handler)
	}
	_, err = handler(ctx, event)
	if err == nil || f.faults == nil {
		f.returnProber(p) // else it was killed
	}
	if err != nil {
		f.log.Error("the prober failed", "scheduled", at.UTC(), "error", err)
	}
}

func (f *functions) takeProber() *prober.Prober {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.idleProbers); n > 0 {
		p := f.idleProbers[n-1]
		f.idleProbers = f.idleProbers[:n-1]
		return p
	}
	return f.newProber()
}

func (f *functions) returnProber(p *prober.Prober) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idleProbers = append(f.idleProbers, p)
}
