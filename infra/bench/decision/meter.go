package main

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// call is one HTTP request of the reconciler, from the moment it is handed to
// the client until the head of the answer is there.
type call struct {
	action     string // of the AWS API
	start, end time.Time
	processor  time.Duration // that this process had used at the start
	dialed     bool          // on a connection of its own
}

// meter makes calls and remembers them.
type meter struct {
	next aws.HTTPClient

	mu    sync.Mutex
	calls []call
}

func (m *meter) Do(r *http.Request) (*http.Response, error) {
	c := call{action: action(r)}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { c.dialed = !info.Reused }}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
	c.start, c.processor = time.Now(), processTime()
	answer, err := m.next.Do(r)
	c.end = time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, c)
	return answer, err
}

// action names a request. The JSON protocols do so in a header, the query
// protocol in the body.
func action(r *http.Request) string {
	if _, name, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		return name
	}
	if r.Body == nil {
		return r.URL.Path
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, formErr := url.ParseQuery(string(body))
	if err != nil || formErr != nil {
		return r.URL.Path
	}
	return form.Get("Action")
}

// take returns the calls so far, the first to begin first, and begins anew.
func (m *meter) take() []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.start.UnixNano(), b.start.UnixNano()) })
	return calls
}

// inFlight is how long at least one of the calls was in flight before a time.
// Calls that overlap count once.
func inFlight(calls []call, until time.Time) time.Duration {
	var sum time.Duration
	var covered time.Time
	for _, c := range calls { // in the order of their beginning
		start, end := c.start, c.end
		if end.After(until) {
			end = until
		}
		if start.Before(covered) {
			start = covered
		}
		if end.After(start) {
			sum += end.Sub(start)
			covered = end
		}
	}
	return sum
}
