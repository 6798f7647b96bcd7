// Package invoker runs a Lambda function's bootstrap as a process of this machine
// and invokes it: the part of the Lambda Runtime API that a function needs.
package invoker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Environment is a running bootstrap. It takes one invocation at a time.
type Environment struct {
	Process *exec.Cmd

	server  *http.Server
	events  chan invocation
	results chan result
	gone    chan struct{} // closed when the process has ended
}

type invocation struct {
	event    []byte
	deadline time.Time
}

type result struct {
	body []byte
	ok   bool
}

// Start starts the command, with the address of the Runtime API added to its
// environment.
func Start(command *exec.Cmd) (*Environment, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the Runtime API: %w", err)
	}
	e := &Environment{
		Process: command, events: make(chan invocation), results: make(chan result), gone: make(chan struct{}),
	}
	e.server = &http.Server{Handler: e}
	go func() { _ = e.server.Serve(listener) }()
	command.Env = append(command.Env, "AWS_LAMBDA_RUNTIME_API="+listener.Addr().String())
	if err := command.Start(); err != nil {
		_ = e.server.Close()
		return nil, fmt.Errorf("starting the function: %w", err)
	}
	go func() {
		_ = command.Wait()
		close(e.gone)
	}()
	return e, nil
}

// ServeHTTP hands out invocations and takes their results.
func (e *Environment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimPrefix(r.URL.Path, "/2018-06-01/runtime/"); path {
	case "invocation/next":
		select {
		case i := <-e.events:
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", "bench")
			w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:bench")
			_, _ = w.Write(i.event)
		case <-r.Context().Done():
		}
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.WriteHeader(http.StatusAccepted)
		select {
		case e.results <- result{body, path == "invocation/bench/response"}:
		case <-r.Context().Done():
		}
	}
}

// Invoke sends an event and waits for its end. The context's deadline is the
// function's.
func (e *Environment) Invoke(ctx context.Context, event []byte) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(15 * time.Minute)
	}
	select {
	case e.events <- invocation{event, deadline}:
	case <-e.gone:
		return fmt.Errorf("the function has ended: %v", e.Process.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case r := <-e.results:
		if !r.ok {
			return fmt.Errorf("the function failed: %s", r.body)
		}
		return nil
	case <-e.gone:
		return fmt.Errorf("the function has ended: %v", e.Process.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop ends the process, and returns when it is over.
func (e *Environment) Stop() {
	_ = e.Process.Process.Kill()
	<-e.gone
	_ = e.server.Close()
}
