package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"text/template"
	"time"

	"radwitness/pkg/probe"
	"radwitness/pkg/probe/radiustest"
)

// slowness is the delay of the fault slow: past the first transmission, within
// the budget of a probe.
const slowness = 1500 * time.Millisecond

// portAttempts is how many ports are tried until one is free on all addresses.
const portAttempts = 50

//go:embed fleet.yaml
var fleetText string

var fleetTemplate = template.Must(template.New("fleet.yaml").Parse(fleetText))

// place is a server of the lab's own.
type place struct{ Name, Address string }

// A target is known by its address, so each server needs one of its own.
func places() []place {
	return []place{{"radius-1", "127.0.0.1"}, {"radius-2", "127.0.0.2"}, {"radius-3", "127.0.0.3"}}
}

// ownFleet starts the lab's servers and returns the fleet.yaml for them.
func (l *Lab) ownFleet(ctx context.Context, cfg Config) ([]byte, error) {
	account := cfg.Credentials
	if account.Username == "" {
		account = probe.Credentials{
			SharedSecret: probe.Secret(rand.Text()), Username: "probe-" + rand.Text(), Password: probe.Secret(rand.Text()),
		}
	}
	var err error
	l.servers, err = listen(radiustest.Config{
		Secret: string(account.SharedSecret), Users: map[string]string{account.Username: string(account.Password)},
		Refusal: "Identity store unavailable", Delay: slowness,
	})
	if err != nil {
		return nil, err
	}
	port := l.servers[0].Addr().Port()
	secret, err := l.cloud.createSecret(ctx, account)
	if err != nil {
		return nil, err
	}
	targetGroup, err := l.cloud.createTargetGroup(ctx, port)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = fleetTemplate.Execute(&text, map[string]any{
		"Port": port, "Secret": secret, "TargetGroup": targetGroup, "Servers": places(),
	})
	if err != nil {
		return nil, fmt.Errorf("writing the lab's fleet.yaml: %w", err)
	}
	return text.Bytes(), nil
}

// listen starts a server on each of the addresses, all on one port: that of the
// target group.
func listen(cfg radiustest.Config) ([]*radiustest.Server, error) {
	var err error
	for range portAttempts {
		var servers []*radiustest.Server
		if servers, err = listenOnce(cfg); err == nil {
			return servers, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		err = fmt.Errorf("%w; macOS needs these first: sudo ifconfig lo0 alias 127.0.0.2; sudo ifconfig lo0 alias 127.0.0.3", err)
	}
	return nil, err
}

// listenOnce takes a port that is free on the first address, and fails if it is
// not on the others.
func listenOnce(cfg radiustest.Config) (servers []*radiustest.Server, err error) {
	defer func() {
		if err != nil {
			for _, s := range servers {
				s.Close()
			}
			servers = nil
		}
	}()
	var port uint16
	for _, p := range places() {
		s, err := radiustest.Listen(netip.AddrPortFrom(netip.MustParseAddr(p.Address), port).String(), cfg)
		if err != nil {
			return servers, fmt.Errorf("starting %s: %w", p.Name, err)
		}
		servers = append(servers, s)
		port = s.Addr().Port()
	}
	return servers, nil
}
