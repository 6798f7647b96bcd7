package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"radwitness/infra/local/lab"
	"radwitness/pkg/operator"
	"radwitness/pkg/probe/radiustest"
)

func TestListenTakesTheNextFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	wanted := taken.Addr().(*net.TCPAddr).AddrPort()
	got, err := listen(wanted.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Close() }()
	if port := got.Addr().(*net.TCPAddr).AddrPort().Port(); port <= wanted.Port() || port >= wanted.Port()+portAttempts {
		t.Errorf("port %d is taken, got %d", wanted.Port(), port)
	}
	if _, err := listen("192.0.2.1:8080"); err == nil {
		t.Error("an address that other machines can reach is taken")
	}
}

func TestPageOfALab(t *testing.T) {
	l, err := lab.Start(t.Context(), lab.Config{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	where, stop, err := servePage(t.Context(), l, taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/ \(port \d+ is taken\)$`).MatchString(where) {
		t.Errorf("the page is said to be at %q", where)
	}
	url, _, _ := strings.Cut(where, " ")

	response, err := http.Get(url + "api/report")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var report operator.Report
	if err := json.NewDecoder(response.Body).Decode(&report); err != nil {
		t.Fatal(err)
	}
	if len(report.Groups) != 1 || len(report.Groups[0].Servers) != 3 || report.Groups[0].Servers[1].Name != "radius-2" {
		t.Errorf("the report is %+v", report)
	}

	for _, test := range []struct {
		path, order string
		want        int
	}{
		{"api/lab/fault", `{"server": "radius-2", "fault": "drop-all"}`, 200},
		{"api/lab/fault", `{"server": "radius-2", "fault": "explode"}`, 400},
		{"api/lab/fault", `{"server": "radius-9", "fault": "drop-all"}`, 400},
		{"api/lab/remove", `{"group": "vpn-auth", "server": "radius-1"}`, 200},
		{"api/lab/remove", `{"group": "vpn-auth", "server": "radius-9"}`, 400},
	} {
		response, err := http.Post(url+test.path, "application/json", strings.NewReader(test.order))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s %s: %s, want %d", test.path, test.order, response.Status, test.want)
		}
	}
	for server, want := range map[string]radiustest.Fault{"radius-1": radiustest.None, "radius-2": radiustest.DropAll} {
		if got, err := l.Fault(server); err != nil || got != want {
			t.Errorf("fault of %s: %v, %v, want %v", server, got, err, want)
		}
	}
}
