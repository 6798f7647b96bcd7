package credentials

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
)

const (
	secretARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:corp-AbCdEf"
	good      = `{"shared_secret":"hush-hush","username":"probe","password":"open-sesame"}`
)

var source = fleet.Credential{SecretsManager: secretARN}

// fakeSecrets is a Secrets Manager that answers what the test says.
type fakeSecrets struct {
	answer func(ctx context.Context) (*secretsmanager.GetSecretValueOutput, error)
	inputs chan *secretsmanager.GetSecretValueInput
}

func (f *fakeSecrets) GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	f.inputs <- in
	return f.answer(ctx)
}

// newStore returns a store on a fake that answers with a text or an error, and
// the fake. The fake's inputs count its calls.
func newStore(text string, err error) (*Store, *fakeSecrets) {
	f := &fakeSecrets{inputs: make(chan *secretsmanager.GetSecretValueInput, 10_000)}
	f.say(text, err)
	return &Store{SecretsManager: func() (SecretsManagerAPI, error) { return f, nil }}, f
}

func (f *fakeSecrets) say(text string, err error) {
	f.answer = func(context.Context) (*secretsmanager.GetSecretValueOutput, error) {
		return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(text)}, err
	}
}

func (f *fakeSecrets) wantCalls(t *testing.T, want int) {
	t.Helper()
	if got := len(f.inputs); got != want {
		t.Errorf("%d calls of GetSecretValue, want %d", got, want)
	}
}

type fakeSSM struct {
	value string
	err   error
	input *ssm.GetParameterInput
}

func (f *fakeSSM) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	f.input = in
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: &f.value}}, f.err
}

func TestSecretsManager(t *testing.T) {
	s, f := newStore(good, nil)
	got, err := s.Get(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	wantCredentials(t, got, "hush-hush", "probe", "open-sesame")
	if in := <-f.inputs; *in.SecretId != secretARN || aws.ToString(in.VersionStage) != "AWSCURRENT" {
		t.Errorf("asked for %s, stage %s", *in.SecretId, aws.ToString(in.VersionStage))
	}
}

func TestSecretBinary(t *testing.T) {
	s, f := newStore("", nil)
	f.answer = func(context.Context) (*secretsmanager.GetSecretValueOutput, error) {
		return &secretsmanager.GetSecretValueOutput{SecretBinary: []byte(good)}, nil
	}
	got, err := s.Get(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	wantCredentials(t, got, "hush-hush", "probe", "open-sesame")
}

func TestSSM(t *testing.T) {
	f := &fakeSSM{value: good}
	s := &Store{SSM: func() (SSMAPI, error) { return f, nil }}
	got, err := s.Get(t.Context(), fleet.Credential{SSM: "/radius/corp"})
	if err != nil {
		t.Fatal(err)
	}
	wantCredentials(t, got, "hush-hush", "probe", "open-sesame")
	if *f.input.Name != "/radius/corp" || !aws.ToBool(f.input.WithDecryption) {
		t.Errorf("asked for %s, decryption %v", *f.input.Name, aws.ToBool(f.input.WithDecryption))
	}
}

func TestEnvironment(t *testing.T) {
	s := &Store{LookupEnv: lookupIn(map[string]string{
		"LAB_SHARED_SECRET_BASE64": base64.StdEncoding.EncodeToString([]byte{0, 0xff, '\n'}),
		"LAB_USERNAME":             "probe",
		"LAB_PASSWORD":             "p\xe9 ",
	})}
	got, err := s.Get(t.Context(), fleet.Credential{Env: "LAB"})
	if err != nil {
		t.Fatal(err)
	}
	wantCredentials(t, got, "\x00\xff\n", "probe", "p\xe9 ")

	t.Setenv("DESK_SHARED_SECRET", "hush-hush")
	t.Setenv("DESK_USERNAME", "probe")
	t.Setenv("DESK_PASSWORD", "open-sesame")
	got, err = new(Store).Get(t.Context(), fleet.Credential{Env: "DESK"})
	if err != nil {
		t.Fatal(err)
	}
	wantCredentials(t, got, "hush-hush", "probe", "open-sesame")

	_, err = s.Get(t.Context(), fleet.Credential{Env: "NONE"})
	wantError(t, err, "reading environment variables NONE_*: NONE_SHARED_SECRET is missing or empty")
}

func TestValues(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	tests := []struct {
		name                       string
		json                       string
		secret, username, password string
	}{
		{"unknown keys", `{"shared_secret":"s","username":"u","password":"p","host":{"a":[1]},"Password":"x"}`, "s", "u", "p"},
		{"white space within", `{"shared_secret":" s s","username":" u ","password":" p "}`, " s s", " u ", " p "},
		{"binary", `{"shared_secret_base64":"` + b64([]byte("\x00s\xff \n")) + `","username":"u","password_base64":"` + b64([]byte("\xe9\x00")) + `"}`,
			"\x00s\xff \n", "u", "\xe9\x00"},
		{"escapes", `{"shared_secret":"\u0000\"\u00e9","username":"u","password":"\ud83d\ude00"}`, "\x00\"é", "u", "\U0001f600"},
		{"128 bytes", `{"shared_secret":"s","username":"u","password":"` + strings.Repeat("p", 128) + `"}`, "s", "u", strings.Repeat("p", 128)},
		{"253 bytes", `{"shared_secret":"s","username":"` + strings.Repeat("u", 253) + `","password":"p"}`, "s", strings.Repeat("u", 253), "p"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newStore(test.json, nil)
			got, err := s.Get(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			wantCredentials(t, got, test.secret, test.username, test.password)
		})
	}
}

func TestRefusedValues(t *testing.T) {
	tests := []struct {
		name string
		json string
		want string
	}{
		{"empty", "", "is not a JSON object"},
		{"plain text", "hush-hush", "is not a JSON object"},
		{"text in quotes", `"hush-hush"`, "is not a JSON object"},
		{"null", "null", "is not a JSON object"},
		{"cut off", good[:len(good)-1], "is not a JSON object"},
		{"two objects", good + good, "is not a JSON object"},
		{"not UTF-8", strings.Replace(good, "sesame", "sesam\xe9", 1), "is not UTF-8; put such values into the keys that end in _base64"},
		{"half a surrogate pair", strings.Replace(good, "sesame", `sesame\ud800`, 1), "password is not Unicode text; put such values into the keys that end in _base64"},
		{"number", `{"shared_secret":"hush-hush","username":"probe","password":7788990011}`, "password is not a JSON string"},
		{"null value", `{"shared_secret":null,"username":"probe","password":"open-sesame"}`, "shared_secret is not a JSON string"},
		{"no secret", `{"username":"probe","password":"open-sesame"}`, "shared_secret is missing or empty"},
		{"empty secret", `{"shared_secret":"","username":"probe","password":"open-sesame"}`, "shared_secret is missing or empty"},
		{"no user name", `{"shared_secret":"hush-hush","password":"open-sesame"}`, "username is missing or empty"},
		{"other case", `{"shared_secret":"hush-hush","Username":"probe","password":"open-sesame"}`, "username is missing or empty"},
		{"no password", `{"shared_secret":"hush-hush","username":"probe"}`, "password is missing or empty"},
		{"empty password", `{"shared_secret":"hush-hush","username":"probe","password_base64":""}`, "password is missing or empty"},
		{"newline", `{"shared_secret":"hush-hush\n","username":"probe","password":"open-sesame"}`,
			"shared_secret ends with white space, often a newline from a file; if it belongs there, use shared_secret_base64"},
		{"space", `{"shared_secret":"hush-hush\u00a0","username":"probe","password":"open-sesame"}`,
			"shared_secret ends with white space, often a newline from a file; if it belongs there, use shared_secret_base64"},
		{"a user name that ends with a newline", `{"shared_secret":"s","username":"u\n","password":"p"}`,
			"username ends with a newline, as from a file"},
		{"a password that ends with a newline", `{"shared_secret":"s","username":"u","password":"p\n"}`,
			"password ends with a newline, as from a file"},
		{"both forms", `{"shared_secret":"hush-hush","shared_secret_base64":"aHVzaA==","username":"probe","password":"open-sesame"}`,
			"shared_secret and shared_secret_base64 are both given"},
		{"bad base64", `{"shared_secret":"hush-hush","username":"probe","password_base64":"open-sesame"}`, "password_base64 is not base64"},
		{"129 bytes", `{"shared_secret":"hush-hush","username":"probe","password":"` + strings.Repeat("open-sesame", 12)[:129] + `"}`, "password is longer than 128 bytes"},
		{"254 bytes", `{"shared_secret":"hush-hush","username":"` + strings.Repeat("u", 254) + `","password":"open-sesame"}`, "username is longer than 253 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newStore(test.json, nil)
			got, err := s.Get(t.Context(), source)
			wantError(t, err, "reading secret "+secretARN+": "+test.want)
			if got.SharedSecret != nil || got.Username != "" || got.Password != nil {
				t.Error("credentials came with the error")
			}
		})
	}
}

func TestSourcesThatAreNotThere(t *testing.T) {
	broken := errors.New("no region")
	none := &Store{}
	failing := &Store{
		SecretsManager: func() (SecretsManagerAPI, error) { return nil, broken },
		SSM:            func() (SSMAPI, error) { return nil, broken },
	}
	tests := []struct {
		store  *Store
		source fleet.Credential
		want   string
	}{
		{none, fleet.Credential{}, "reading credentials: no source is set"},
		{none, source, "reading secret " + secretARN + ": there is no Secrets Manager here"},
		{none, fleet.Credential{SSM: "/c"}, "reading parameter /c: there is no SSM here"},
		{failing, source, "reading secret " + secretARN + ": making a Secrets Manager client: no region"},
		{failing, fleet.Credential{SSM: "/c"}, "reading parameter /c: making an SSM client: no region"},
		{&Store{SSM: func() (SSMAPI, error) { return &fakeSSM{err: broken}, nil }}, fleet.Credential{SSM: "/c"}, "reading parameter /c: no region"},
		{&Store{SSM: func() (SSMAPI, error) { return emptySSM{}, nil }}, fleet.Credential{SSM: "/c"}, "reading parameter /c: the answer holds no parameter"},
	}
	for _, test := range tests {
		_, err := test.store.Get(t.Context(), test.source)
		wantError(t, err, test.want)
	}
}

type emptySSM struct{}

func (emptySSM) GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	return &ssm.GetParameterOutput{}, nil
}

func TestNoClientIsBuiltBeforeItIsNeeded(t *testing.T) {
	s := &Store{
		SecretsManager: func() (SecretsManagerAPI, error) { t.Error("built a client"); return nil, errors.New("unused") },
		SSM:            func() (SSMAPI, error) { t.Error("built a client"); return nil, errors.New("unused") },
		LookupEnv:      lookupIn(map[string]string{"LAB_SHARED_SECRET": "s", "LAB_USERNAME": "u", "LAB_PASSWORD": "p"}),
	}
	if _, err := s.Get(t.Context(), fleet.Credential{Env: "LAB"}); err != nil {
		t.Fatal(err)
	}
}

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, f := newStore(good, nil)
	s.Now = func() time.Time { return now }
	get := func() probe.Credentials {
		t.Helper()
		c, err := s.Get(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	get()
	f.say(strings.Replace(good, "open-sesame", "rotated", 1), nil)
	now = now.Add(DefaultTTL - 1)
	wantCredentials(t, get(), "hush-hush", "probe", "open-sesame")
	f.wantCalls(t, 1)
	now = now.Add(1)
	wantCredentials(t, get(), "hush-hush", "probe", "rotated")
	f.wantCalls(t, 2)
	now = now.Add(DefaultTTL - 1)
	get()
	f.wantCalls(t, 2)
}

func TestSourcesAreCachedApart(t *testing.T) {
	s, f := newStore(good, nil)
	for range 3 {
		for _, id := range []string{"a", "b"} {
			if _, err := s.Get(t.Context(), fleet.Credential{SecretsManager: id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.wantCalls(t, 2)
}

func TestFailedRefreshKeepsTheValue(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	throttled := errors.New("ThrottlingException")
	var warnings []error
	s, f := newStore(good, nil)
	s.Now = func() time.Time { return now }
	s.Warn = func(err error) { warnings = append(warnings, err) }
	get := func() {
		t.Helper()
		c, err := s.Get(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		wantCredentials(t, c, "hush-hush", "probe", "open-sesame")
	}
	get()
	f.say("", throttled)
	now = now.Add(DefaultTTL)
	get()
	now = now.Add(DefaultRetryAfter - 1)
	get()
	f.wantCalls(t, 2)
	now = now.Add(1)
	get()
	f.wantCalls(t, 3)

	// A new version of the secret that cannot be used is no better than none.
	f.say(`{"shared_secret":"hush-hush2`, nil)
	now = now.Add(DefaultRetryAfter)
	get()
	if len(warnings) != 3 || !errors.Is(warnings[0], throttled) {
		t.Fatalf("warnings are %v, want three", warnings)
	}
	wantError(t, warnings[0], "keeping older credentials: reading secret "+secretARN+": ThrottlingException")
	wantError(t, warnings[2], "keeping older credentials: reading secret "+secretARN+": is not a JSON object")

	// Once a refresh works, the value lives for the whole TTL again.
	f.say(good, nil)
	now = now.Add(DefaultRetryAfter)
	get()
	now = now.Add(DefaultTTL - 1)
	get()
	f.wantCalls(t, 5)

	// Nobody has to listen.
	s.Warn = nil
	f.say("", throttled)
	now = now.Add(1)
	get()
}

func TestFailureIsRememberedShortly(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	denied := errors.New("AccessDeniedException")
	s, f := newStore("", denied)
	s.Now = func() time.Time { return now }
	s.Warn = func(err error) { t.Errorf("warned of %v, with nothing to keep", err) }
	for range 1000 {
		if _, err := s.Get(t.Context(), source); !errors.Is(err, denied) {
			t.Fatalf("got %v, want %v", err, denied)
		}
	}
	now = now.Add(DefaultRetryAfter - 1)
	if _, err := s.Get(t.Context(), source); !errors.Is(err, denied) {
		t.Fatalf("got %v, want %v", err, denied)
	}
	f.wantCalls(t, 1)
	f.say(good, nil)
	now = now.Add(1)
	if _, err := s.Get(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	f.wantCalls(t, 2)
}

func TestConcurrentCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStore("", nil)
		f.answer = func(context.Context) (*secretsmanager.GetSecretValueOutput, error) {
			time.Sleep(time.Second)
			return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(good)}, nil
		}
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				c, err := s.Get(t.Context(), source)
				if err != nil || c.Username != "probe" {
					t.Errorf("got %v, %v", c, err)
				}
			})
		}
		callers.Wait()
		f.wantCalls(t, 1)
	})
}

func TestACancelledCallerFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStore("", nil)
		f.answer = func(ctx context.Context) (*secretsmanager.GetSecretValueOutput, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(good)}, nil
			}
		}
		var callers sync.WaitGroup
		var cancelled atomic.Int32
		// The first caller is the one whose fetch the others wait for.
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := s.Get(ctx, source)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
				t.Errorf("got %v after %s, want the caller's own deadline", err, time.Since(start))
			}
			wantError(t, err, "waiting for secret "+secretARN+": context deadline exceeded")
			cancelled.Add(1)
		})
		synctest.Wait()
		for range 10 {
			callers.Go(func() {
				if _, err := s.Get(t.Context(), source); err != nil {
					t.Errorf("got %v although only another caller gave up", err)
				}
			})
		}
		callers.Wait()
		f.wantCalls(t, 1)
		if cancelled.Load() != 1 {
			t.Error("the first caller did not give up")
		}
	})
}

func TestACancelledCallerGetsTheOlderValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStore(good, nil)
		if _, err := s.Get(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultTTL)
		f.answer = silence
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, err := s.Get(ctx, source)
		if err != nil {
			t.Fatal(err)
		}
		wantCredentials(t, c, "hush-hush", "probe", "open-sesame")
		time.Sleep(DefaultTimeout)
	})
}

func TestAnEndpointThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStore("", nil)
		f.answer = silence
		start := time.Now()
		_, err := s.Get(t.Context(), source)
		if took := time.Since(start); took != DefaultTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v after %s, want the end at %s", err, took, DefaultTimeout)
		}
		wantError(t, err, "reading secret "+secretARN+": no answer within 5s, is there a route to the service?: context deadline exceeded")
	})
}

// silence is what a service without a route says.
func silence(ctx context.Context) (*secretsmanager.GetSecretValueOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// FuzzFromJSON looks for panics, and for errors that hold a part of the secret.
func FuzzFromJSON(f *testing.F) {
	f.Add(good)
	f.Add(`{"shared_secret_base64":"AP8=","username":"u","password":"\ud800"}`)
	f.Add(`{"password":{"a":[1e999]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := fromJSON([]byte(text))
		if err == nil && (len(c.SharedSecret) == 0 || c.Username == "" || len(c.Password) == 0 || len(c.Password) > maxPassword) {
			t.Fatal("incomplete credentials without an error")
		}
		marked := strings.Replace(text, "open-sesame", "qJ7zX", 1)
		if _, err := fromJSON([]byte(marked)); err != nil && strings.Contains(err.Error(), "qJ7zX") {
			t.Fatalf("the error holds a part of the secret: %v", err)
		}
	})
}

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func wantCredentials(t *testing.T, got probe.Credentials, secret, username, password string) {
	t.Helper()
	if !bytes.Equal(got.SharedSecret, []byte(secret)) || got.Username != username || !bytes.Equal(got.Password, []byte(password)) {
		t.Errorf("got %q, %q, %q, want %q, %q, %q", []byte(got.SharedSecret), got.Username, []byte(got.Password), secret, username, password)
	}
}

// wantError checks an error's text, and that it shows no secret.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
		return
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		text := fmt.Sprintf(verb, err)
		for _, secret := range []string{"hush", "sesame", "77889900"} {
			if strings.Contains(text, secret) {
				t.Errorf("the error shows a secret: %s", text)
			}
		}
	}
}
