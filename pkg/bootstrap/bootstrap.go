// Package bootstrap is what the mains of both functions begin with: the fleet
// file of the bundle, a logger, and an AWS configuration.
package bootstrap

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"radwitness/pkg/fleet"
	"radwitness/pkg/telemetry"
)

const (
	dialTimeout = 2 * time.Second // a VPC without a route swallows packets silently
	callTimeout = 4 * time.Second // of one attempt; the SDK repeats it
	// idleConnections is how many connections to a service stay open: as many as
	// the prober writes on at once. The SDK keeps ten, so that each round would
	// begin with dozens of TLS handshakes.
	idleConnections = 64
)

// Function is what a function works with.
type Function struct {
	Fleet       *fleet.Fleet
	Log         *slog.Logger
	Metrics     *telemetry.Metrics
	AWS         aws.Config
	environment map[string]string
}

// New reads the environment, in the form of os.Environ. The fleet file is
// RADWITNESS_FLEET, or else fleet.yaml beside the bootstrap. Logs and metrics go
// to out.
func New(ctx context.Context, environ []string, out io.Writer) (*Function, error) {
	f := &Function{Metrics: &telemetry.Metrics{Out: out}, environment: map[string]string{}}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		f.environment[name] = value
	}
	var err error
	if f.Log, err = telemetry.NewLogger(out, f.environment["RADWITNESS_LOG_LEVEL"]); err != nil {
		return nil, err
	}
	path := f.environment["RADWITNESS_FLEET"]
	if path == "" {
		path = filepath.Join(f.environment["LAMBDA_TASK_ROOT"], "fleet.yaml")
	}
	if f.Fleet, err = fleet.Load(path, environ); err != nil {
		return nil, err
	}
	if f.AWS, err = AWS(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Table returns the name of a table from the environment.
func (f *Function) Table(variable string) (string, error) {
	if name := f.environment[variable]; name != "" {
		return name, nil
	}
	return "", fmt.Errorf("reading the environment: %s is not set; it names a DynamoDB table", variable)
}

// Optional returns a variable of the environment, empty if it is not set.
func (f *Function) Optional(variable string) string { return f.environment[variable] }

// AWS loads the usual AWS configuration with timeouts that give a clear error
// well before a function's deadline, and a retryer that slows down when it is
// throttled: the account's API limits are shared with other tools. Options, such
// as another profile, come last.
func AWS(ctx context.Context, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	client := awshttp.NewBuildableClient().WithTimeout(callTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = idleConnections })
	cfg, err := config.LoadDefaultConfig(ctx, append([]func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithRetryer(func() aws.Retryer { return retry.NewAdaptiveMode() }),
	}, options...)...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	return cfg, nil
}
