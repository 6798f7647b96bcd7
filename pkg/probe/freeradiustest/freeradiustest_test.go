package freeradiustest

import (
	"strings"
	"testing"
)

// verdict records how a test would have ended.
type verdict struct {
	testing.TB
	how, why string
}

func (v *verdict) Helper()          {}
func (v *verdict) Skip(args ...any) { v.end("skip", args) }

func (v *verdict) Fatal(args ...any) { v.end("fail", args) }

// end leaves the function under test, as the real ones do.
func (v *verdict) end(how string, args []any) {
	v.how, v.why = how, args[0].(string)
	panic(v)
}

func TestWithoutFreeRADIUS(t *testing.T) {
	for _, tt := range []struct {
		must bool
		how  string
	}{{true, "fail"}, {false, "skip"}} {
		v := &verdict{TB: t}
		func() {
			defer func() { _ = recover() }()
			executable(v, tt.must, "no-such-radiusd", "/nor/this")
		}()
		if v.how != tt.how || !strings.Contains(v.why, "no-such-radiusd, /nor/this") {
			t.Errorf("must %v: %s, %q", tt.must, v.how, v.why)
		}
	}
	if got := executable(t, true, "no-such-radiusd", "/bin/sh"); got != "/bin/sh" {
		t.Errorf("got %s", got)
	}
}

func TestQuote(t *testing.T) {
	if got, want := quote("aZ9 \"\\\xff"), `"aZ9\040\042\134\377"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSecretThatCannotBeWritten(t *testing.T) {
	for _, secret := range []string{"\x00", "\r", "\n", `"`, `\`, "$"} {
		s := &Server{dir: t.TempDir(), cfg: Config{Secret: secret}}
		if err := s.write(); err == nil {
			t.Errorf("secret %q was written", secret)
		}
	}
}
