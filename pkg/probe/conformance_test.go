package probe_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/freeradiustest"
)

// The shared secret and the account of the conformance tests. Test clients take
// them on their command lines, so they are plain text.
const (
	labSecret   = "lab-secret"
	labUser     = "probe"
	labPassword = "correct-horse"
)

// situation is one column of the conformance matrix.
type situation struct {
	name     string
	meddling meddling
	change   func(c *probe.Credentials)
	refuse   bool // nothing listens

	// What must come of it, by methods that need the account, and by the others.
	account, other health.Outcome
}

func situations() []situation {
	ok := func(s situation) situation { s.account, s.other = health.Accept, health.Alive; return s }
	rejected := func(s situation) situation { s.account, s.other = health.Reject, health.Alive; return s }
	all := func(o health.Outcome, s situation) situation { s.account, s.other = o, o; return s }
	first := func(d time.Duration) func(int) time.Duration {
		return func(answer int) time.Duration {
			if answer < 2 {
				return d
			}
			return 0
		}
	}
	return []situation{
		ok(situation{name: "right"}),
		rejected(situation{name: "wrong password", change: func(c *probe.Credentials) { c.Password = probe.Secret("wrong-horse") }}),
		rejected(situation{name: "no user", change: func(c *probe.Credentials) { c.Username = "nobody" }}),
		all(health.Timeout, situation{name: "wrong secret", change: func(c *probe.Credentials) { c.SharedSecret = probe.Secret("other-secret") }}),
		ok(situation{name: "dropped", meddling: meddling{drop: func(request int) bool { return request == 0 }}}),
		ok(situation{name: "slow", meddling: meddling{delay: func(int) time.Duration { return 30 * time.Millisecond }}}),
		ok(situation{name: "duplicate", meddling: meddling{answer: func(b []byte) [][]byte { return [][]byte{b, b} }}}),
		ok(situation{name: "late", meddling: meddling{delay: first(700 * time.Millisecond)}}),
		all(health.Malformed, situation{name: "truncated", meddling: meddling{answer: func(b []byte) [][]byte { return [][]byte{b[:len(b)-1]} }}}),
		all(health.Malformed, situation{name: "wrong id", meddling: meddling{answer: func(b []byte) [][]byte { b[1]++; return [][]byte{b} }}}),
		all(health.Timeout, situation{name: "wrong source", meddling: meddling{elsewhere: true}}),
		all(health.Refused, situation{name: "unreachable", refuse: true}),
	}
}

// needsAccount tells whether the answer to a method depends on user and password.
func needsAccount(m fleet.Method) bool { return m != fleet.StatusServer && m != fleet.Accounting }

// class is what a test client can tell of an outcome: whether the server
// answered, and well.
func class(o health.Outcome) string {
	switch o {
	case health.Accept, health.Alive:
		return "ok"
	case health.Reject:
		return "reject"
	}
	return "no answer"
}

// labRequest is a probe by the given method that the server accepts.
func labRequest(m fleet.Method, to netip.AddrPort, ca []byte) probe.Request {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return probe.Request{
		Server: to, Method: m, AttemptTimeout: 500 * time.Millisecond, Attempts: 4, NASIdentifier: "radwitness",
		Certificate: probe.CertificatePolicy{Roots: roots, Required: true},
		Credentials: probe.Credentials{SharedSecret: probe.Secret(labSecret), Username: labUser, Password: probe.Secret(labPassword)},
	}
}

// Every method in every situation against FreeRADIUS, and what the test clients
// of FreeRADIUS and hostap make of the same.
func TestConformance(t *testing.T) {
	server := freeradiustest.Start(t, freeradiustest.Config{Secret: labSecret, Users: map[string]string{labUser: labPassword}})
	radclient := freeradiustest.Program(t, "radclient")
	eapolTest := freeradiustest.Program(t, "eapol_test")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, server.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	methods, cases := probe.Supported(), situations()
	ours := make([]probe.Result, len(methods)*len(cases))
	theirs := make([]string, len(ours))

	prober := newProber(t, nil)
	var work errgroup.Group
	work.SetLimit(16)
	for i, c := range cases {
		for j, m := range methods {
			at := i*len(methods) + j
			place := func() netip.AddrPort {
				upstream := server.Addr()
				if m == fleet.Accounting {
					upstream = server.Accounting()
				}
				if c.refuse {
					return closedPort(t)
				}
				return between(t, upstream, c.meddling).addr
			}
			r := labRequest(m, place(), server.CA())
			if c.change != nil {
				c.change(&r.Credentials)
			}
			work.Go(func() error {
				ours[at] = prober.Probe(t.Context(), r)
				return nil
			})
			client := place()
			work.Go(func() error {
				var err error
				if kind, isEAP := eapOfHostap()[m]; isEAP {
					theirs[at], err = runEapolTest(t.Context(), eapolTest, kind, client, r.Credentials, ca)
				} else {
					theirs[at], err = runRadclient(t.Context(), radclient, m, client, r.Credentials)
				}
				return err
			})
		}
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}

	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CASE\tMETHOD\tOURS\tAS\tTHEIRS\tTOOL\tAGREE")
	disagreements := 0
	for i, c := range cases {
		for j, m := range methods {
			at := i*len(methods) + j
			want, tool := c.other, "radclient"
			if needsAccount(m) {
				want = c.account
			}
			if _, isEAP := eapOfHostap()[m]; isEAP {
				tool = "eapol_test"
			}
			if ours[at].Outcome != want {
				t.Errorf("%s, %s: %+v, want %s", c.name, m, ours[at], want)
			}
			agree := class(ours[at].Outcome) == theirs[at]
			if !agree {
				disagreements++
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%v\n", c.name, m, ours[at].Outcome, class(ours[at].Outcome), theirs[at], tool, agree)
		}
	}
	_ = w.Flush() // to memory
	t.Logf("%d cases, %d disagreements\n%s", len(ours), disagreements, table.String())
	if disagreements > 0 {
		t.Errorf("%d disagreements", disagreements)
	}
}

// closedPort is an address where nothing listens, though something just did.
func closedPort(t testing.TB) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// eapOfHostap says how eapol_test does our methods.
func eapOfHostap() map[fleet.Method]string {
	return map[fleet.Method]string{
		fleet.EAPMD5: "eap=MD5",
		fleet.PEAP:   "eap=PEAP\nphase2=\"auth=MSCHAPV2\"",
		fleet.TTLS:   "eap=TTLS\nphase2=\"auth=PAP\"",
	}
}

// runEapolTest makes an authentication with hostap's test client and returns
// the class of what came of it.
func runEapolTest(ctx context.Context, program, kind string, to netip.AddrPort, c probe.Credentials, ca string) (string, error) {
	config, err := os.CreateTemp("", "eapol_test")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(config.Name()) }()
	certificate := "ca_cert=\"" + ca + "\"\n"
	if kind == "eap=MD5" {
		certificate = "eapol_flags=0\n"
	}
	_, writing := fmt.Fprintf(config, "network={\nkey_mgmt=IEEE8021X\n%s\n%sidentity=%q\npassword=%q\n}\n", kind, certificate, c.Username, string(c.Password))
	if err := errors.Join(writing, config.Close()); err != nil {
		return "", err
	}
	args := []string{"-c", config.Name(), "-a", to.Addr().String(), "-p", fmt.Sprint(to.Port()), "-s", string(c.SharedSecret), "-t", "7"}
	if kind == "eap=MD5" {
		args = append(args, "-n") // it makes no keys
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	switch {
	case err == nil:
		return "ok", nil
	case bytes.Contains(out, []byte("code=3 (Access-Reject)")):
		return "reject", nil
	}
	return "no answer", nil
}

// runRadclient makes transactions with FreeRADIUS's test client and returns the
// class of what came of them. It knows MS-CHAP of version 1 only.
func runRadclient(ctx context.Context, program string, m fleet.Method, to netip.AddrPort, c probe.Credentials) (string, error) {
	const always = "Message-Authenticator = 0x00\nNAS-Identifier = \"radclient\"\n"
	account := fmt.Sprintf("User-Name = %q\n", c.Username)
	command, packets := "auth", ""
	switch m {
	case fleet.PAP:
		packets = account + fmt.Sprintf("User-Password = %q\n", string(c.Password))
	case fleet.CHAP:
		packets = account + fmt.Sprintf("CHAP-Password = %q\n", string(c.Password))
	case fleet.MSCHAPv2:
		packets = account + fmt.Sprintf("MS-CHAP-Password = %q\n", string(c.Password))
	case fleet.StatusServer:
		command = "status"
	case fleet.Accounting:
		command = "acct"
		packets = account + "Acct-Status-Type = Start\nAcct-Session-Id = \"radclient-1\"\n"
	}
	cmd := exec.CommandContext(ctx, program, "-r", "3", "-t", "0.5", to.String(), command, string(c.SharedSecret))
	cmd.Stdin = strings.NewReader(always + packets)
	out, _ := cmd.CombinedOutput() // its exit code says the same as its words
	switch {
	case bytes.Contains(out, []byte("Received Access-Accept")), bytes.Contains(out, []byte("Received Accounting-Response")):
		return "ok", nil
	case bytes.Contains(out, []byte("Received Access-Reject")):
		return "reject", nil
	}
	return "no answer", nil
}

// Wireshark's dissector, an implementation of nobody here, finds nothing wrong
// with the packets of any method: every authenticator that it can check is
// right, and nothing is malformed.
func TestWiresharkAgrees(t *testing.T) {
	tshark := freeradiustest.Program(t, "tshark")
	server := freeradiustest.Start(t, freeradiustest.Config{Secret: labSecret, Users: map[string]string{labUser: labPassword}})
	var all []datagram
	for _, m := range probe.Supported() {
		upstream := server.Addr()
		if m == fleet.Accounting {
			upstream = server.Accounting()
		}
		mid := between(t, upstream, meddling{})
		r := labRequest(m, mid.addr, server.CA())
		r.Attributes = []fleet.Attribute{
			{Name: "Service-Type", Type: 6, Value: []byte{0, 0, 0, 2}},
			{Name: "Cisco-AVPair", Vendor: 9, Type: 1, Value: []byte("profile=health-check")},
		}
		prober := newProber(t, nil)
		if res := prober.Probe(t.Context(), r); class(res.Outcome) != "ok" {
			t.Fatalf("%s: %+v", m, res)
		}
		mid.mu.Lock()
		for _, d := range mid.passed { // ports that the dissector knows
			port := uint16(1812)
			if m == fleet.Accounting {
				port = 1813
			}
			for _, end := range []*netip.AddrPort{&d.from, &d.to} {
				if *end == mid.addr {
					*end = netip.AddrPortFrom(end.Addr(), port)
				}
			}
			all = append(all, d)
		}
		mid.mu.Unlock()
	}
	path := filepath.Join(t.TempDir(), "methods.pcap")
	writePCAP(t, path, all)
	count := func(filter string) int {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), tshark, "-n", "-r", path,
			"-o", "radius.shared_secret:"+labSecret, "-o", "radius.validate_authenticator:TRUE", "-Y", filter).Output()
		if err != nil {
			t.Fatalf("tshark: %v", err)
		}
		return bytes.Count(out, []byte("\n"))
	}
	figures := map[string]int{
		"packets":                      len(all),
		"radius":                       count("radius"),
		"radius.authenticator.valid":   count("radius.authenticator.valid == 1"),
		"radius.authenticator.invalid": count("radius.authenticator.invalid == 1"),
		"_ws.malformed":                count("_ws.malformed"),
		// Of the group "security" are its warnings that EAP-MD5 is a weak method.
		"expert warnings":                   count("_ws.expert.severity >= 0x600000 && !(_ws.expert.group == 0x0a000000)"),
		"eap":                               count("eap"),
		"tls":                               count("tls"),
		"EAP-Message without authenticator": count("radius.EAP_Message && !radius.Message_Authenticator"),
	}
	t.Logf("%d packets of %d methods: %v", len(all), len(probe.Supported()), figures)
	if figures["radius"] != len(all) || figures["radius.authenticator.invalid"] != 0 || figures["_ws.malformed"] != 0 ||
		figures["expert warnings"] != 0 || figures["EAP-Message without authenticator"] != 0 {
		t.Error("Wireshark finds something wrong")
	}
	if figures["radius.authenticator.valid"] == 0 || figures["tls"] == 0 {
		t.Error("Wireshark checked nothing")
	}
}
