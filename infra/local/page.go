package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"radwitness/infra/local/console"
	"radwitness/infra/local/lab"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/statuspage"
)

// pageInterval is between two looks at the lab, which cost nothing.
const pageInterval = time.Second

// portAttempts is how many ports are tried, from the one wanted on.
const portAttempts = 20

// servePage serves the status page of a lab until stop is called. where tells a
// person how to open it.
func servePage(ctx context.Context, l *lab.Lab, address string) (where string, stop func() error, err error) {
	listener, err := listen(address)
	if err != nil {
		return "", nil, err
	}
	where = fmt.Sprintf("http://%s/", listener.Addr())
	if wanted, err := netip.ParseAddrPort(address); err == nil && wanted.Port() != 0 && wanted.String() != listener.Addr().String() {
		where += fmt.Sprintf(" (port %d is taken)", wanted.Port())
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- statuspage.Serve(ctx, listener, statuspage.New(statuspage.Config{
			Source: l.NewOperator(), Name: "the lab on this machine", Lab: switches{l}, Interval: pageInterval,
		}))
	}()
	return where, func() error {
		cancel()
		return <-served
	}, nil
}

// listen opens an address, or the next port of it that is free.
func listen(address string) (net.Listener, error) {
	listener, err := statuspage.Listen(address, false)
	wanted, parseErr := netip.ParseAddrPort(address)
	for i := uint16(1); i < portAttempts && parseErr == nil && errors.Is(err, syscall.EADDRINUSE); i++ {
		next := netip.AddrPortFrom(wanted.Addr(), wanted.Port()+i)
		listener, err = statuspage.Listen(next.String(), false)
	}
	return listener, err
}

// switches are the faults of a lab's servers, for the status page.
type switches struct{ lab *lab.Lab }

func (s switches) Faults() []string {
	if !s.lab.Faults() {
		return []string{}
	}
	var words []string
	for _, f := range console.Faults() {
		words = append(words, f.String())
	}
	return words
}

func (s switches) Fault(server string) string {
	f, err := s.lab.Fault(server)
	if err != nil {
		return ""
	}
	return f.String()
}

func (s switches) SetFault(server, word string) error {
	f, err := radiustest.ParseFault(word)
	if err != nil {
		return err
	}
	return s.lab.SetFault(server, f)
}

func (s switches) RemoveTarget(ctx context.Context, group, server string) error {
	return s.lab.RemoveTarget(ctx, group, server)
}
