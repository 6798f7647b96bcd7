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
	Secret string            // shared secret of clients on 127.0.0.1; no NUL, CR, LF, double quote, backslash or dollar
	Users  map[string]string // passwords by user name; no NUL
}

// Server is a running FreeRADIUS on 127.0.0.1. It demands Message-Authenticator
// of its clients, sends one itself, and answers rejects at once.
type Server struct {
	addr   netip.AddrPort
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
}

// Start runs a server until the test ends, from a configuration of its own in
// the test's directory and on a free port. If FreeRADIUS is not installed, the
// test fails where the environment has CI=true, and is skipped elsewhere.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	path := executable(t, os.Getenv("CI") == "true", "freeradius", "/usr/sbin/freeradius", "radiusd", "/usr/sbin/radiusd")
	addr := freePort(t)
	dir := filepath.Join(t.TempDir(), "raddb")
	if err := write(dir, addr, cfg); err != nil {
		t.Fatalf("writing FreeRADIUS's configuration: %v", err)
	}

	out := output{ready: make(chan struct{})}
	s := &Server{addr: addr, cmd: exec.Command(path, "-X", "-d", dir), exited: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = &out, &out
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	go func() {
		_ = s.cmd.Wait() // a killed process is no news
		close(s.exited)
	}()
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("output of FreeRADIUS:\n%s", out.String())
		}
	})
	select {
	case <-out.ready:
	case <-s.exited:
		t.Fatal("FreeRADIUS ended before it was ready")
	case <-time.After(startTimeout):
		t.Fatalf("FreeRADIUS was not ready within %v", startTimeout)
	}
	return s
}

// Addr returns the address and port of the server.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Stop ends the process and returns when it is gone. It may be called more
// than once.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill() // fails only if it has ended already
	<-s.exited
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
	reason := fmt.Sprintf("FreeRADIUS is not installed: none of %s", strings.Join(names, ", "))
	if must {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// freePort returns a UDP port of 127.0.0.1 that was free just now. FreeRADIUS
// cannot choose one itself: to it port 0 means 1812.
func freePort(t testing.TB) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("looking for a free port: %v", err)
	}
	defer func() { _ = conn.Close() }()
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

// write makes a whole configuration directory.
func write(dir string, addr netip.AddrPort, cfg Config) error {
	if strings.ContainsAny(cfg.Secret, "\x00\r\n\"\\$") {
		return errors.New("shared secret has a byte that its configuration cannot hold")
	}
	// FreeRADIUS refuses a directory that others may write.
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	conf := fmt.Sprintf(radiusd, dir, cfg.Secret, addr.Addr(), addr.Port())
	if err := os.WriteFile(filepath.Join(dir, "radiusd.conf"), []byte(conf), 0o600); err != nil {
		return err
	}
	var users strings.Builder
	for name, password := range cfg.Users {
		fmt.Fprintf(&users, "%s Cleartext-Password := %s\n\tReply-Message = \"Hello, %%{User-Name}\"\n", quote(name), quote(password))
	}
	return os.WriteFile(filepath.Join(dir, "users"), []byte(users.String()), 0o600)
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

// radiusd is the main configuration file, for PAP and nothing else.
const radiusd = `
logdir = "%[1]s"
run_dir = "%[1]s"
security {
	reject_delay = 0
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
}
server probe {
	listen {
		type = auth
		ipaddr = %[3]s
		port = %[4]d
	}
	authorize {
		files
		pap
	}
	authenticate {
		Auth-Type PAP {
			pap
		}
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
