package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"radwitness/infra/bench/invoker"
	"radwitness/infra/bench/table"
)

// groupSize is how many servers a group has at most: a target group takes no more.
const groupSize = 1000

// scenario is servers, and the prober functions that probe them.
type scenario struct {
	servers  int
	interval time.Duration
	delay    time.Duration // of the answers
	silent   bool          // there are no answers
	shards   int           // schedules of the prober
	ticks    int           // rounds to wait for
	warmUp   int           // ticks at the beginning that do not count
	cores    string        // that the functions run on, as taskset has them
	limit    string        // GOMEMLIMIT, empty for none
}

// observation is what came of a scenario.
type observation struct {
	rounds      []table.Round // those that count, in their order
	missed      int           // results that are missing in them
	memory      int           // bytes that one function had resident at most
	descriptors int           // that one function had open at most
	cpu         time.Duration // of all functions, from their start
	results     int           // of all rounds, whether they count or not
}

// budget is the longest that a probe takes, by the defaults of fleet.yaml.
const budget = 3 * time.Second

// took lists how long the rounds took: from the tick until the last row of the
// round came in.
func (o observation) took() sample {
	var s sample
	for _, r := range o.rounds {
		s = append(s, float64(r.Last.Sub(r.Round).Microseconds())/1000)
	}
	return s
}

// play runs a scenario with the bootstrap that is deployed to Lambda.
func (s scenario) play(ctx context.Context) (observation, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return observation{}, fmt.Errorf("making a directory for the function: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	radius, stopRADIUS, err := startServer(ctx, "respond", "-delay", s.delay.String(), fmt.Sprintf("-silent=%v", s.silent))
	if err != nil {
		return observation{}, err
	}
	defer stopRADIUS()
	rows, stopTable, err := startServer(ctx, "serve-table")
	if err != nil {
		return observation{}, err
	}
	defer stopTable()
	path := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(path, []byte(s.fleet(radius)), 0o600); err != nil {
		return observation{}, fmt.Errorf("writing the fleet: %w", err)
	}
	bootstrap := filepath.Join(dir, "bootstrap")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-w", "-o", bootstrap, "radwitness/functions/prober")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return observation{}, fmt.Errorf("building the function: %w\n%s", err, out)
	}
	f := &functions{scenario: s, environ: []string{
		"RADWITNESS_FLEET=" + path, "RADWITNESS_PROBES_TABLE=probes",
		"BENCH_SHARED_SECRET=" + secret, "BENCH_USERNAME=" + username, "BENCH_PASSWORD=" + password,
		"GOMEMLIMIT=" + s.limit, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench",
		fmt.Sprintf("AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:%d", rows),
	}, bootstrap: bootstrap}
	first, err := f.run(ctx)
	if err != nil {
		return observation{}, err
	}
	return f.observe(ctx, first, rows)
}

// fleet is the fleet.yaml of a scenario. The servers are at 127.1.0.1 and up.
func (s scenario) fleet(port int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "defaults:\n  probe: {port: %d, interval: %s}\ncredentials:\n  bench: {env: BENCH}\ngroups:\n", port, s.interval)
	for i := range s.servers {
		if i%groupSize == 0 {
			g := i / groupSize
			fmt.Fprintf(&b, "  - name: group-%d\n    credentials: bench\n    target_groups:\n"+
				"      - arn: arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/group-%d/%016x\n    servers:\n", g, g, g)
		}
		fmt.Fprintf(&b, "      - {name: server-%d, address: 127.%d.%d.%d}\n", i, 1+i/62500, i/250%250, 1+i%250)
	}
	return b.String()
}

// functions is the environments of the prober.
type functions struct {
	scenario
	bootstrap string
	environ   []string

	mu           sync.Mutex
	environments [][]*invoker.Environment // by shard; the idle ones
	all          []*invoker.Environment
	descriptors  int
	memory       int
}

// run invokes the functions every minute until all ticks are over, and returns the
// first tick.
func (f *functions) run(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // no process is missed from here on
		for _, e := range f.all {
			e.Stop()
		}
	}()
	f.environments = make([][]*invoker.Environment, f.shards)
	for i := range f.environments {
		e, err := f.start()
		if err != nil {
			return time.Time{}, err
		}
		f.environments[i] = []*invoker.Environment{e}
	}
	go f.watch(ctx)
	// Away from the ticks, so that it is clear to which minute each belongs.
	begin := time.Now().Truncate(f.interval).Add(f.interval + time.Second)
	first := begin.Truncate(f.interval).Add(f.interval)
	end := first.Add(time.Duration(f.ticks) * f.interval)
	time.Sleep(time.Until(begin))
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	over := time.After(time.Until(end))
	for {
		for shard := range f.shards {
			go func() {
				// What a function fails to record is missing in its rounds, and so it counts.
				if err := f.invoke(ctx, shard); err != nil && ctx.Err() == nil {
					_, _ = fmt.Fprintf(os.Stderr, "shard %d: %v\n", shard, err)
				}
			}()
		}
		select {
		case <-minute.C:
		case <-over:
			return first, f.look()
		case <-ctx.Done():
			return first, ctx.Err()
		}
	}
}

// start starts an environment.
func (f *functions) start() (*invoker.Environment, error) {
	command := pinned(context.Background(), f.cores, f.bootstrap)
	command.Env = f.environ
	e, err := invoker.Start(command)
	if err == nil {
		f.mu.Lock()
		f.all = append(f.all, e)
		f.mu.Unlock()
	}
	return e, err
}

// invoke runs a minute of a shard, in an idle environment or a new one, as Lambda
// does.
func (f *functions) invoke(ctx context.Context, shard int) error {
	f.mu.Lock()
	idle := f.environments[shard]
	var e *invoker.Environment
	if n := len(idle); n > 0 {
		e, f.environments[shard] = idle[n-1], idle[:n-1]
	}
	f.mu.Unlock()
	if e == nil {
		var err error
		if e, err = f.start(); err != nil {
			return err
		}
	}
	event, err := json.Marshal(map[string]any{
		"source": "aws.scheduler", "detail-type": "Scheduled Event", "time": time.Now().UTC(),
		"shard": map[string]int{"index": shard, "count": f.shards},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 87*time.Second) // as the stack has it
	defer cancel()
	err = e.Invoke(ctx, event)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.environments[shard] = append(f.environments[shard], e)
	return err
}

// watch looks at the processes again and again.
func (f *functions) watch(ctx context.Context) {
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for {
		select {
		case <-often.C:
			_ = f.look()
		case <-ctx.Done():
			return
		}
	}
}

// look notes descriptors and memory of the processes.
func (f *functions) look() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.all {
		open, err := descriptors(e.Process.Process.Pid)
		if err != nil {
			return fmt.Errorf("counting descriptors: %w", err)
		}
		memory, err := peakMemory(e.Process.Process.Pid)
		if err != nil {
			return fmt.Errorf("reading the memory: %w", err)
		}
		f.descriptors, f.memory = max(f.descriptors, open), max(f.memory, memory)
	}
	return nil
}

// observe reads what the table has got, after the run.
func (f *functions) observe(ctx context.Context, first time.Time, port int) (observation, error) {
	o := observation{memory: f.memory, descriptors: f.descriptors}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d", port), nil)
	if err != nil {
		return o, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return o, fmt.Errorf("asking the table for its rounds: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var rounds []table.Round
	if err := json.NewDecoder(response.Body).Decode(&rounds); err != nil {
		return o, fmt.Errorf("reading the table's rounds: %w", err)
	}
	byTick := map[int64]table.Round{}
	for _, r := range rounds {
		o.results += r.Rows
		byTick[r.Round.UnixMilli()] = r
	}
	for tick := f.warmUp; tick < f.ticks; tick++ {
		r := byTick[first.Add(time.Duration(tick)*f.interval).UnixMilli()]
		o.missed += f.servers - r.Rows
		if r.Rows > 0 {
			o.rounds = append(o.rounds, r)
		}
	}
	for _, e := range f.all {
		state := e.Process.ProcessState
		o.cpu += state.UserTime() + state.SystemTime()
	}
	return o, nil
}
