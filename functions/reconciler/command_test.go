package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"radwitness/pkg/operator"
)

// want checks an exit code, and that the text has all the parts.
func want(t *testing.T, what string, code, wantCode int, text string, parts ...string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("%s: exit code %d, want %d\n%s", what, code, wantCode, text)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: no %q in\n%s", what, p, text)
		}
	}
}

func TestStatus(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa", "ara", "ara")
	code, out, _ := d.run(t, "status", "-check")
	want(t, "a server in doubt", code, exitAttention, out, "registered 3 of 3, wanted 3", "! up, failing", "next: down after 1 more failure")
	d.rounds(t, "ara")
	code, out, errs := d.run(t, "status")
	want(t, "a server down", code, exitFine, out, "vpn (enforce)  serving", "registered 2 of 3, wanted 2", "X down", `X ise-2: down; last probe: reject, "no directory"`)
	if errs != "" || strings.Contains(out, "\x1b") {
		t.Errorf("stderr %q; stdout has escapes: %v", errs, strings.Contains(out, "\x1b"))
	}
	code, out, _ = d.run(t, "status", "-check", "-group", "vpn")
	want(t, "-check", code, exitAttention, out, "X down")
}

func TestStatusWell(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa", "aaa")
	code, out, _ := d.run(t, "status", "-check")
	want(t, "all up", code, exitFine, out, "registered 3 of 3", "+ up")
	if strings.Contains(out, "next:") {
		t.Errorf("servers that are well need no explanation:\n%s", out)
	}
}

// Without a terminal, -watch prints one report after the other until it is
// stopped.
func TestWatchOnAPipe(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa")
	ctx, stop := context.WithCancel(t.Context())
	out := &reports{stop: stop, after: 3}
	code := console{d.environ(), nil, out, out, []string{"status", "-watch", "-interval", "100ms", "-json"}}.run(ctx)
	if code != exitFine {
		t.Errorf("exit code %d after\n%s", code, out.text.String())
	}
	decoder := json.NewDecoder(strings.NewReader(out.text.String()))
	for i := range out.after {
		var r operator.Report
		if err := decoder.Decode(&r); err != nil || len(r.Groups) != 1 {
			t.Errorf("report %d: %+v, %v", i, r, err)
		}
	}
}

// reports collects what is written, and stops the writer after some of it.
type reports struct {
	text  strings.Builder
	after int // writes
	n     int
	stop  func()
}

func (r *reports) Write(p []byte) (int, error) {
	if r.n++; r.n == r.after {
		r.stop()
	}
	return r.text.Write(p)
}

func TestPlan(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa")
	code, out, _ := d.run(t, "plan")
	want(t, "at rest", code, exitFine, out, "nothing to do")
	d.removeByHand(t, "10.0.1.11")
	code, out, _ = d.run(t, "plan", "-group", "vpn")
	want(t, "a target removed by hand", code, exitAttention, out, "target group "+d.stack, "+  register  10.0.1.11:1812  ise-2  up")
	if strings.Contains(out, "observe mode") {
		t.Errorf("in enforce mode:\n%s", out)
	}
	code, out, _ = run(t, append(d.environ(), "RADWITNESS_MODE=observe"), "plan")
	want(t, "in observe mode", code, exitAttention, out, "+  register", "observe mode: a pass does none of this")
}

func TestServers(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa", "ara", "ara", "ara")
	code, out, _ := d.run(t, "servers")
	want(t, "servers", code, exitFine, out, "vpn/ise-2: 10.0.1.11:1812, method pap", "current DOWN", "previous duration 3s up", "count 1", "Responses: accept 1, reject 3")
}

func TestTimeline(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa", "ara", "ara", "ara")
	picture := filepath.Join(t.TempDir(), "timeline.svg")
	code, out, _ := d.run(t, "timeline", "-since", "1h", "-svg", picture)
	want(t, "timeline", code, exitFine, out, "up -> down: failure threshold reached (reject)", "10.0.1.11:1812 deregistered from "+d.stack+": down")
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "picture", 0, 0, string(svg), "<svg ", "ise-2: down", "10.0.1.11:1812 deregistered from "+d.stack+": down")
}

func TestDrain(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa")
	code, out, _ := d.run(t, "drain", "ise-2", "-for", "2h", "-reason", "patching", "-wait", "0")
	want(t, "drain", code, exitFine, out, "vpn/ise-2 is drained until ", ": patching", "not done after")
	code, _, errs := d.run(t, "drain", "-for", "1h", "ise-2", "-reason", "again")
	want(t, "drain again", code, exitAttention, errs, "radwitness: refused: ise-2 is drained for another ")
	d.rounds(t, "aaa")
	code, out, _ = d.run(t, "status", "-check")
	want(t, "status of a drained server", code, exitFine, out, "registered 2 of 3", "- ise-2: drained until ", "patching", "next: the drain ends in")
	code, out, _ = d.run(t, "undrain", "ise-2", "-wait", "0")
	want(t, "undrain", code, exitFine, out, "is drained no more")
	code, out, _ = d.run(t, "timeline", "-since", "1h")
	want(t, "timeline", code, exitFine, out, "drained for 2h00m: patching", "the drain was taken back")
}

// The command waits until the reconciler has obeyed, whose rounds go on
// meanwhile.
func TestDrainWaits(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa")
	ctx, stop := context.WithCancel(t.Context())
	var err error
	var prober sync.WaitGroup
	prober.Go(func() {
		pace := time.NewTicker(100 * time.Millisecond)
		defer pace.Stop()
		for err == nil {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
				err = d.probe(t.Context(), "aaa")
			}
		}
	})
	code, out, _ := d.run(t, "drain", "ise-2", "-for", "2h", "-reason", "patching")
	want(t, "drain", code, exitFine, out, "out of its target group after ")
	code, out, _ = d.run(t, "undrain", "vpn/ise-2")
	want(t, "undrain", code, exitFine, out, "in its target group after ")
	stop()
	if prober.Wait(); err != nil {
		t.Fatal(err)
	}
	code, out, _ = d.run(t, "drain", "ise-2", "-for", "2h", "-reason", "patching", "-wait", "1ms", "-json")
	want(t, "drain in vain", code, exitAttention, out, `"done": false`)
}

func TestDeployedTables(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa")
	if err := os.WriteFile(d.file, append(read(t, d.file), "# another version\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := d.run(t, "status")
	want(t, "another fleet file", code, exitFine, errs, "radwitness: warning: this fleet file is version ", "and version "+d.fleet.Version+" is deployed")

	given := []string{"-config", d.file, "-probes-table", d.probes.Table, "-health-table", d.stack + "-health"}
	code, out, errs := run(t, nil, append(given, "status")...)
	want(t, "tables given", code, exitFine, out, "registered 3 of 3")
	if errs != "" {
		t.Errorf("tables given: stderr %q", errs)
	}
	code, _, errs = run(t, nil, "status", "-config", d.file)
	want(t, "nothing given", code, exitFailed, errs, "it is not known which tables to read", "RADWITNESS_STACK")
	code, _, errs = run(t, nil, append([]string{"status", "-health-table", "elsewhere"}, given[:4]...)...)
	want(t, "no such table", code, exitFailed, errs, "there is no table "+d.probes.Table+" or elsewhere in us-east-1 of account 000000000000", "deploy the stack")
	code, _, errs = run(t, []string{"RADWITNESS_STACK=elsewhere"}, "status", "-config", d.file)
	want(t, "no such stack", code, exitFailed, errs, "asking function elsewhere-reconciler for its tables")
}

// What the functions are made to do by their environment is shown, unless the
// shell says otherwise.
func TestDeployedOverrides(t *testing.T) {
	d := deploy(t, "RADWITNESS_MODE=observe", "RADWITNESS_HEALTH_FAILURE_THRESHOLD=7")
	d.rounds(t, "aaa", "ara")
	code, out, errs := d.run(t, "status")
	want(t, "overrides of the functions", code, exitFine, out, "vpn (observe)", "next: down after 6 more failures")
	if errs != "" {
		t.Errorf("the same file with overrides is another one: %q", errs)
	}
	code, out, _ = run(t, append(d.environ(), "RADWITNESS_MODE=enforce"), "status")
	want(t, "overrides of the shell", code, exitFine, out, "vpn (enforce)", "next: down after 6 more failures")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBadUsage(t *testing.T) {
	d := deploy(t)
	for _, c := range []struct {
		args []string
		err  string
	}{
		{[]string{"statsu"}, `there is no command "statsu"; radwitness -h lists them`},
		{[]string{"status", "extra"}, `"extra" is no argument of radwitness status`},
		{[]string{"status", "-verbose"}, "flag provided but not defined: -verbose; radwitness status -h shows what it takes"},
		{[]string{"status", "-group", "wifi"}, `group "wifi" is not in the fleet; it has vpn`},
		{[]string{"status", "-watch", "-check"}, "-check goes with one look"},
		{[]string{"status", "-watch", "-interval", "1ms"}, "-interval must be at least 100ms"},
		{[]string{"timeline", "-since", "soon"}, "-since soon: use a time like 90m, 24h or 7d"},
		{[]string{"timeline", "-since", "91d"}, "of 90d at most"},
		{[]string{"drain", "ise-1", "-for", "1h"}, `Required flag "reason" not set`},
		{[]string{"drain", "-for", "1h", "-reason", "x"}, "name one server: radwitness drain SERVER"},
		{[]string{"drain", "ise-1", "-for", "0", "-reason", "x"}, "-for 0: use a time like"},
		{[]string{"drain", "ise-1", "-for", "31d", "-reason", "x"}, "a drain takes from 1m to 30d"},
		{[]string{"drain", "ise-9", "-for", "1h", "-reason", "x"}, `server "ise-9" is not in the fleet; it has ise-1, ise-2, ise-3`},
		{[]string{"status", "-config", "no-such-file"}, "no-such-file"},
	} {
		code, out, errs := d.run(t, c.args...)
		want(t, strings.Join(c.args, " "), code, exitFailed, errs, "radwitness: ", c.err)
		if out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: stdout %q, stderr %q; want nothing and one line", c.args, out, errs)
		}
	}
	code, _, errs := run(t, nil, "status")
	want(t, "no fleet file", code, exitFailed, errs, "say where it is with -config FILE or RADWITNESS_FLEET")
}

// What AWS says is put into words that say what to do.
func TestAWSErrors(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrange func(*testing.T)
		want    string
	}{
		{"no credentials", func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		}, "there are no AWS credentials: set AWS_PROFILE or -profile"},
		{"no such profile", func(t *testing.T) { t.Setenv("AWS_PROFILE", "nobody") }, "there is no such AWS profile"},
		{"expired", answers(http.StatusBadRequest, "com.amazon.coral.service#ExpiredTokenException", "The security token included in the request is expired"), "the AWS credentials have expired or are not valid: log in again"},
		{"not allowed", answers(http.StatusBadRequest, "com.amazon.coral.service#AccessDeniedException", "User: arn:aws:iam::1:user/x is not authorized to perform: dynamodb:Query"), "may not do that; docs/commands.md lists what the command needs (User: arn:aws:iam::1:user/x is not authorized to perform: dynamodb:Query)"},
		{"nobody there", func(t *testing.T) { t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1") }, "DynamoDB cannot be reached from here: check network, proxy, region and AWS_ENDPOINT_URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := deploy(t)
			t.Setenv("AWS_MAX_ATTEMPTS", "1")
			c.arrange(t)
			code, out, errs := d.run(t, "status", "-probes-table", "p", "-health-table", "h")
			want(t, c.name, code, exitFailed, errs, c.want)
			if out != "" || strings.Count(errs, "\n") != 1 {
				t.Errorf("stdout %q, stderr %q; want nothing and one line", out, errs)
			}
		})
	}
}

// answers is an AWS that knows one error.
func answers(status int, code, message string) func(*testing.T) {
	return func(t *testing.T) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": code, "message": message})
		}))
		t.Cleanup(srv.Close)
		t.Setenv("AWS_ENDPOINT_URL", srv.URL)
	}
}

func TestCompletion(t *testing.T) {
	d := deploy(t)
	const asks = "--generate-shell-completion"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{asks}, []string{"status:", "servers:", "plan:", "timeline:", "drain:", "undrain:", "completion:"}},
		{[]string{"-", asks}, []string{"-config:fleet FILE;", "\n-json:"}},
		{[]string{"status", "-", asks}, []string{"-group:only this GROUP\n", "\n-watch:", "\n-json:", "\n-config:"}},
		{[]string{"status", "--wa", asks}, []string{"--watch:"}},
		{[]string{"status", "-group", asks}, []string{"vpn\n"}},
		{[]string{"timeline", "--group", asks}, []string{"vpn\n"}},
		{[]string{"drain", asks}, []string{"ise-1\n", "ise-2\n", "ise-3\n"}},
		{[]string{"undrain", asks}, []string{"ise-1\n", "ise-2\n", "ise-3\n"}},
	} {
		code, out, errs := d.run(t, c.args...)
		want(t, strings.Join(c.args, " "), code, exitFine, out, c.want...)
		if errs != "" {
			t.Errorf("%v: stderr %q", c.args, errs)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, _ := d.run(t, "completion", shell)
		want(t, shell, code, exitFine, out, "radwitness", asks)
	}
}

func TestHelp(t *testing.T) {
	code, out, _ := run(t, nil, "-h")
	want(t, "help", code, exitFine, out, "status", "timeline", "Exit code: 0 fine, 1 warnings of doctor, 2 something needs attention, 3 ")
	code, out, _ = run(t, nil, "drain", "-h")
	want(t, "help of drain", code, exitFine, out, "-for", "GROUP/NAME")
	code, out, _ = run(t, nil)
	want(t, "nothing", code, exitFine, out, "status")
}
