// Command serve runs a FreeRADIUS that answers every method of the prober, for
// testdata/methods.yaml, until it is interrupted. It needs Debian's package
// freeradius.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"radwitness/pkg/probe/freeradiustest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// serve runs the server until the context ends.
func serve(ctx context.Context) error {
	address := flag.String("address", "127.0.0.1", "loopback `address`")
	port := flag.Uint("port", 11812, "`port` for authentication; the next one is for accounting")
	secret := flag.String("secret", "radwitness-lab", "shared `secret`")
	user := flag.String("user", "probe", "`name` of the only user; empty for none, as when the identity store has lost it")
	password := flag.String("password", "correct-horse", "`password` of the user")
	flag.Parse()
	listen, err := netip.ParseAddr(*address)
	if err != nil {
		return err
	}

	var program string
	for _, name := range freeradiustest.Programs() {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	dir, err := os.MkdirTemp("", "freeradius")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := freeradiustest.Config{Secret: *secret, Address: listen, Port: uint16(*port)}
	if *user != "" {
		config.Users = map[string]string{*user: *password}
	}
	server, err := freeradiustest.Listen(program, filepath.Join(dir, "raddb"), config)
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Printf("FreeRADIUS answers on %s, accounting on %s; its CA is %s. Ctrl-C ends it.\n",
		server.Addr(), server.Accounting(), filepath.Join(dir, "raddb", "ca.pem"))
	<-ctx.Done()
	return nil
}
