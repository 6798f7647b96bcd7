package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// runtimeAPI is Lambda's Runtime API for one function in one process. See
// "Building a custom runtime" in Lambda's guide.
type runtimeAPI struct {
	listener net.Listener
	asked    chan time.Time // when the function asked for its next event
	events   chan []byte
	answers  chan answer
}

// answer is what came of an event.
type answer struct {
	body   string
	failed bool
}

func newRuntimeAPI() (*runtimeAPI, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving the Runtime API: %w", err)
	}
	a := &runtimeAPI{listener: listener, asked: make(chan time.Time, 1), events: make(chan []byte), answers: make(chan answer, 1)}
	go func() { _ = http.Serve(listener, a) }() // until the listener is closed
	return a, nil
}

func (a *runtimeAPI) address() string { return a.listener.Addr().String() }

func (a *runtimeAPI) close() { _ = a.listener.Close() }

func (a *runtimeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, what, _ := strings.Cut(r.URL.Path, "/runtime/")
	if what != "invocation/next" {
		body, _ := io.ReadAll(r.Body)
		a.answers <- answer{string(body), !strings.HasSuffix(what, "/response")}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	a.asked <- time.Now()
	select {
	case event := <-a.events:
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", "bench")
		w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(90*time.Second).UnixMilli()))
		_, _ = w.Write(event)
	case <-r.Context().Done(): // the process was killed
	}
}

// invoke sends an event and waits until the function asks for the next one.
func (a *runtimeAPI) invoke(ctx context.Context, event []byte) error {
	select {
	case a.events <- event:
	case <-ctx.Done():
		return ctx.Err()
	}
	for answered := false; ; {
		select {
		case got := <-a.answers:
			if got.failed {
				return fmt.Errorf("the function failed: %s", got.body)
			}
			answered = true
		case <-a.asked:
			if answered {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
