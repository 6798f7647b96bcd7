package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"radwitness/pkg/operator"
)

func TestPage(t *testing.T) {
	d := deploy(t, "")
	d.rounds(t, "aaa", "ara")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, printed := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- console{d.environ(), nil, printed, printed, []string{"status", "-serve", "127.0.0.1:0"}}.run(ctx)
		_ = printed.Close()
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("nothing was printed")
	}
	found := regexp.MustCompile(`^status page: (http://127\.0\.0\.1:\d+/), until ctrl-c$`).FindStringSubmatch(lines.Text())
	if found == nil {
		t.Fatalf("printed %q", lines.Text())
	}
	response, err := http.Get(found[1] + "api/report")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var report operator.Report
	if err := json.NewDecoder(response.Body).Decode(&report); err != nil {
		t.Fatal(err)
	}
	if server := report.Groups[0].Servers[1]; server.Standing != "up, failing" || server.Checks[0].ReplyMessage != "no directory" {
		t.Errorf("the second server is %+v", server)
	}
	// It is no lab: there is nothing to break.
	order, err := http.Post(found[1]+"api/lab/fault", "application/json", strings.NewReader(`{"server": "ise-1", "fault": "drop-all"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = order.Body.Close()
	if order.StatusCode < 400 {
		t.Errorf("an order to break a server: %s", order.Status)
	}
	stop()
	if lines.Scan() {
		t.Errorf("printed %q after its end", lines.Text())
	}
	if got := <-code; got != exitFine {
		t.Errorf("exit code %d", got)
	}
}

func TestPageRefuses(t *testing.T) {
	d := deploy(t, "")
	d.rounds(t, "aaa")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, c := range []struct{ args, err string }{
		{"-serve 0.0.0.0:0", "asks nobody who they are: use 127.0.0.1, and ssh -L from elsewhere; -serve-anyone allows it"},
		{"-serve :0", "-serve-anyone allows it"},
		{"-serve 8080", "status page on 8080: address 8080: missing port"},
		{"-serve " + taken.Addr().String(), "address already in use"},
		{"-serve 127.0.0.1:0 -interval 1s", "-interval must be at least 2s with -serve"},
		{"-serve 127.0.0.1:0 -watch", "-watch does not go with -serve"},
		{"-serve 127.0.0.1:0 -check", "-check does not go with -serve"},
		{"-serve 127.0.0.1:0 -json", "-json does not go with -serve"},
		{"-serve 127.0.0.1:0 -group vpn", "-group does not go with -serve"},
		{"-serve-anyone", "-serve-anyone goes with -serve"},
	} {
		code, out, errs := d.run(t, append([]string{"status"}, strings.Fields(c.args)...)...)
		want(t, c.args, code, exitFailed, errs, "radwitness: ", c.err)
		if out != "" {
			t.Errorf("%s: printed %q", c.args, out)
		}
	}
}
