package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"radwitness/infra/local/lab"
)

// Faults are what happens to the functions' calls and invocations. Use New.
type Faults struct {
	seed uint64

	mu     sync.Mutex
	rng    *rand.Rand
	on     bool
	counts map[string]int
}

// New makes faults that follow a seed, as far as goroutines do. They begin and
// end with Play.
func New(seed uint64) *Faults {
	return &Faults{seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
}

// Counts is how often each kind has happened.
func (f *Faults) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Begin lets faults happen, until End.
func (f *Faults) Begin() { f.set(true) }

// End ends the faults.
func (f *Faults) End() { f.set(false) }

func (f *Faults) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

func (f *Faults) count(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
}

// strikes draws whether something with a chance happens now.
func (f *Faults) strikes(chance float64, kind string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || f.rng.Float64() >= chance {
		return false
	}
	f.counts[kind]++
	return true
}

// within draws a time.
func (f *Faults) within(d time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.rng.Int64N(int64(d)))
}

var errKilled = errors.New("chaos: the function was killed")

// Handler kills some invocations: their calls end at once, and so does what
// they answer. after is the longest that they live.
func (f *Faults) Handler(name string, after time.Duration, next lab.Handler) lab.Handler {
	return func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		if !f.strikes(0.1, name+": killed") {
			return next(ctx, event)
		}
		ctx, cancel := context.WithTimeout(ctx, f.within(after))
		defer cancel()
		_, _ = next(ctx, event)
		return nil, errKilled
	}
}

// Transport puts faults into the calls that go through it.
func (f *Faults) Transport(next http.RoundTripper) http.RoundTripper { return transport{f, next} }

type transport struct {
	*Faults
	next http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.strikes(0.05, "api: slow") {
		time.Sleep(t.within(time.Second))
	}
	if t.strikes(0.08, "api: throttled") {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return throttled(r), nil
	}
	answer, err := t.next.RoundTrip(r)
	if err == nil && t.strikes(0.04, "api: answer lost") {
		_ = answer.Body.Close()
		return nil, errors.New("chaos: connection reset")
	}
	return answer, err
}

// throttled is how an API says so, in the protocol that was asked with.
func throttled(r *http.Request) *http.Response {
	body, kind := `{"__type":"ThrottlingException","message":"Rate exceeded"}`, "application/x-amz-json-1.0"
	if r.Header.Get("X-Amz-Target") == "" {
		body, kind = `<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error><RequestId>chaos</RequestId></ErrorResponse>`, "text/xml"
	}
	return &http.Response{
		Status: "400 Bad Request", StatusCode: http.StatusBadRequest, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
