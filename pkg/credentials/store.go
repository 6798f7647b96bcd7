// Package credentials fetches the shared secrets and test accounts that probes
// use, from Secrets Manager, the SSM Parameter Store or the environment.
//
// It is made for a caller that asks for the same few secrets again and again,
// and that must not fail because a refresh did: it caches, asks once for many
// callers, and keeps what it has when the source does not answer. No error of
// it holds a secret or a part of one.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"golang.org/x/sync/singleflight"

	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
)

// The values of a Store's fields that are left zero.
const (
	DefaultTTL        = 5 * time.Minute
	DefaultRetryAfter = 10 * time.Second
	DefaultTimeout    = 5 * time.Second
	DefaultRenewAfter = 30 * time.Second
	DefaultRotation   = 7 * 24 * time.Hour
)

// Stage names a version of a secret, in the words of Secrets Manager.
type Stage string

// The stages of a rotation. Only secrets of Secrets Manager have a previous one.
const (
	Current  Stage = "AWSCURRENT"
	Previous Stage = "AWSPREVIOUS"
)

// SecretsManagerAPI is what a Store calls of Secrets Manager.
type SecretsManagerAPI interface {
	GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, opts ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
}

// SSMAPI is what a Store calls of SSM.
type SSMAPI interface {
	GetParameter(ctx context.Context, in *ssm.GetParameterInput, opts ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Store fetches credentials and caches them by source. The zero Store reads the
// environment. A Store may be used by many goroutines and must not be copied.
//
// SecretsManager and SSM return the client of their service. They are called for
// each fetch, and not before, so that a fleet without secrets of that kind needs
// no AWS configuration; sync.OnceValues makes them build one client and keep it.
type Store struct {
	SecretsManager func() (SecretsManagerAPI, error) // nil if there is no Secrets Manager
	SSM            func() (SSMAPI, error)            // nil if there is no SSM
	LookupEnv      func(string) (string, bool)       // nil means os.LookupEnv
	Now            func() time.Time                  // nil means time.Now
	TTL            time.Duration                     // how long a value is served before it is fetched again; 0 means DefaultTTL
	RetryAfter     time.Duration                     // how long after a failed fetch the next one is made; 0 means DefaultRetryAfter
	Timeout        time.Duration                     // of one fetch, the SDK's own retries included; 0 means DefaultTimeout
	RenewAfter     time.Duration                     // how long after a fetch Renew makes the next one; 0 means DefaultRenewAfter
	Rotation       time.Duration                     // how long after a secret was changed its previous version may still be in use; 0 means DefaultRotation
	Warn           func(error)                       // told when a refresh fails and the value at hand is kept; nil means nobody is

	mu      sync.Mutex
	entries map[version]entry
	flights singleflight.Group
}

// version is one version of a source's credentials.
type version struct {
	source fleet.Credential
	stage  Stage
}

// String names the version in errors. It tells any two apart.
func (v version) String() string {
	if v.stage == Previous {
		return "previous version of " + describe(v.source)
	}
	return describe(v.source)
}

// entry is the newest result for a version. A result with a value has no error.
type entry struct {
	value   probe.Credentials
	created time.Time // when the version was made, zero if the source does not say
	err     error
	fetched time.Time
	until   time.Time // when to fetch again
}

// Get returns the credentials of a source. A value younger than the TTL comes
// from the cache; an older one is fetched again, and kept if that fails. Without
// any value, a failure is returned to every caller for RetryAfter, without a
// new fetch. The context ends the wait of this caller only, with the older value
// if there is one: a fetch serves all who wait for it. The caller must not change
// the bytes of the result.
func (s *Store) Get(ctx context.Context, source fleet.Credential) (probe.Credentials, error) {
	e := s.get(ctx, version{source, Current})
	return e.value, e.err
}

// Renew is a Get for a caller whom the cached value has failed: it fetches again
// if the last fetch is RenewAfter ago, however long the value would be good for.
func (s *Store) Renew(ctx context.Context, source fleet.Credential) (probe.Credentials, error) {
	e := s.await(ctx, version{source, Current}, func(e entry) bool {
		return s.now().Before(e.fetched.Add(orDefault(s.RenewAfter, DefaultRenewAfter)))
	})
	return e.value, e.err
}

// Previous returns the credentials that a secret held before it was last
// changed; false if it has none, if they cannot be read, or if the change is so
// long ago that every server must know the current ones.
func (s *Store) Previous(ctx context.Context, source fleet.Credential) (probe.Credentials, bool) {
	if source.SecretsManager == "" {
		return probe.Credentials{}, false
	}
	now := s.get(ctx, version{source, Current})
	if !now.created.IsZero() && s.now().Sub(now.created) > orDefault(s.Rotation, DefaultRotation) {
		return probe.Credentials{}, false
	}
	old := s.get(ctx, version{source, Previous})
	return old.value, old.usable()
}

// get returns the newest result for a version, fetched if it is time.
func (s *Store) get(ctx context.Context, v version) entry {
	return s.await(ctx, v, func(e entry) bool { return s.now().Before(e.until) })
}

// await returns the cached result for a version if it is fresh enough, and
// fetches it otherwise.
func (s *Store) await(ctx context.Context, v version, fresh func(entry) bool) entry {
	e := s.cached(v)
	if fresh(e) {
		return e
	}
	fetched := s.flights.DoChan(v.String(), func() (any, error) {
		// Another flight may have landed since the look at the cache.
		if e := s.cached(v); fresh(e) {
			return e, nil
		}
		return s.refresh(context.WithoutCancel(ctx), v), nil
	})
	select {
	case result := <-fetched:
		return result.Val.(entry)
	case <-ctx.Done():
		if e.usable() {
			return e
		}
		return entry{err: fmt.Errorf("waiting for %s: %w", v, context.Cause(ctx))}
	}
}

// usable says whether the entry holds a value. None is without a shared secret.
func (e entry) usable() bool { return len(e.value.SharedSecret) > 0 }

// cached returns the newest result for a version.
func (s *Store) cached(v version) entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[v]
}

// refresh fetches a version and caches what is to be served from now on.
func (s *Store) refresh(ctx context.Context, v version) entry {
	value, created, err := s.fetch(ctx, v)

	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e := entry{value: value, created: created, fetched: now, until: now.Add(orDefault(s.TTL, DefaultTTL))}
	switch old := s.entries[v]; {
	case err == nil:
	case v.stage == Previous:
		// Most often there is none, which is not worth asking about again soon.
		e.value, e.err = probe.Credentials{}, fmt.Errorf("reading %s: %w", v, err)
	default:
		e = entry{err: fmt.Errorf("reading %s: %w", v, err), fetched: now}
		if old.usable() {
			if s.Warn != nil {
				s.Warn(fmt.Errorf("keeping older credentials: %w", e.err))
			}
			e = entry{value: old.value, created: old.created, fetched: now}
		}
		e.until = now.Add(orDefault(s.RetryAfter, DefaultRetryAfter))
		if old.usable() && old.until.After(e.until) {
			e.until = old.until // a failed Renew does not shorten what Get serves
		}
	}
	if s.entries == nil {
		s.entries = map[version]entry{}
	}
	s.entries[v] = e
	return e
}

// fetch reads a version once, within the timeout, and when it was made.
func (s *Store) fetch(ctx context.Context, v version) (probe.Credentials, time.Time, error) {
	timeout := orDefault(s.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var data []byte
	var created time.Time
	var err error
	switch source := v.source; {
	case source.SecretsManager != "":
		data, created, err = s.secret(ctx, source.SecretsManager, v.stage)
	case source.SSM != "":
		data, err = s.parameter(ctx, source.SSM)
	case source.Env != "":
		value, err := fromEnvironment(source.Env, s.lookupEnv)
		return value, created, err
	default:
		return probe.Credentials{}, created, errors.New("no source is set")
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s, is there a route to the service?: %w", timeout, err)
		}
		return probe.Credentials{}, created, err
	}
	value, err := fromJSON(data)
	return value, created, err
}

func (s *Store) secret(ctx context.Context, id string, stage Stage) ([]byte, time.Time, error) {
	if s.SecretsManager == nil {
		return nil, time.Time{}, errors.New("there is no Secrets Manager here")
	}
	client, err := s.SecretsManager()
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("making a Secrets Manager client: %w", err)
	}
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{
		SecretId: aws.String(id),
		// Sent for the current version too: a policy can be limited to stages only then.
		VersionStage: aws.String(string(stage)),
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	created := aws.ToTime(out.CreatedDate)
	if out.SecretString != nil {
		return []byte(*out.SecretString), created, nil
	}
	return out.SecretBinary, created, nil
}

func (s *Store) parameter(ctx context.Context, name string) ([]byte, error) {
	if s.SSM == nil {
		return nil, errors.New("there is no SSM here")
	}
	client, err := s.SSM()
	if err != nil {
		return nil, fmt.Errorf("making an SSM client: %w", err)
	}
	out, err := client.GetParameter(ctx, &ssm.GetParameterInput{
		Name:           aws.String(name),
		WithDecryption: aws.Bool(true),
	})
	if err != nil {
		return nil, err
	}
	if out.Parameter == nil {
		return nil, errors.New("the answer holds no parameter")
	}
	return []byte(aws.ToString(out.Parameter.Value)), nil
}

func (s *Store) lookupEnv(name string) (string, bool) {
	if s.LookupEnv == nil {
		return os.LookupEnv(name)
	}
	return s.LookupEnv(name)
}

func (s *Store) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// describe names a source in errors. It tells any two sources apart.
func describe(source fleet.Credential) string {
	switch {
	case source.SecretsManager != "":
		return "secret " + source.SecretsManager
	case source.SSM != "":
		return "parameter " + source.SSM
	case source.Env != "":
		return "environment variables " + source.Env + "_*"
	}
	return "credentials"
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
