package statuspage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"radwitness/pkg/operator"
)

// hostile is what a server might say to whoever reads it in a browser.
const hostile = "</script><img src=x onerror=alert(1)>\u2028\r\ndata: {}\r\n\r\n"

// fake is a source that counts what it is asked.
type fake struct {
	reports atomic.Int64

	mu   sync.Mutex
	err  error
	hang bool // until the context ends
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) Report(ctx context.Context, _ string) (operator.Report, error) {
	f.reports.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hang {
		<-ctx.Done()
		return operator.Report{}, ctx.Err()
	}
	if f.err != nil {
		return operator.Report{}, f.err
	}
	return operator.Report{At: time.Now(), Groups: []operator.Group{{Name: "vpn", Servers: []operator.Server{{
		Name: "ise-1", Reason: hostile, Checks: []operator.Check{{ReplyMessage: hostile}},
	}}}}}, nil
}

func (f *fake) Timelines(_ context.Context, group string, since time.Time) (operator.Timelines, error) {
	if group != "vpn" {
		return operator.Timelines{}, errors.New("there is no such group")
	}
	return operator.Timelines{Groups: []operator.Timeline{{Group: group, From: since, To: time.Now()}}}, nil
}

func (f *fake) Servers(_ context.Context, group string) (operator.ServersReport, error) {
	if group != "vpn" {
		return operator.ServersReport{}, errors.New("there is no such group")
	}
	return operator.ServersReport{Groups: []operator.ServersGroup{{Name: group, Checks: []operator.Counters{{Row: "ise-1", Requests: 7}}}}}, nil
}

// newTestFeed polls a source.
func newTestFeed(source Source, interval time.Duration) *feed {
	return newFeed(Config{Source: source, Interval: interval, Explain: error.Error})
}

func TestOnePollForAllViewersAndNoneWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fake{}
		f := newTestFeed(source, 5*time.Second)
		polls := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := source.reports.Load(); got != want {
				t.Errorf("%s: %d polls, want %d", when, got, want)
			}
		}
		time.Sleep(time.Minute)
		polls(0, "before anybody looks")

		var leave []func()
		for range 20 {
			leave = append(leave, f.join())
		}
		polls(1, "when 20 begin to look")
		time.Sleep(5*time.Second - 1)
		polls(1, "just before the interval is over")
		time.Sleep(time.Nanosecond)
		polls(2, "after an interval")
		for _, l := range leave[1:] {
			l()
			l() // to leave twice is to leave once
		}
		time.Sleep(5 * time.Second)
		polls(3, "while one still looks")
		leave[0]()
		time.Sleep(time.Minute)
		polls(3, "when nobody looks any more")

		for range 10 {
			stop := f.join()
			synctest.Wait()
			stop()
		}
		polls(4, "when a page is loaded again and again")
		defer f.join()()
		time.Sleep(5*time.Second - 1)
		polls(4, "just before that poll is an interval old")
		time.Sleep(time.Nanosecond)
		polls(5, "when it is")
	})
}

func TestWhatIsLeftOfEarlierViewersIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fake{}
		f := newTestFeed(source, 5*time.Second)
		look := func() update {
			defer f.join()()
			u, err := f.after(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		first := look()
		time.Sleep(5 * time.Second)
		if again := look(); again.id != first.id {
			t.Errorf("update %d is not older than the interval, but %d came in its place", first.id, again.id)
		}
		time.Sleep(time.Hour)
		if u := look(); u.id == first.id || time.Since(u.report.At) != 0 {
			t.Errorf("got update %d of %v ago, want a new one", u.id, time.Since(u.report.At))
		}
	})
}

func TestTroubleKeepsTheNewestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fake{}
		f := newTestFeed(source, time.Second)
		defer f.join()()
		good, _ := f.after(t.Context(), 0)
		source.fail(errors.New("no credentials"))
		first, _ := f.after(t.Context(), good.id)
		begun := time.Now()
		second, _ := f.after(t.Context(), first.id)
		if second.report != good.report || second.trouble == nil || second.trouble.Message != "no credentials" || !second.trouble.Since.Equal(begun) {
			t.Errorf("after two failed polls: report kept %v, trouble %+v, want one since %v", second.report == good.report, second.trouble, begun)
		}
		source.fail(nil)
		if mended, _ := f.after(t.Context(), second.id); mended.trouble != nil || mended.report == good.report {
			t.Errorf("after a good poll: trouble %+v, new report %v", mended.trouble, mended.report != good.report)
		}
	})
}

func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		k := kept[string]{maxAge: 5 * time.Second}
		read := func(ctx context.Context, key string) {
			t.Helper()
			got, err := k.get(ctx, key, func(context.Context) (string, error) {
				reads++
				if key == "bad" {
					return "", errors.New("none")
				}
				return key, nil
			})
			if (err != nil) != (key == "bad") || err == nil && got != key {
				t.Errorf("%s: got %q, %v", key, got, err)
			}
		}
		want := func(want int) {
			t.Helper()
			if reads != want {
				t.Errorf("%d reads, want %d", reads, want)
			}
		}
		for range 3 {
			read(t.Context(), "a")
		}
		want(1)
		read(t.Context(), "b")
		want(2)
		for range 3 {
			read(t.Context(), "bad") // that there is none is kept, too
		}
		want(3)
		time.Sleep(5 * time.Second)
		read(t.Context(), "a")
		want(3)
		time.Sleep(time.Nanosecond)
		read(t.Context(), "a")
		want(4)

		time.Sleep(time.Minute)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		read(gone, "a")
		read(t.Context(), "a") // not what a viewer who has gone left behind
		want(6)
		for i := range 3 * mostKept {
			read(t.Context(), strings.Repeat("x", i))
		}
		if len(k.entries) > mostKept {
			t.Errorf("%d are kept, want %d at most", len(k.entries), mostKept)
		}
	})
}

func TestAWSThatDoesNotAnswerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFeed(&fake{hang: true}, time.Hour)
		defer f.join()()
		begun := time.Now()
		u, err := f.after(t.Context(), 0)
		if err != nil || u.trouble == nil || !strings.HasPrefix(u.trouble.Message, "no answer within 15s") || time.Since(begun) != pollTimeout {
			t.Errorf("after %v: %+v, %v", time.Since(begun), u.trouble, err)
		}
	})
}

// A poll that takes longer than the interval is old when it ends, and still the
// newest that there is.
func TestSlowPollsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFeed(&fake{hang: true}, 5*time.Second)
		leave := f.join()
		ctx, cancel := context.WithTimeout(t.Context(), 10*pollTimeout)
		defer cancel()
		begun := time.Now()
		u, err := f.after(ctx, 0)
		if err != nil || u.trouble == nil || time.Since(begun) != pollTimeout {
			t.Errorf("after %v: %+v, %v; want the trouble of the first poll after %v", time.Since(begun), u.trouble, err, pollTimeout)
		}
		leave()
		time.Sleep(2 * pollTimeout) // for the poll that may be under way
	})
}

// frame is one event of a stream.
type frame struct{ id, event, data string }

// read reads the next event, passing over comments.
func read(t *testing.T, lines *bufio.Scanner) frame {
	t.Helper()
	var f frame
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data += value
		case "":
			if f.data != "" {
				return f
			}
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return f
}

func TestEvents(t *testing.T) {
	server := httptest.NewServer(New(Config{Source: &fake{}, Lab: newFakeLab(), Interval: 10 * time.Millisecond}))
	defer server.Close()
	response, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "retry: 2000" || !lines.Scan() || lines.Text() != "" {
		t.Fatalf("the stream does not begin with when to try again, but with %q", lines.Text())
	}
	for _, id := range []string{"1", "2", "3"} {
		f := read(t, lines)
		if f.id != id || f.event != "report" {
			t.Errorf("event %q with id %q, want report %s", f.event, f.id, id)
		}
		var e event
		if err := json.Unmarshal([]byte(f.data), &e); err != nil {
			t.Fatalf("data %q: %v", f.data, err)
		}
		if e.Report == nil || e.Report.Groups[0].Servers[0].Checks[0].ReplyMessage != hostile {
			t.Errorf("the reply message came as %+v", e.Report)
		}
		if e.Lab == nil || e.Lab.Current["ise-1"] != "none" || e.IntervalMS != 10 {
			t.Errorf("the event is %+v", e)
		}
		if strings.ContainsAny(f.data, "<>\u2028") {
			t.Errorf("what could be markup is not escaped in %s", f.data)
		}
	}
}

func TestSilenceIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*heartbeat+time.Second)
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/events", nil)
		recorder := httptest.NewRecorder()
		New(Config{Source: &fake{}, Interval: time.Hour}).ServeHTTP(recorder, request)
		if got := strings.Count(recorder.Body.String(), ": still here\n\n"); got != 2 {
			t.Errorf("%d comments in %v of silence, want 2, in:\n%s", got, 2*heartbeat, recorder.Body)
		}
	})
}

func TestAPI(t *testing.T) {
	source := &fake{}
	explain := func(err error) string { return "log in again: " + err.Error() }
	handler := New(Config{Source: source, Interval: time.Millisecond, Explain: explain})
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		return recorder.Code, recorder.Body.String()
	}
	for _, test := range []struct {
		path string
		code int
		body string
	}{
		{"/api/report", 200, `"name":"ise-1"`},
		{"/api/timeline?group=vpn&since=1h", 200, `"group":"vpn"`},
		{"/api/timeline?group=vpn&since=2h", 400, "since=5m0s|1h0m0s|24h0m0s"},
		{"/api/timeline?group=vpn&since=soon", 400, "since="},
		{"/api/timeline?since=1h", 400, "group=NAME"},
		{"/api/timeline?group=nobody&since=1h", 502, "log in again: there is no such group"},
		{"/api/servers?group=vpn", 200, `"requests":7`},
		{"/api/servers?group=nobody", 502, "log in again: there is no such group"},
		{"/api/servers", 400, "group=NAME"},
		{"/api/lab/fault", 404, ""}, // there is no lab
		{"/", 200, "<!doctype html>"},
		{"/app.js", 200, "follow("},
		{"/statuspage.go", 404, ""},
	} {
		if code, body := get(test.path); code != test.code || !strings.Contains(body, test.body) {
			t.Errorf("%s: %d %.200q, want %d with %q", test.path, code, body, test.code, test.body)
		}
	}
	source.fail(errors.New("expired token"))
	time.Sleep(2 * time.Millisecond) // the report that was good is older than an interval
	if code, body := get("/api/report"); code != 502 || !strings.Contains(body, "log in again: expired token") {
		t.Errorf("/api/report in trouble: %d %q", code, body)
	}
}

// What the page is made of must not turn text into markup or scripts, nor need
// anything from elsewhere.
func TestPageIsSelfContained(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\sstyle=|\son[a-z]+=|` +
		`https?://[^w]|@import|javascript:`)
	err := fs.WalkDir(embedded, "page", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(embedded, path)
		for _, found := range forbidden.FindAllString(string(text), -1) {
			t.Errorf("%s: %q", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
