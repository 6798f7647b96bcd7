// Package freeradiustest runs a real FreeRADIUS for a test. It differs from
// radiustest in that nobody here wrote the server: what passes against it is
// not a mistake that both sides share.
//
// It needs Debian's package freeradius (3.x); see Start for what happens
// without it.
package freeradiustest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout is how long a server may take until it is ready.
const startTimeout = 20 * time.Second

// Config is what the server knows. FreeRADIUS's files cannot hold every byte.
type Config struct {
	Secret      string            // shared secret of clients on 127.0.0.1; no NUL, CR, LF, double quote, backslash or dollar
	Users       map[string]string // passwords by user name; no NUL
	Anybody     string            // password of every other user, for names that its files cannot hold; none if empty
	Address     netip.Addr        // of this machine; zero means 127.0.0.1
	Port        uint16            // for authentication, the next one is for accounting; 0 takes free ones
	RejectDelay int               // seconds to hold back an Access-Reject, 0 for not at all
	ValidFor    time.Duration     // until the certificate of the TLS methods expires; 0 means 90 days
	TLS         string            // newest version to speak, "1.2" or "1.3"; empty means 1.2
}

// Server is a running FreeRADIUS on a loopback address. It knows every method of the
// prober, demands Message-Authenticator of its clients, and sends one itself.
type Server struct {
	path       string // of the program
	dir        string // of its configuration
	cfg        Config
	addr       netip.AddrPort
	accounting netip.AddrPort
	identity   identity

	mu     sync.Mutex
	cmd    *exec.Cmd
	out    *output
	exited chan struct{} // closed when the process has ended
}

// Start runs a server until the test ends, from a configuration of its own in
// the test's directory and on a free port. If FreeRADIUS is not installed, the
// test fails where the environment has CI=true, and is skipped elsewhere.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	path := Program(t, Programs()...)
	s, err := Listen(path, filepath.Join(t.TempDir(), "raddb"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("output of FreeRADIUS:\n%s", s.out.String())
		}
	})
	return s
}

// Programs lists where FreeRADIUS may be.
func Programs() []string {
	return []string{"freeradius", "/usr/sbin/freeradius", "radiusd", "/usr/sbin/radiusd"}
}

// Listen runs the given program until Stop, from a configuration that it writes
// into a new directory.
func Listen(path, dir string, cfg Config) (*Server, error) {
	s := &Server{path: path, dir: dir, cfg: cfg}
	var err error
	if s.addr, s.accounting, err = ports(cfg.Address, cfg.Port); err != nil {
		return nil, fmt.Errorf("looking for a free port: %w", err)
	}
	if s.identity, err = newIdentity(cfg.ValidFor); err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	if err := s.write(); err != nil {
		return nil, fmt.Errorf("writing FreeRADIUS's configuration: %w", err)
	}
	if err := s.run(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// run starts the process and returns when it is ready.
func (s *Server) run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &output{ready: make(chan struct{})}
	cmd, exited := exec.Command(s.path, "-X", "-d", s.dir), make(chan struct{})
	cmd.Stdout, cmd.Stderr = out, out
	s.out, s.cmd, s.exited = out, cmd, exited
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.path, err)
	}
	go func() {
		_ = cmd.Wait() // a killed process is no news
		close(exited)
	}()
	select {
	case <-out.ready:
		return nil
	case <-exited:
		return fmt.Errorf("FreeRADIUS ended before it was ready:\n%s", out.String())
	case <-time.After(startTimeout):
		return fmt.Errorf("FreeRADIUS was not ready within %v", startTimeout)
	}
}

// Addr returns the address and port for authentication. They never change.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Accounting returns the address and port for accounting. They never change.
func (s *Server) Accounting() netip.AddrPort { return s.accounting }

// CA returns the certificate of the authority that vouches for the server, PEM.
func (s *Server) CA() []byte { return s.identity.ca }

// Expires returns when the server's certificate does.
func (s *Server) Expires() time.Time { return s.identity.expires }

// Stop ends the process and returns when it is gone. It may be called more
// than once.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd.Process == nil {
		return // it never started
	}
	_ = s.cmd.Process.Kill() // fails only if it has ended already
	<-s.exited
}

// SetUsers restarts the server with other users, on its old ports.
func (s *Server) SetUsers(t testing.TB, users map[string]string) {
	t.Helper()
	s.Stop()
	s.cfg.Users = users
	if err := s.write(); err != nil {
		t.Fatalf("writing FreeRADIUS's configuration: %v", err)
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Program finds the first of the named programs. Without any, the test fails
// where the environment has CI=true, and is skipped elsewhere.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	return executable(t, os.Getenv("CI") == "true", names...)
}

// executable finds the first of the names. Without any, the test fails if it
// must not be skipped.
func executable(t testing.TB, must bool, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	reason := "not installed: " + strings.Join(names, ", ")
	if must {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// ports returns two UDP ports of an address: the given one and the next, or two
// that were free just now. FreeRADIUS cannot choose one itself: to it port 0
// means 1812.
func ports(loopback netip.Addr, first uint16) (authentication, accounting netip.AddrPort, err error) {
	if !loopback.IsValid() {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if first != 0 {
		return netip.AddrPortFrom(loopback, first), netip.AddrPortFrom(loopback, first+1), nil
	}
	var free [2]netip.AddrPort
	for i := range free {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
		if err != nil {
			return netip.AddrPort{}, netip.AddrPort{}, err
		}
		defer func() { _ = conn.Close() }()
		free[i] = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	return netip.AddrPortFrom(loopback, free[0].Port()), netip.AddrPortFrom(loopback, free[1].Port()), nil
}

// write makes a whole configuration directory, or makes it anew.
func (s *Server) write() error {
	if strings.ContainsAny(s.cfg.Secret, "\x00\r\n\"\\$") {
		return errors.New("shared secret has a byte that its configuration cannot hold")
	}
	// FreeRADIUS refuses a directory that others may write.
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	version := s.cfg.TLS
	if version == "" {
		version = "1.2"
	}
	var users strings.Builder
	for name, password := range s.cfg.Users {
		fmt.Fprintf(&users, "%s Cleartext-Password := %s\n\tReply-Message = \"Hello, %%{User-Name}\"\n", quote(name), quote(password))
	}
	if s.cfg.Anybody != "" {
		fmt.Fprintf(&users, "DEFAULT Cleartext-Password := %s\n", quote(s.cfg.Anybody))
	}
	for name, content := range map[string]string{
		"radiusd.conf": fmt.Sprintf(radiusd, s.dir, s.cfg.Secret, s.addr.Addr(), s.addr.Port(), s.accounting.Port(), s.cfg.RejectDelay, version),
		"users":        users.String(),
		"ca.pem":       string(s.identity.ca),
		"server.pem":   string(s.identity.chain),
		"server.key":   string(s.identity.key),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// quote writes a string for the users file: all but letters and digits in octal.
func quote(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, b := range []byte(s) {
		if slices.Contains(plain, b) {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, `\%03o`, b)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// plain are the bytes that need no quoting.
var plain = []byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

// radiusd is the main configuration file, for the prober's methods and nothing
// else. The inner server is what the TLS methods talk to in their tunnels.
const radiusd = `
logdir = "%[1]s"
run_dir = "%[1]s"
max_requests = 16384
security {
	reject_delay = %[6]d
	status_server = yes
}
client loopback {
	ipaddr = 127.0.0.1
	secret = "%[2]s"
	require_message_authenticator = yes
}
modules {
	files {
		filename = "${confdir}/users"
	}
	pap {
		normalise = no
	}
	chap {
	}
	mschap {
		with_ntdomain_hack = yes
	}
	always ok {
		rcode = ok
	}
	eap {
		default_eap_type = md5
		md5 {
		}
		mschapv2 {
		}
		tls-config tls-common {
			private_key_file = "${confdir}/server.key"
			certificate_file = "${confdir}/server.pem"
			ca_file = "${confdir}/ca.pem"
			fragment_size = 1024
			tls_min_version = "1.2"
			tls_max_version = "%[7]s"
		}
		ttls {
			tls = tls-common
			virtual_server = "inner"
		}
		peap {
			tls = tls-common
			default_eap_type = mschapv2
			virtual_server = "inner"
		}
	}
}
server probe {
	listen {
		type = auth
		ipaddr = %[3]s
		port = %[4]d
	}
	listen {
		type = acct
		ipaddr = %[3]s
		port = %[5]d
	}
	authorize {
		eap {
			ok = return
		}
		files
		chap
		mschap
		pap
	}
	authenticate {
		Auth-Type PAP {
			pap
		}
		Auth-Type CHAP {
			chap
		}
		Auth-Type MS-CHAP {
			mschap
		}
		eap
	}
	accounting {
		ok
	}
	post-auth {
		update reply {
			Message-Authenticator := 0x00
		}
		Post-Auth-Type REJECT {
			update reply {
				Message-Authenticator := 0x00
			}
		}
	}
}
server inner {
	authorize {
		eap {
			ok = return
		}
		files
		mschap
		pap
	}
	authenticate {
		Auth-Type PAP {
			pap
		}
		Auth-Type MS-CHAP {
			mschap
		}
		eap
	}
}
`

// output collects what the process prints and tells when it is ready.
type output struct {
	ready chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	seen bool // ready is closed
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if !o.seen && bytes.Contains(o.text.Bytes(), []byte("Ready to process requests")) {
		o.seen = true
		close(o.ready)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
