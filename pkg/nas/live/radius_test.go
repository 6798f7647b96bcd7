package live_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/nas"
	"radwitness/pkg/nas/live"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/freeradiustest"
	"radwitness/pkg/probe/radiustest"
)

const (
	secret   = "lab-secret"
	user     = "probe"
	password = "lab-password"
)

// to is a test of real servers, with a timeout that is short for servers that
// drop, and long for this machine.
func to(method fleet.Method, servers ...netip.AddrPort) live.Test {
	t := test(nil, nas.Strict)
	t.Settings.Timeout = 500 * time.Millisecond
	t.Servers = t.Servers[:len(servers)]
	n := live.RADIUS{Prober: &probe.Prober{}}
	for _, s := range servers {
		n.Requests = append(n.Requests, probe.Request{
			Server: s, Method: method, AttemptTimeout: t.Settings.Timeout, NASIdentifier: "radwitness",
			Credentials: probe.Credentials{SharedSecret: probe.Secret(secret), Username: user, Password: probe.Secret(password)},
		})
	}
	t.Network = n
	return t
}

// three runs three FreeRADIUS. One with another shared secret drops every
// request, as its Message-Authenticator is wrong there.
func three(t *testing.T, secrets ...string) []netip.AddrPort {
	t.Helper()
	var servers []netip.AddrPort
	for _, s := range secrets {
		servers = append(servers, freeradiustest.Start(t, freeradiustest.Config{Secret: s, Users: map[string]string{user: password}}).Addr())
	}
	return servers
}

func mustRun(t *testing.T, test live.Test) nas.View {
	t.Helper()
	r, err := test.Run(t.Context())
	if err != nil || len(r.Notes) != 0 {
		t.Fatalf("notes %q, %v", r.Notes, err)
	}
	return r.View
}

func TestOneOfThreeFreeRADIUSDrops(t *testing.T) {
	servers := three(t, secret, "another", secret)
	for _, method := range []fleet.Method{fleet.PAP, fleet.MSCHAPv2, fleet.EAPMD5} {
		v := mustRun(t, to(method, servers...))
		if v.Servers[0].Accepts != 10 || v.Delayed != 0 || v.LetIn.Deny != 10 {
			t.Errorf("%s, strict: %+v", method, v)
		}
		test := to(method, servers...)
		test.Settings.Strategy = nas.RoundRobin
		v = mustRun(t, test)
		dropped, next := v.Servers[1], v.Servers[2]
		if dropped.Timeouts != 3 || dropped.Share != 0 || next.Accepts != 6 || v.Delayed != 3 || v.FailedOver != 3 || v.LetIn.Deny != 10 {
			t.Errorf("%s, round-robin: %+v", method, v)
		}
		if v.Wait.P50MS > 500 || v.Wait.P99MS < 500 || v.Wait.P99MS > 1000 {
			t.Errorf("%s: waits %+v, want one timeout for three of ten logins", method, v.Wait)
		}
	}
}

func TestThreeFreeRADIUSDropAll(t *testing.T) {
	test := to(fleet.PAP, three(t, "another", "another", "another")...)
	test.Logins, test.Trace = 2, true
	v := mustRun(t, test)
	if want := []int{1, 2, 3, 1, 2, 3, 1, 2, 3}; !slices.Equal(v.First, want) {
		t.Errorf("the first login asked %v, want %v", v.First, want)
	}
	worst := float64(3*3*test.Settings.Timeout) / float64(time.Millisecond)
	if v.Wait.MaxMS > worst || v.Wait.WorstMS != worst || v.LetIn != (nas.LetIn{Allow: 2}) {
		t.Errorf("%+v, want a wait of at most %v ms", v.Summary, worst)
	}
	// Nor does it go on to the next server early.
	for i, p := range v.Trace[:9] {
		if least := float64(i) * 500; p.AtMS < least {
			t.Errorf("packet %d at %v ms, want at least %v", i+1, p.AtMS, least)
		}
	}
}

// A server gets the same packet in each round, so that it knows it for a
// duplicate; another server gets another one.
func TestRepeatedPackets(t *testing.T) {
	config := radiustest.Config{Secret: secret, Fault: radiustest.DropAll}
	one, two := radiustest.Start(t, config), radiustest.Start(t, config)
	test := to(fleet.PAP, one.Addr(), two.Addr())
	test.Settings.Timeout, test.Logins = 20*time.Millisecond, 1
	for i := range test.Network.(live.RADIUS).Requests {
		test.Network.(live.RADIUS).Requests[i].AttemptTimeout = test.Settings.Timeout
	}
	mustRun(t, test)
	first, second := one.Requests(), two.Requests()
	if len(first) != 3 || len(second) != 3 {
		t.Fatalf("%d and %d packets", len(first), len(second))
	}
	for _, requests := range [][][]byte{first, second} {
		for _, r := range requests {
			if !bytes.Equal(r, requests[0]) {
				t.Error("a later round sends another packet")
			}
		}
	}
	if bytes.Equal(first[0], second[0]) {
		t.Error("both servers get the same packet")
	}
}

func TestClosedPorts(t *testing.T) {
	server := radiustest.Start(t, radiustest.Config{Secret: secret, Users: map[string]string{user: password}, Fault: radiustest.Refuse})
	test := to(fleet.PAP, server.Addr())
	test.Logins = 1
	if v := mustRun(t, test); v.Servers[0].ICMPErrors != 3 || !slices.Equal(v.First, []int{1, 1, 1}) || v.Unanswered != 1 {
		t.Errorf("%+v", v)
	}
	if err := server.SetFault(radiustest.None); err != nil {
		t.Fatal(err)
	}
	if v := mustRun(t, test); v.Servers[0].Accepts != 1 || v.Wait.MaxMS <= 0 {
		t.Errorf("%+v", v)
	}
}
