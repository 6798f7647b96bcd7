package statuspage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeLab remembers its switches.
type fakeLab struct {
	mu      sync.Mutex
	current map[string]string
	removed []string
}

func newFakeLab() *fakeLab { return &fakeLab{current: map[string]string{}} }

func (l *fakeLab) Faults() []string { return []string{"none", "reject-all"} }

func (l *fakeLab) Fault(server string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.current[server]; f != "" {
		return f
	}
	return "none"
}

func (l *fakeLab) SetFault(server, fault string) error {
	if fault != "reject-all" {
		return fmt.Errorf("unknown fault %q", fault)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current[server] = fault
	return nil
}

func (l *fakeLab) RemoveTarget(_ context.Context, group, server string) error {
	if group != "vpn" {
		return errors.New("there is no such group")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removed = append(l.removed, server)
	return nil
}

func TestGuard(t *testing.T) {
	handler := New(Config{Source: &fake{}, Lab: newFakeLab(), Interval: time.Minute})
	const order = `{"server": "ise-1", "fault": "reject-all"}`
	for _, test := range []struct {
		name, method, path, host string
		header                   http.Header
		want                     int
	}{
		{"by address", "GET", "/", "127.0.0.1:8080", nil, 200},
		{"by address of IPv6", "GET", "/", "[::1]:8080", nil, 200},
		{"by address without a port", "GET", "/", "127.0.0.1", nil, 200},
		{"by address of IPv6 without a port", "GET", "/", "[::1]", nil, 200},
		{"as localhost", "GET", "/", "localhost:8080", nil, 200},
		{"another name for it", "GET", "/", "rebound.example:8080", nil, 421},
		{"another name for the data", "GET", "/api/report", "127.0.0.1.rebound.example", nil, 421},
		{"another name for an order", "POST", "/api/lab/fault", "rebound.example:8080", nil, 421},
		{"no name", "GET", "/", "", nil, 421},
		{"a link from another site", "GET", "/", "localhost", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 200},
		{"a script of another site", "GET", "/api/report", "localhost", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, 403},
		{"the page's own", "GET", "/api/report", "localhost", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"cors"}}, 200},
		{"order of the page", "POST", "/api/lab/fault", "localhost", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		{"order of a program", "POST", "/api/lab/fault", "localhost", nil, 200},
		{"order of another site", "POST", "/api/lab/fault", "localhost", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 403},
		{"order of another port", "POST", "/api/lab/fault", "localhost:8080", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"order of another site from an old browser", "POST", "/api/lab/fault", "localhost:8080", http.Header{"Origin": {"http://evil.example"}}, 403},
		{"order by a link", "GET", "/api/lab/fault", "localhost", nil, 404},
		{"removal by a link", "GET", "/api/lab/remove", "localhost", nil, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), test.method, "http://x"+test.path, strings.NewReader(order))
			request.Host = test.host
			if test.header != nil {
				request.Header = test.header
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code != test.want {
				t.Errorf("%d %q, want %d", recorder.Code, recorder.Body, test.want)
			}
			csp := recorder.Header().Get("Content-Security-Policy")
			for _, directive := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
				if !strings.Contains(csp, directive) {
					t.Errorf("policy %q lacks %s", csp, directive)
				}
			}
			if strings.Contains(csp, "unsafe") || recorder.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", recorder.Header())
			}
			if recorder.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("other origins may read the answer")
			}
		})
	}
}

func TestOrders(t *testing.T) {
	lab := newFakeLab()
	handler := New(Config{Source: &fake{}, Lab: lab, Interval: time.Minute})
	for _, test := range []struct {
		path, body string
		want       int
		says       string
	}{
		{"/api/lab/fault", `{"server": "ise-2", "fault": "reject-all"}`, 200, "reject-all"},
		{"/api/lab/fault", `{"server": "ise-1", "fault": "explode"}`, 400, `unknown fault "explode"`},
		{"/api/lab/fault", `{"server": "ise-1", "fault": "reject-all", "and": 1}`, 400, "and"},
		{"/api/lab/fault", `server=ise-1`, 400, "reading the order"},
		{"/api/lab/fault", `{"server": "` + strings.Repeat("x", largestOrder) + `"}`, 400, "too large"},
		{"/api/lab/remove", `{"group": "vpn", "server": "ise-1"}`, 200, "ise-1"},
		{"/api/lab/remove", `{"group": "nobody", "server": "ise-1"}`, 400, "no such group"},
	} {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+test.path, strings.NewReader(test.body))
		handler.ServeHTTP(recorder, request)
		if recorder.Code != test.want || !strings.Contains(recorder.Body.String(), test.says) {
			t.Errorf("%s %.80s: %d %q, want %d with %q", test.path, test.body, recorder.Code, recorder.Body, test.want, test.says)
		}
	}
	if len(lab.current) != 1 || lab.Fault("ise-2") != "reject-all" || len(lab.removed) != 1 {
		t.Errorf("the lab has faults %v and removed %v", lab.current, lab.removed)
	}
}

func TestListen(t *testing.T) {
	for _, test := range []struct {
		address string
		anyone  bool
		want    string // part of the error; empty for none
	}{
		{"127.0.0.1:0", false, ""},
		{"localhost:0", false, ""},
		{":0", false, "status page on :0: other machines can reach it"},
		{"0.0.0.0:0", false, "ssh -L"},
		{"[::]:0", false, "asks nobody who they are"},
		{"192.0.2.1:8080", false, "status page on 192.0.2.1:8080: other machines"},
		{":0", true, ""},
		{"8080", false, "missing port"},
	} {
		listener, err := Listen(test.address, test.anyone)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.address, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want one with %q", test.address, err, test.want)
		}
		if listener != nil {
			_ = listener.Close()
		}
	}
}

func TestServeEndsWithWhoLooks(t *testing.T) {
	listener, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, New(Config{Source: &fake{}, Interval: time.Hour})) }()
	response, err := http.Get("http://" + listener.Addr().String() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("error %v", err)
	}
}
