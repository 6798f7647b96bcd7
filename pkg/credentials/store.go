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
	Warn           func(error)                       // told when a refresh fails and the value at hand is kept; nil means nobody is

	mu      sync.Mutex
	entries map[fleet.Credential]entry
	flights singleflight.Group
}

// entry is the newest result for a source. A result with a value has no error.
type entry struct {
	value probe.Credentials
	err   error
	until time.Time // when to fetch again
}

// Get returns the credentials of a source. A value younger than the TTL comes
// from the cache; an older one is fetched again, and kept if that fails. Without
// any value, a failure is returned to every caller for RetryAfter, without a
// new fetch. The context ends the wait of this caller only, with the older value
// if there is one: a fetch serves all who wait for it. The caller must not change
// the bytes of the result.
func (s *Store) Get(ctx context.Context, source fleet.Credential) (probe.Credentials, error) {
	e, fresh := s.cached(source)
	if fresh {
		return e.value, e.err
	}
	fetched := s.flights.DoChan(describe(source), func() (any, error) {
		// Another flight may have landed since the look at the cache.
		if e, fresh := s.cached(source); fresh {
			return e, nil
		}
		return s.refresh(context.WithoutCancel(ctx), source), nil
	})
	select {
	case result := <-fetched:
		e = result.Val.(entry)
		return e.value, e.err
	case <-ctx.Done():
		if e.usable() {
			return e.value, nil
		}
		return probe.Credentials{}, fmt.Errorf("waiting for %s: %w", describe(source), context.Cause(ctx))
	}
}

// usable says whether the entry holds a value. None is without a user name.
func (e entry) usable() bool { return e.value.Username != "" }

// cached returns the newest result for a source, and whether it is too early to
// fetch again.
func (s *Store) cached(source fleet.Credential) (e entry, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.entries[source]
	return e, s.now().Before(e.until)
}

// refresh fetches from a source and caches what is to be served from now on.
func (s *Store) refresh(ctx context.Context, source fleet.Credential) entry {
	value, err := s.fetch(ctx, source)

	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry{value: value, until: s.now().Add(orDefault(s.TTL, DefaultTTL))}
	if err != nil {
		e = entry{err: fmt.Errorf("reading %s: %w", describe(source), err)}
		if old := s.entries[source]; old.usable() {
			if s.Warn != nil {
				s.Warn(fmt.Errorf("keeping older credentials: %w", e.err))
			}
			e = entry{value: old.value}
		}
		e.until = s.now().Add(orDefault(s.RetryAfter, DefaultRetryAfter))
	}
	if s.entries == nil {
		s.entries = map[fleet.Credential]entry{}
	}
	s.entries[source] = e
	return e
}

// fetch reads a source once, within the timeout.
func (s *Store) fetch(ctx context.Context, source fleet.Credential) (probe.Credentials, error) {
	timeout := orDefault(s.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var data []byte
	var err error
	switch {
	case source.SecretsManager != "":
		data, err = s.secret(ctx, source.SecretsManager)
	case source.SSM != "":
		data, err = s.parameter(ctx, source.SSM)
	case source.Env != "":
		return fromEnvironment(source.Env, s.lookupEnv)
	default:
		return probe.Credentials{}, errors.New("no source is set")
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s, is there a route to the service?: %w", timeout, err)
		}
		return probe.Credentials{}, err
	}
	return fromJSON(data)
}

func (s *Store) secret(ctx context.Context, id string) ([]byte, error) {
	if s.SecretsManager == nil {
		return nil, errors.New("there is no Secrets Manager here")
	}
	client, err := s.SecretsManager()
	if err != nil {
		return nil, fmt.Errorf("making a Secrets Manager client: %w", err)
	}
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{
		SecretId: aws.String(id),
		// The default, but a policy can be limited to it only if it is sent.
		VersionStage: aws.String("AWSCURRENT"),
	})
	if err != nil {
		return nil, err
	}
	if out.SecretString != nil {
		return []byte(*out.SecretString), nil
	}
	return out.SecretBinary, nil
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
