package lab

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The operations of the API that change something.
const (
	RegisterTargets   = "RegisterTargets"
	DeregisterTargets = "DeregisterTargets"
	UpdateItem        = "UpdateItem"
	PutItem           = "PutItem"
)

// Calls counts API calls as they leave over HTTP, repetitions included.
type Calls struct {
	next http.RoundTripper

	mu      sync.Mutex
	counts  map[string]int // by operation
	changes []Change
}

// Change is a call that registered or deregistered targets.
type Change struct {
	Operation string
	Targets   []string  // ids
	At        time.Time // just before it was sent
}

// Count returns how many calls of the operations have been made.
func (c *Calls) Count(operations ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, o := range operations {
		n += c.counts[o]
	}
	return n
}

// Changes lists the calls that registered or deregistered targets, oldest first.
func (c *Calls) Changes() []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.changes)
}

// RoundTrip notes the call and makes it.
func (c *Calls) RoundTrip(r *http.Request) (*http.Response, error) {
	// The JSON protocols name the operation in a header, the query protocol of
	// ELBv2 does in the body.
	_, operation, named := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var form url.Values
	if !named && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("reading the body of a call: %w", err)
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err = url.ParseQuery(string(body)); err != nil {
			return nil, fmt.Errorf("reading the body of a call: %w", err)
		}
		operation = form.Get("Action")
	}
	c.note(operation, form)
	return c.next.RoundTrip(r)
}

func (c *Calls) note(operation string, form url.Values) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[operation]++
	if operation != RegisterTargets && operation != DeregisterTargets {
		return
	}
	change := Change{Operation: operation, At: time.Now()}
	for i := 1; ; i++ {
		id := form.Get(fmt.Sprintf("Targets.member.%d.Id", i))
		if id == "" {
			break
		}
		change.Targets = append(change.Targets, id)
	}
	c.changes = append(c.changes, change)
}
