package probe_test

import (
	"strings"
	"testing"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/freeradiustest"
)

func TestFreeRADIUS(t *testing.T) {
	const secret = "s3cret \x01\x80\xff'é end"
	long := strings.Repeat("0123456789abcdef", 8)
	users := map[string]string{
		"one":       "x",
		"sixteen":   long[:16],
		"seventeen": long[:17],
		"longest":   long,
		"binary":    "\x01\x7f\x80\xff\"\\%{x}\r\n\t é",
		"spaces":    " lead and trail ",
	}
	server := freeradiustest.Start(t, freeradiustest.Config{Secret: secret, Users: users})
	request := func(name, password string) probe.Request {
		return probe.Request{
			Server:               server.Addr(),
			Method:               fleet.PAP,
			AttemptTimeout:       5 * time.Second,
			Attempts:             1,
			MessageAuthenticator: fleet.MessageAuthenticatorRequired,
			NASIdentifier:        "radwitness",
			Credentials: probe.Credentials{
				SharedSecret: probe.Secret(secret), Username: name, Password: probe.Secret(password),
			},
		}
	}
	var prober probe.Prober

	for name, password := range users {
		res := prober.Probe(t.Context(), request(name, password))
		if res.Outcome != health.Accept || res.ReplyMessage != "Hello, "+name || !res.MessageAuthenticator {
			t.Errorf("user %s with the right password: %+v", name, res)
		}
		res = prober.Probe(t.Context(), request(name, password[1:]+"!"))
		if res.Outcome != health.Reject || !res.MessageAuthenticator {
			t.Errorf("user %s with a wrong password: %+v", name, res)
		}
	}

	r := request("one", "x")
	r.Credentials.SharedSecret = probe.Secret("another")
	r.AttemptTimeout = 100 * time.Millisecond
	if res := prober.Probe(t.Context(), r); res.Outcome != health.Timeout && res.Outcome != health.BadAuthenticator {
		t.Errorf("wrong shared secret: %+v", res)
	}

	server.Stop()
	if res := prober.Probe(t.Context(), request("one", "x")); res.Outcome != health.Refused {
		t.Errorf("after it was stopped: %+v", res)
	}
}
