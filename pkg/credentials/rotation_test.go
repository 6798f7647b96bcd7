package credentials

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"radwitness/pkg/fleet"
)

// rotating is a Secrets Manager with versions by stage.
type rotating struct {
	versions map[Stage]string
	changed  time.Time // when the current version was made
	calls    map[Stage]int
}

func (r *rotating) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	stage := Stage(aws.ToString(in.VersionStage))
	r.calls[stage]++
	text, ok := r.versions[stage]
	if !ok {
		return nil, errors.New("ResourceNotFoundException")
	}
	return &secretsmanager.GetSecretValueOutput{SecretString: &text, CreatedDate: &r.changed}, nil
}

func version1(secret string) string {
	return `{"shared_secret":"` + secret + `","username":"probe","password":"open-sesame"}`
}

func newRotating(versions map[Stage]string) (*Store, *rotating) {
	r := &rotating{versions: versions, changed: time.Now(), calls: map[Stage]int{}}
	return &Store{SecretsManager: func() (SecretsManagerAPI, error) { return r, nil }}, r
}

func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newRotating(map[Stage]string{Current: version1("old")})
		want := func(secret string, calls int) {
			t.Helper()
			got, err := s.Renew(t.Context(), source)
			if err != nil || string(got.SharedSecret) != secret || r.calls[Current] != calls {
				t.Errorf("got %s after %d calls, %v; want %s after %d", []byte(got.SharedSecret), r.calls[Current], err, secret, calls)
			}
		}
		want("old", 1)
		r.versions[Current] = version1("new")
		time.Sleep(DefaultRenewAfter - time.Millisecond)
		want("old", 1)
		time.Sleep(time.Millisecond)
		want("new", 2)
		want("new", 2) // every server that shares the secret asks
		time.Sleep(DefaultRenewAfter)
		delete(r.versions, Current)
		want("new", 3) // what is there is kept
		want("new", 3)
		time.Sleep(DefaultRenewAfter)
		want("new", 4)
	})
}

func TestPrevious(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newRotating(map[Stage]string{Current: version1("new"), Previous: version1("old")})
		want := func(secret string) {
			t.Helper()
			got, ok := s.Previous(t.Context(), source)
			if ok != (secret != "") || string(got.SharedSecret) != secret {
				t.Errorf("got %q, %v; want %q", []byte(got.SharedSecret), ok, secret)
			}
		}
		want("old")
		want("old")
		if r.calls[Previous] != 1 {
			t.Errorf("%d calls", r.calls[Previous])
		}
		time.Sleep(DefaultRotation)
		want("old")
		time.Sleep(DefaultTTL)
		want("") // the change is too long ago
	})
}

func TestNoPrevious(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newRotating(map[Stage]string{Current: version1("only")})
		s.Warn = func(err error) { t.Errorf("warned of %v", err) }
		for range 3 {
			if _, ok := s.Previous(t.Context(), source); ok {
				t.Error("there is a previous version")
			}
			time.Sleep(DefaultTTL / 4)
		}
		if r.calls[Previous] != 1 {
			t.Errorf("asked %d times for a version that is not there", r.calls[Previous])
		}
		for _, other := range []fleet.Credential{{SSM: "/radius/corp"}, {Env: "LAB"}, {}} {
			if _, ok := s.Previous(t.Context(), other); ok {
				t.Errorf("%+v has a previous version", other)
			}
		}
	})
}

// Status-Server needs no account, and half an account is a mistake.
func TestSharedSecretAlone(t *testing.T) {
	s, f := newStore(`{"shared_secret":"hush-hush"}`, nil)
	got, err := s.Get(t.Context(), source)
	if err != nil || string(got.SharedSecret) != "hush-hush" || got.Username != "" || len(got.Password) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := s.Get(t.Context(), source); err != nil {
		t.Error(err)
	}
	f.wantCalls(t, 1)
	for _, half := range []string{`{"shared_secret":"s","username":"probe"}`, `{"shared_secret":"s","password":"p"}`} {
		s, _ := newStore(half, nil)
		if _, err := s.Get(t.Context(), source); err == nil {
			t.Errorf("%s was taken", half)
		}
	}
}
