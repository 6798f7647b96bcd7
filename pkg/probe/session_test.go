package probe_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/freeradiustest"
	"radwitness/pkg/probe/radiustest"
)

// transmit makes a transmission and checks what comes of it.
func transmit(t *testing.T, s *probe.Session, want health.Outcome) probe.Result {
	t.Helper()
	res := s.Transmit()
	if res.Outcome != want {
		t.Fatalf("%+v, want %s", res, want)
	}
	return res
}

func TestSessionRepeatsItsPacket(t *testing.T) {
	cfg := config()
	cfg.Fault, cfg.Drop = radiustest.DropFirst, 2
	server := radiustest.Start(t, cfg)
	r := to(server.Addr())
	r.AttemptTimeout = 250 * time.Millisecond
	s := new(probe.Prober).Open(t.Context(), r)
	defer s.Close()
	for range cfg.Drop {
		if res := transmit(t, s, health.Timeout); res.Duration < r.AttemptTimeout || res.Latency != 0 {
			t.Errorf("%+v, want the whole timeout and no latency", res)
		}
	}
	if res := transmit(t, s, health.Accept); res.Latency < 2*r.AttemptTimeout || res.Transmissions != cfg.Drop+1 {
		t.Errorf("%+v, want the latency since the first of three transmissions", res)
	}
	requests := server.Requests()
	if len(requests) != cfg.Drop+1 {
		t.Fatalf("%d datagrams", len(requests))
	}
	for _, request := range requests {
		if !bytes.Equal(request, requests[0]) {
			t.Error("a transmission is another datagram")
		}
	}
	if res := transmit(t, s, health.ProberError); res.Reason != "the session is over" {
		t.Errorf("after the answer: %+v", res)
	}
	if server.Received() != len(requests) {
		t.Error("a transmission after the answer")
	}
}

// The answer to one transmission may be found by a later one.
func TestSessionTakesALateAnswer(t *testing.T) {
	cfg := config()
	cfg.Fault, cfg.Delay = radiustest.Slow, 100*time.Millisecond
	server := radiustest.Start(t, cfg)
	r := to(server.Addr())
	r.AttemptTimeout = 40 * time.Millisecond
	s := new(probe.Prober).Open(t.Context(), r)
	defer s.Close()
	transmit(t, s, health.Timeout)
	transmit(t, s, health.Timeout)
	for {
		switch res := s.Transmit(); res.Outcome {
		case health.Timeout:
		case health.Accept:
			if res.Latency < cfg.Delay {
				t.Errorf("latency %v, but the answer takes %v", res.Latency, cfg.Delay)
			}
			return
		default:
			t.Fatalf("%+v", res)
		}
	}
}

func TestSessionOutlivesAnICMPError(t *testing.T) {
	server := radiustest.Start(t, config())
	set(t, server, radiustest.Refuse)
	s := new(probe.Prober).Open(t.Context(), to(server.Addr()))
	defer s.Close()
	transmit(t, s, health.Refused)
	transmit(t, s, health.Refused)
	set(t, server, radiustest.None)
	transmit(t, s, health.Accept)
}

func TestSessionEnds(t *testing.T) {
	server := radiustest.Start(t, config())
	set(t, server, radiustest.DropAll)
	r := to(server.Addr())
	r.AttemptTimeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	s := new(probe.Prober).Open(ctx, r)
	time.AfterFunc(10*time.Millisecond, cancel)
	transmit(t, s, health.ProberError)
	s.Close()
	s.Close()

	never := new(probe.Prober).Open(t.Context(), r)
	never.Close()
	transmit(t, never, health.ProberError)

	r.Method = "smoke"
	bad := new(probe.Prober).Open(t.Context(), r)
	defer bad.Close()
	transmit(t, bad, health.ProberError)
}

func TestSessionOfEveryMethod(t *testing.T) {
	server := freeradiustest.Start(t, freeradiustest.Config{Secret: labSecret, Users: map[string]string{labUser: labPassword}})
	for _, m := range probe.Supported() {
		r := labRequest(m, server.Addr(), server.CA())
		r.AttemptTimeout = 5 * time.Second // for all transactions of the method
		want := health.Accept
		if !needsAccount(m) {
			want = health.Alive
		}
		if m == fleet.Accounting {
			r.Server = server.Accounting()
		}
		s := new(probe.Prober).Open(t.Context(), r)
		transmit(t, s, want)
		s.Close()
	}
}
