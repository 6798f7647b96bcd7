package balancer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/sivchari/kumo"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
)

// wire counts the requests of each action as they leave, and answers some of
// them as AWS does when the rate is exceeded. It serves the Query protocol,
// where the action is a form field.
type wire struct {
	mu       sync.Mutex
	requests map[string]int
	throttle map[string]int
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	action := form.Get("Action")

	w.mu.Lock()
	w.requests[action]++
	throttled := w.throttle[action] > 0
	if throttled {
		w.throttle[action]--
	}
	w.mu.Unlock()
	if !throttled {
		return http.DefaultTransport.RoundTrip(req)
	}
	const answer = `<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>`
	return &http.Response{
		Status: "400 Bad Request", StatusCode: http.StatusBadRequest, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"text/xml"}},
		Body: io.NopCloser(strings.NewReader(answer)),
	}, nil
}

// changes counts the requests that change something.
func (w *wire) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests["RegisterTargets"] + w.requests["DeregisterTargets"]
}

// The real SDK over real HTTP, with its own retries. The emulator is no AWS: it
// knows no draining, and takes two ports of one id for one target.
func TestWithSDK(t *testing.T) {
	server := kumo.NewServer()
	t.Cleanup(server.Close)
	w := &wire{requests: make(map[string]int), throttle: make(map[string]int)}
	ctx := context.Background()
	api := elbv2.NewFromConfig(aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   &http.Client{Transport: w},
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = 5
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	})
	created, err := api.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{
		Name: aws.String("radius"), Port: aws.Int32(1812), Protocol: elbv2types.ProtocolEnumUdp,
		TargetType: elbv2types.TargetTypeEnumIp, VpcId: aws.String(vpc),
	})
	if err != nil {
		t.Fatal(err)
	}
	tg := fleet.TargetGroup{ARN: aws.ToString(created.TargetGroups[0].TargetGroupArn)}
	group := fleet.Group{Servers: []fleet.Server{
		{Name: "ise-1", Address: netip.MustParseAddr("10.0.1.10")},
		{Name: "ise-2", Address: netip.MustParseAddr("10.0.1.11")},
	}}
	client := &balancer.Client{ELBv2: api}
	pass := func(below int, verdicts ...string) balancer.Plan {
		t.Helper()
		p, err := client.Plan(ctx, group, tg, decide(below, verdicts...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Apply(ctx, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	listed := func() string {
		t.Helper()
		o, err := client.Observe(ctx, tg.ARN)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(o.States)
	}

	w.throttle["RegisterTargets"] = 3
	pass(1, "ise-1 up", "ise-2 up")
	same(t, "listed", listed(), "map[10.0.1.10:1812:{healthy  } 10.0.1.11:1812:{healthy  }]")
	same(t, "RegisterTargets, three of them throttled", w.requests["RegisterTargets"], 4)

	before := w.changes()
	for range 10 {
		if p := pass(1, "ise-1 up", "ise-2 up"); !p.Empty() {
			t.Errorf("not at rest: %+v", p)
		}
	}
	same(t, "requests that change, at rest", w.changes(), before)

	pass(1, "ise-1 up", "ise-2 down")
	same(t, "listed", listed(), "map[10.0.1.10:1812:{healthy  }]")
	if p := pass(1, "ise-1 down", "ise-2 down"); len(p.Withheld) != 1 {
		t.Errorf("the last server is not held: %+v", p)
	}
	same(t, "listed", listed(), "map[10.0.1.10:1812:{healthy  }]")

	// Removed by hand, put back by the next pass.
	if _, err := api.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{
		TargetGroupArn: &tg.ARN, Targets: []elbv2types.TargetDescription{{Id: aws.String("10.0.1.10"), Port: aws.Int32(1812)}},
	}); err != nil {
		t.Fatal(err)
	}
	pass(1, "ise-1 up", "ise-2 up")
	same(t, "listed", listed(), "map[10.0.1.10:1812:{healthy  } 10.0.1.11:1812:{healthy  }]")

	if _, err := client.Observe(ctx, tg.ARN+"0"); !errors.Is(err, balancer.ErrTargetGroupNotFound) {
		t.Errorf("unknown group: %v", err)
	}
}
