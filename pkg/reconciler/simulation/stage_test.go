package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"radwitness/pkg/balancer"
	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/credentials"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// stage is the system of the page's file, with actors for servers.
type stage struct {
	brief      bool
	group      fleet.Group
	prober     *prober.Prober
	reconciler *reconciler.Reconciler
	db         *dynamo
	health     *store.Health
	aws        *balancertest.AWS

	mu      sync.Mutex
	silent  bool // no event reaches the prober
	actors  map[string]*actor
	secrets map[string]string // by stage
	pending []reconciler.Record
	wasDown map[string]bool // servers whose newest probe failed
	stages  map[string]string
	said    string // newest decision
	start   time.Time
	rows    []row
	turn    sync.Mutex // of the reconciler
}

// actor is a server of a story.
type actor struct {
	plays  health.Outcome // what it does instead of accepting; empty if it is well
	secret string
}

func newStage(t *testing.T, st story) *stage {
	page, err := os.ReadFile(timelinePage)
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	if st.yaml[0] != "" && !strings.Contains(file, st.yaml[0]) {
		t.Fatalf("the page's file has no %q", st.yaml[0])
	}
	f, err := fleet.Parse(timelinePage, []byte(strings.ReplaceAll(file, st.yaml[0], st.yaml[1])), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		brief: st.brief, group: f.Groups[0], db: newDynamo(), aws: balancertest.New(nil),
		actors: map[string]*actor{}, secrets: map[string]string{"AWSCURRENT": oldSecret}, wasDown: map[string]bool{}, stages: map[string]string{},
	}
	s.health = &store.Health{DynamoDB: healthDB{s.db, s}, Table: healthTable}
	probes := &store.Probes{DynamoDB: s.db, Table: probesTable}
	vault := &credentials.Store{SecretsManager: func() (credentials.SecretsManagerAPI, error) { return s, nil }}
	quiet := slog.New(slog.DiscardHandler)
	s.prober = &prober.Prober{Fleet: f, Transactor: s, Credentials: vault, Store: witnessed{probes, s}, Log: quiet}
	s.reconciler = &reconciler.Reconciler{
		Fleet: f, Probes: probes, Health: s.health, Balancer: &balancer.Client{ELBv2: s.aws, EC2: s.aws}, Log: quiet,
	}
	tg := s.group.TargetGroups[0]
	s.aws.AddTargetGroup(balancertest.TargetGroup{
		ARN: tg.ARN, Port: 1812, Protocol: elbv2types.ProtocolEnumUdp, VPCID: vpc, DeregistrationDelay: 2 * time.Minute, InitialDelay: firstChecks,
	})
	for _, server := range s.group.Servers {
		s.actors[server.Name] = &actor{secret: oldSecret}
		s.aws.Put(tg.ARN, balancertest.Target{ID: server.Address.String(), Port: 1812, State: elbv2types.TargetHealthStateEnumHealthy})
	}
	return s
}

// schedule is EventBridge.
func (s *stage) schedule(ctx context.Context, running *sync.WaitGroup) {
	for ctx.Err() == nil {
		now := time.Now().UTC()
		s.mu.Lock()
		silent := s.silent
		s.mu.Unlock()
		if !silent {
			running.Go(func() {
				event := fmt.Sprintf(`{"detail-type":"Scheduled Event","time":%q}`, now.Format(time.RFC3339))
				_, _ = s.prober.Handle(ctx, []byte(event))
			})
		}
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
	}
}

// begin ends the warm-up: what comes now is told.
func (s *stage) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.rows = time.Now(), nil
}

// at plans an event of the story.
func (s *stage) at(d time.Duration, what string, do func()) {
	time.AfterFunc(d, func() {
		do()
		if what != "" {
			s.note(happening, what)
		}
	})
}

func (s *stage) names() []string {
	var names []string
	for _, server := range s.group.Servers {
		names = append(names, server.Name)
	}
	return names
}

// The things that happen in a story.

func (s *stage) play(server string, outcome health.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors[server].plays = outcome
}

func (s *stage) knows(server, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors[server].secret = secret
}

func (s *stage) rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets["AWSCURRENT"], s.secrets["AWSPREVIOUS"] = newSecret, s.secrets["AWSCURRENT"]
}

func (s *stage) stopped(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = yes
}

func (s *stage) deregister(server string) {
	found, _ := s.group.Server(server)
	tg := s.group.TargetGroups[0].ARN
	s.aws.Put(tg, balancertest.Target{ID: found.Address.String(), Port: 1812, State: elbv2types.TargetHealthStateEnumDraining})
}

func (s *stage) drain(server string, lasts time.Duration) {
	now := time.Now().UTC()
	orders := &store.Drains{DynamoDB: drainDB{s.db}, Table: healthTable}
	if err := orders.Save(context.Background(), s.group.Name, server, store.Drain{Since: now, Until: now.Add(lasts), Reason: "patching"}); err != nil {
		panic(err)
	}
}

func (s *stage) status(server string) health.Status {
	g, err := s.health.Group(context.Background(), s.group.Name)
	if err != nil {
		panic(err)
	}
	return g.States[server].Status
}

// GetSecretValue is Secrets Manager.
func (s *stage) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.secrets[*in.VersionStage]
	if !ok {
		return nil, errors.New("ResourceNotFoundException")
	}
	created := time.Now()
	text := fmt.Sprintf(`{"shared_secret":%q,"username":"probe","password":"x"}`, secret)
	return &secretsmanager.GetSecretValueOutput{SecretString: &text, CreatedDate: &created, VersionStages: []string{*in.VersionStage}}, nil
}

// Probe is the network and the servers. A server with another secret drops what
// it cannot verify.
func (s *stage) Probe(ctx context.Context, r probe.Request) probe.Result {
	s.mu.Lock()
	outcome, took, silence := health.Accept, answerTime, time.Duration(r.Attempts)*r.AttemptTimeout
	for _, server := range s.group.Servers {
		if server.Address != r.Server.Addr() {
			continue
		}
		a := s.actors[server.Name]
		switch {
		case a.plays == health.Timeout || string(r.Credentials.SharedSecret) != a.secret:
			outcome, took = health.Timeout, silence
		case a.plays == health.Reject:
			outcome, took = health.Reject, answerTime+rejectDelay
		case a.plays != "":
			outcome = a.plays
		}
	}
	s.mu.Unlock()
	select {
	case <-time.After(took):
		return probe.Result{Outcome: outcome, Transactions: 1, Transmissions: 1, Duration: took}
	case <-ctx.Done():
		return probe.Result{Outcome: health.ProberError, Reason: ctx.Err().Error()}
	}
}
