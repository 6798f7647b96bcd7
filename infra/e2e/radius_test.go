//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The account that the servers know and the secret that they share with us.
const (
	username     = "radwitness-probe"
	password     = "Kestrel-over-7-Reeds"
	sharedSecret = "quill-lantern-orbit-42"
)

// radiusServer is a FreeRADIUS on an address of its own. It looks the password
// up in its identity store, a file, at every request.
type radiusServer struct {
	name    string
	address string
	store   string
}

// startRADIUS runs FreeRADIUS on the n-th of our loopback addresses until the
// test ends.
func startRADIUS(t *testing.T, n int, port int) *radiusServer {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "raddb")
	if err := os.Mkdir(dir, 0o700); err != nil { // FreeRADIUS refuses what others may write
		t.Fatal(err)
	}
	s := &radiusServer{
		name:    fmt.Sprintf("radius-%d", n),
		address: fmt.Sprintf("127.0.0.%d", 10+n),
		store:   filepath.Join(dir, "identities"),
	}
	s.repair(t)
	conf := strings.NewReplacer("DIR", dir, "STORE", s.store, "ADDRESS", s.address, "PORT", fmt.Sprint(port), "SECRET", sharedSecret).Replace(radiusd)
	if err := os.WriteFile(filepath.Join(dir, "radiusd.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	log := newLogFile(t, s.name)
	cmd := exec.Command("freeradius", "-f", "-l", "stdout", "-d", dir)
	cmd.Stdout, cmd.Stderr = log, log
	start(t, cmd)
	waitFor(t, 20*time.Second, s.name+" to be ready", func() error {
		text, err := os.ReadFile(log.Name())
		if err == nil && !strings.Contains(string(text), "Ready to process requests") {
			err = fmt.Errorf("it says:\n%s", text)
		}
		return err
	})
	return s
}

// breakStore takes the identities away: the server runs on, and rejects
// everybody.
func (s *radiusServer) breakStore(t *testing.T) {
	t.Helper()
	if err := os.Remove(s.store); err != nil {
		t.Fatal(err)
	}
}

func (s *radiusServer) repair(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(s.store, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freePort returns a UDP port that is free on all our loopback addresses.
func freePort(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

// start runs a program until the test ends.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	// A group of its own, so that what it starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if it is gone
		_ = cmd.Wait()                                      // a killed process is no news
	})
}

// newLogFile makes a file for a program's output, which is shown if the test fails.
func newLogFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(f.Name())
			t.Logf("end of %s:\n%s", filepath.Base(f.Name()), text[max(0, len(text)-8000):])
		}
		_ = f.Close()
	})
	return f
}

// radiusd is the configuration of a server. An identity store that cannot be
// read gives an empty password, which nobody has.
const radiusd = `
logdir = "DIR"
run_dir = "DIR"
security {
	reject_delay = 0
}
client loopback {
	ipaddr = 127.0.0.0/8
	secret = "SECRET"
	require_message_authenticator = yes
}
modules {
	exec {
		wait = yes
		timeout = 2
	}
	pap {
		normalise = no
	}
}
server probe {
	listen {
		type = auth
		ipaddr = ADDRESS
		port = PORT
	}
	authorize {
		update control {
			Cleartext-Password := "%{exec:/bin/cat STORE}"
		}
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
