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
	prober := newProber(t, nil)

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

// An expired certificate is seen, and is a failure where the policy says so; so
// is one that another CA made. Both versions of TLS are spoken.
func TestCertificatesAgainstFreeRADIUS(t *testing.T) {
	users := map[string]string{labUser: labPassword}
	current := freeradiustest.Start(t, freeradiustest.Config{Secret: labSecret, Users: users, TLS: "1.3"})
	expired := freeradiustest.Start(t, freeradiustest.Config{Secret: labSecret, Users: users, ValidFor: -time.Hour})
	tests := []struct {
		name     string
		server   *freeradiustest.Server
		ca       []byte
		required bool
		outcome  health.Outcome
		chain    string // begins so
	}{
		{"valid", current, current.CA(), true, health.Accept, "valid"},
		{"no CA to check against", current, nil, false, health.Accept, "not checked"},
		{"another CA", current, expired.CA(), false, health.Accept, "x509: certificate signed by unknown authority"},
		{"another CA, required", current, expired.CA(), true, health.BadCertificate, "x509: certificate signed by unknown authority"},
		{"expired", expired, expired.CA(), false, health.Accept, "x509: certificate has expired"},
		{"expired, required", expired, expired.CA(), true, health.BadCertificate, "x509: certificate has expired"},
	}
	for _, tt := range tests {
		for _, m := range []fleet.Method{fleet.PEAP, fleet.TTLS} {
			t.Run(tt.name+", "+string(m), func(t *testing.T) {
				r := labRequest(m, tt.server.Addr(), tt.ca)
				r.Certificate.Required = tt.required
				if tt.ca == nil {
					r.Certificate.Roots = nil
				}
				prober := newProber(t, nil)
				res := prober.Probe(t.Context(), r)
				c := res.Certificate
				if res.Outcome != tt.outcome || !strings.HasPrefix(c.Chain, tt.chain) || !c.NotAfter.Equal(tt.server.Expires()) {
					t.Errorf("got %+v", res)
				}
				if c.Subject != "CN=radius.example.com,O=radwitness" || c.Issuer != "CN=Test CA,O=radwitness" || (c.DaysLeft(time.Now()) < 0) != (tt.server == expired) {
					t.Errorf("certificate %+v", c)
				}
			})
		}
	}
}

// FreeRADIUS holds rejects back: a reject after a second is an answer, F11. So
// is one to a user of a domain, F12.
func TestDelayedRejectsAndDomains(t *testing.T) {
	const domainUser = `CORP\probe`
	server := freeradiustest.Start(t, freeradiustest.Config{
		Secret: labSecret, Anybody: labPassword, RejectDelay: 1,
	})
	prober := newProber(t, nil)
	for _, m := range []fleet.Method{fleet.MSCHAPv2, fleet.PEAP} {
		r := labRequest(m, server.Addr(), server.CA())
		r.Credentials.Username = domainUser
		if res := prober.Probe(t.Context(), r); res.Outcome != health.Accept {
			t.Errorf("%s: got %+v", m, res)
		}
		r.Credentials.Password = probe.Secret("wrong")
		if res := prober.Probe(t.Context(), r); res.Outcome != health.Reject || res.Duration < 900*time.Millisecond {
			t.Errorf("%s with a wrong password: got %+v", m, res)
		}
	}
}
