package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/infra/local/lab"
	"radwitness/pkg/probe"
	"radwitness/pkg/probe/radiustest"
)

// output is a buffer that both functions may write to.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestDemo plays the whole script, and then looks for secrets in everything that
// came of it.
func TestDemo(t *testing.T) {
	account := probe.Credentials{
		SharedSecret: probe.Secret("Sh4red-" + t.Name()), Username: "user-" + t.Name(), Password: probe.Secret("P4ssword-" + t.Name()),
	}
	var out, log output
	l, err := lab.Start(t.Context(), lab.Config{Environ: Environ(), Credentials: account, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := Play(t.Context(), l, &out); err != nil {
		t.Errorf("%v\n%s\n%s", err, out.String(), log.String())
	}
	probes, health := scan(t, l, l.Probes.Table), scan(t, l, l.Health.Table)
	l.Close() // the functions may have last words

	for name, text := range map[string]string{
		"output": out.String(), "logs and metrics": log.String(), "table probes": probes, "table health": health,
	} {
		if !strings.Contains(text, "radius-2") {
			t.Errorf("the %s do not even name a server:\n%s", name, text)
		}
		for what, secret := range map[string]string{
			"shared secret": string(account.SharedSecret), "password": string(account.Password), "user name": account.Username,
		} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("the %s is in the %s: ...%s...", what, name, text[max(0, at-200):min(len(text), at+200)])
			}
		}
	}
}

func TestPlaySaysWhatItExpectedAndWhatItSaw(t *testing.T) {
	l, err := lab.Start(t.Context(), lab.Config{Environ: Environ(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, test := range []struct {
		name   string
		script []step
		want   []string
	}{
		{
			name:   "a picture that does not come about",
			script: []step{script[0], {title: "never", want: picture{servers: "up in, up in, down out", failOpen: true}, within: time.Second}},
			want: []string{
				"step 2, never", "expected: up in, up in, down out; fail-open; no change of targets",
				"actual:   up in, up in, up in; no change of targets",
			},
		},
		{
			name: "a picture that does not stay",
			script: []step{{
				title: "brief", do: faults(radiustest.RejectAll, "radius-1"),
				want: picture{servers: "up in, up in, up in"}, steady: 20 * time.Second,
			}},
			want: []string{"step 1, brief", "expected: up in, up in, up in; no change of targets", "actual:   "},
		},
		{
			name:   "a step that cannot be done",
			script: []step{{title: "wrong", do: faults(radiustest.None, "radius-9")}},
			want:   []string{"step 1, wrong", `no server "radius-9"`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out output
			err := play(t.Context(), l, &out, test.script)
			if err == nil {
				t.Fatalf("no error\n%s", out.String())
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q:\n%v", part, err)
				}
			}
		})
	}
}

// scan writes out all items of a table.
func scan(t *testing.T, l *lab.Lab, table string) string {
	t.Helper()
	var text strings.Builder
	pages := dynamodb.NewScanPaginator(dynamodb.NewFromConfig(l.Operator), &dynamodb.ScanInput{TableName: &table})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			var row map[string]any
			if err := attributevalue.UnmarshalMap(item, &row); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "%s\n", row) // %s also shows binary attributes as text
		}
	}
	return text.String()
}
