package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/sivchari/kumo"

	"radwitness/infra/bench/responder"
	"radwitness/infra/bench/table"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
)

// The account of the benchmarks, and what every request carries.
const (
	secret        = "bench-secret"
	username      = "probe"
	password      = "correct-horse"
	nasIdentifier = "radwitness"
)

// respond is the process of the RADIUS servers.
func respond(ctx context.Context, args []string) error {
	s := responder.Server{Secret: []byte(secret)}
	flags := newFlags("respond")
	flags.DurationVar(&s.Delay, "delay", 0, "answer after this `time`")
	flags.BoolVar(&s.Silent, "silent", false, "do not answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	port, err := s.Listen(0)
	if err != nil {
		return err
	}
	fmt.Println(port)
	return s.Serve(ctx)
}

// serveTable is the process of the table's stand-in, or of the emulator. GET
// answers the rounds of the first.
func serveTable(ctx context.Context, args []string) error {
	flags := newFlags("serve-table")
	emulator := flags.Bool("emulator", false, "be kumo")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *emulator {
		server := kumo.NewServer()
		defer server.Close()
		at, err := url.Parse(server.URL)
		if err != nil {
			return fmt.Errorf("reading kumo's address: %w", err)
		}
		fmt.Println(at.Port())
		<-ctx.Done()
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening the table's port: %w", err)
	}
	rows := table.New()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(rows.Rounds())
			return
		}
		rows.ServeHTTP(w, r)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	_ = server.Serve(listener) // until it is closed
	return nil
}

// probeOnly is the process that is compared with the peers: so many probes of one
// server, by so many goroutines. It prints how many were accepted.
func probeOnly(ctx context.Context, args []string) error {
	flags := newFlags("probe")
	port := flags.Int("port", 0, "`port` of the server")
	probes := flags.Int("probes", 0, "`number` of probes")
	parallel := flags.Int("parallel", 0, "`number` of probes at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	request := probe.Request{
		Server: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(*port)),
		Method: fleet.PAP, AttemptTimeout: time.Second, Attempts: 3,
		MessageAuthenticator: fleet.MessageAuthenticatorRequired, NASIdentifier: nasIdentifier,
		Credentials: probe.Credentials{SharedSecret: probe.Secret(secret), Username: username, Password: probe.Secret(password)},
	}
	var prober probe.Prober
	defer func() { _ = prober.Close() }()
	todo := make(chan struct{}, *probes)
	for range *probes {
		todo <- struct{}{}
	}
	close(todo)
	accepted := make([]int, *parallel)
	var work sync.WaitGroup
	for i := range accepted {
		work.Go(func() {
			for range todo {
				if r := prober.Probe(ctx, request); r.Outcome == health.Accept {
					accepted[i]++
				}
			}
		})
	}
	work.Wait()
	total := 0
	for _, n := range accepted {
		total += n
	}
	fmt.Println(total)
	return nil
}
