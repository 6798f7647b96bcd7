package prober_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"radwitness/pkg/credentials"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
)

// account is what a server lets in.
type account struct{ secret, password string }

// json is the account as a secret holds it.
func (a account) json() string {
	return fmt.Sprintf(`{"shared_secret":%q,"username":"probe","password":%q}`, a.secret, a.password)
}

// estate is servers that each know one account: silent to another shared
// secret, rejecting another password.
type estate struct {
	mu      sync.Mutex
	servers map[netip.AddrPort]account // one without an account is silent
	probes  int
	secrets map[credentials.Stage]account
	changed time.Time
	fetches int
	hangs   bool // Secrets Manager does not answer
}

func (e *estate) Probe(ctx context.Context, r probe.Request) probe.Result {
	e.mu.Lock()
	knows := e.servers[r.Server]
	e.probes++
	e.mu.Unlock()
	result := probe.Result{Outcome: health.Accept, Latency: time.Millisecond, Duration: time.Millisecond, Transactions: 1, Transmissions: 1}
	switch {
	case knows.secret != string(r.Credentials.SharedSecret):
		result = probe.Result{Outcome: health.Timeout, Duration: time.Duration(r.Attempts) * r.AttemptTimeout, Transactions: 1, Transmissions: r.Attempts}
	case knows.password != string(r.Credentials.Password):
		result.Outcome = health.Reject
	}
	select {
	case <-time.After(result.Duration):
		return result
	case <-ctx.Done():
		return probe.Result{Outcome: health.ProberError, Reason: ctx.Err().Error()}
	}
}

func (e *estate) GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	e.mu.Lock()
	hangs := e.hangs
	e.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fetches++
	a, ok := e.secrets[credentials.Stage(aws.ToString(in.VersionStage))]
	if !ok {
		return nil, errors.New("ResourceNotFoundException")
	}
	return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(a.json()), CreatedDate: aws.Time(e.changed)}, nil
}

// rotate makes a new current version of the secret.
func (e *estate) rotate(to account) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets[credentials.Previous] = e.secrets[credentials.Current]
	e.secrets[credentials.Current] = to
	e.changed = time.Now()
}

// set changes the account that a server knows.
func (e *estate) set(server netip.AddrPort, a account) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.servers[server] = a
}

// newEstate is servers that know the account, and a prober of them.
func newEstate(servers int, a account) (*estate, *world) {
	f := testFleet(servers, nil)
	f.Credentials = map[string]fleet.Credential{"corp": {SecretsManager: "corp"}}
	e := &estate{servers: map[netip.AddrPort]account{}, secrets: map[credentials.Stage]account{credentials.Current: a}, changed: time.Now().AddDate(0, -1, 0)}
	for i := range f.Groups[0].Servers {
		f.Groups[0].Servers[i].Credential = "corp"
		e.servers[addressOf(f, i)] = a
	}
	w := newWorld(f, nil)
	w.Transactor = e
	w.Credentials = &credentials.Store{SecretsManager: func() (credentials.SecretsManagerAPI, error) { return e, nil }}
	return e, w
}

func addressOf(f *fleet.Fleet, server int) netip.AddrPort {
	s := f.Groups[0].Servers[server]
	return netip.AddrPortFrom(s.Address, s.Checks[0].Port)
}

// counted returns how many failures were recorded, and how many successes by
// each stage.
func (w *world) counted() (failures int, stages map[string]int) {
	stages = map[string]int{}
	for _, r := range w.table.results {
		switch r.Evidence {
		case health.Failure:
			failures++
		case health.Success:
			stages[r.CredentialStage]++
		}
	}
	return failures, stages
}

// A shared secret, or a password, is changed in Secrets Manager and then on one
// server after the other, for ten minutes, with a minute's pause or more. No
// failure is counted.
func TestRotationServerByServer(t *testing.T) {
	for name, next := range map[string]account{
		"shared secret": {"new-secret", "password"},
		"password":      {"secret", "new-password"},
		"both":          {"new-secret", "new-password"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, w := newEstate(4, account{"secret", "password"})
				time.AfterFunc(90*time.Second, func() { e.rotate(next) })
				for i := range 4 {
					time.AfterFunc(time.Duration(100+150*i)*time.Second, func() { e.set(addressOf(w.Fleet, i), next) })
				}
				for range 12 {
					start := time.Now()
					if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(start.Add(time.Minute)))
				}
				failures, stages := w.counted()
				t.Logf("4 servers, 12 minutes: %d probes recorded, %d made, %d failures counted, successes by stage %v, %d fetches",
					len(w.table.results), e.probes, failures, stages, e.fetches)
				if failures != 0 || len(w.table.results) < 4*12*5 {
					t.Errorf("%d failures of %d probes", failures, len(w.table.results))
				}
				if stages[string(credentials.Previous)] == 0 || stages[string(credentials.Current)] == 0 || len(stages) != 2 {
					t.Errorf("successes by stage %v", stages)
				}
				for i := range 4 {
					row := w.table.rows[fmt.Sprintf("ise-%d", i+1)]
					if row.Outcome != health.Accept || row.ConsecutiveFailures != 0 {
						t.Errorf("in the end %+v", row)
					}
				}
			})
		})
	}
}

// A server that is really down is found with both versions at hand, and each
// probe costs it one transmission more.
func TestDownDuringARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEstate(2, account{"secret", "password"})
		e.rotate(account{"new-secret", "password"})
		e.set(addressOf(w.Fleet, 0), account{})
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if row := w.table.rows["ise-1"]; row.Outcome != health.Timeout || row.ConsecutiveFailures < 3 {
			t.Errorf("the one that is down: %+v", row)
		}
		for _, r := range w.table.results {
			if r.Server == "ise-1" && (r.Transmissions != 4 || r.Transactions != 2 || r.CredentialStage != "") {
				t.Errorf("%+v", r)
			}
			if r.Server == "ise-2" && (r.Outcome != health.Accept || r.CredentialStage != string(credentials.Previous)) {
				t.Errorf("%+v", r)
			}
		}
		if !strings.Contains(w.log.String(), `"previous_credentials":["ise-2"]`) {
			t.Error("the log does not say where the previous version is in use")
		}
	})
}

// Without a rotation a failing server is asked once a probe, and Secrets
// Manager no more than its rules say.
func TestNoRotationCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEstate(3, account{"secret", "password"})
		e.secrets[credentials.Previous] = account{"ancient", "ancient"} // as after any rotation, for ever
		for i := range 3 {
			e.set(addressOf(w.Fleet, i), account{"secret", "lost"})
		}
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		if e.probes != len(w.table.results) {
			t.Errorf("%d probes for %d results", e.probes, len(w.table.results))
		}
		if e.fetches > 2 {
			t.Errorf("%d fetches in a minute", e.fetches)
		}
	})
}

// A Secrets Manager that does not answer delays a verdict by little: three
// failures, of three seconds each and at most a second for the secret.
func TestVerdictWithoutSecretsManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEstate(1, account{"secret", "password"})
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		e.hangs = true
		e.mu.Unlock()
		e.set(addressOf(w.Fleet, 0), account{})
		before := len(w.table.results)
		start := time.Now()
		if err := w.Minute(t.Context(), prober.Shard{}); err != nil {
			t.Fatal(err)
		}
		third := w.table.results[before+2]
		if took := third.Round.Sub(start); third.Outcome != health.Timeout || took > 20*time.Second {
			t.Errorf("the third failure, %s, began after %v", third.Outcome, took)
		}
	})
}
