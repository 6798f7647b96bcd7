package probe_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"radwitness/pkg/probe"
)

func TestSecretsAreNotShown(t *testing.T) {
	const shared, pass = "sharedNUTmeg", "passNUTcracker"
	credentials := probe.Credentials{SharedSecret: probe.Secret(shared), Username: "bob", Password: probe.Secret(pass)}
	values := map[string]any{
		"secret":                 credentials.SharedSecret,
		"pointer to secret":      &credentials.SharedSecret,
		"credentials":            credentials,
		"pointer to credentials": &credentials,
		"request":                probe.Request{Credentials: credentials},
		"pointer to request":     &probe.Request{Credentials: credentials},
		"slice":                  []probe.Secret{credentials.Password},
		"map":                    map[string]probe.Secret{"k": credentials.Password},
		"error":                  fmt.Errorf("with %v and %s", credentials.SharedSecret, credentials),
	}
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%#x", "%d", "%b", "%o", "%U", "%c", "%20s", "%.3s", "%y"} {
				checkHidden(t, verb, fmt.Sprintf(verb, value), shared, pass)
			}
			checkHidden(t, "print", fmt.Sprint(value)+fmt.Sprintln(value), shared, pass)
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			checkHidden(t, "json", string(encoded), shared, pass)
			var out bytes.Buffer
			for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
				log := slog.New(handler)
				log.Info("as attribute", "value", value)
				log.With("value", value).Info("in the logger")
				log.Info("in a group", slog.Group("group", "value", value))
				log.Info(fmt.Sprint(value))
			}
			checkHidden(t, "slog", out.String(), shared, pass)
		})
	}
}

// checkHidden looks for the secrets as text, in hex, in base 64 and as decimal
// bytes.
func checkHidden(t *testing.T, how, shown string, secrets ...string) {
	t.Helper()
	plain := strings.ToLower(strings.NewReplacer(" ", "", "0x", "", ",", "").Replace(shown))
	for _, s := range secrets {
		encoded, err := json.Marshal([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		decimal := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%d", []byte(s)), " ", ""), "[]")
		for _, form := range []string{s, hex.EncodeToString([]byte(s)), strings.Trim(string(encoded), `"`), decimal} {
			if strings.Contains(plain, strings.ToLower(form)) {
				t.Errorf("%s shows %s", how, shown)
			}
		}
	}
}

// A panic prints a Stringer by its String method.
func TestSecretInPanic(t *testing.T) {
	var value any = probe.Secret("NUTmeg")
	if s, ok := value.(fmt.Stringer); !ok || s.String() != "[redacted]" {
		t.Error("a panic with a secret would show it")
	}
}
