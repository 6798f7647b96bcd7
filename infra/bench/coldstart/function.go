package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"radwitness/infra/bench/estate"
	"radwitness/infra/capacity"
)

// build makes a function's bootstrap as `make build` does, for this machine.
func build(ctx context.Context, dir, function string) (string, error) {
	path := filepath.Join(dir, function)
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-o", path, "./functions/"+function)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", function, err, out)
	}
	return path, nil
}

// zipped is the size of a bundle of files.
func zipped(paths ...string) (int, error) {
	var bundle bytes.Buffer
	z := zip.NewWriter(&bundle)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("packing the bundle: %w", err)
		}
		w, err := z.Create(filepath.Base(path))
		if err != nil {
			return 0, fmt.Errorf("packing the bundle: %w", err)
		}
		if _, err := w.Write(data); err != nil {
			return 0, fmt.Errorf("packing the bundle: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return 0, fmt.Errorf("packing the bundle: %w", err)
	}
	return bundle.Len(), nil
}

// instance is a started function.
type instance struct {
	api     *runtimeAPI
	process *exec.Cmd
	log     *bytes.Buffer
	started time.Duration // from the start of the process to its first request
	used    time.Duration // processor time of its whole life; known after stop
}

// start runs a bootstrap until it asks for its first event.
func start(ctx context.Context, bootstrap string, e *estate.Estate) (*instance, error) {
	api, err := newRuntimeAPI()
	if err != nil {
		return nil, err
	}
	i := &instance{api: api, log: &bytes.Buffer{}, process: exec.Command(bootstrap)}
	i.process.Stdout, i.process.Stderr = i.log, i.log
	i.process.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + api.address(), "AWS_LAMBDA_FUNCTION_NAME=bench", "AWS_REGION=" + estate.Region,
		"AWS_ACCESS_KEY_ID=estate", "AWS_SECRET_ACCESS_KEY=estate", "AWS_ENDPOINT_URL=" + e.URL,
		"RADWITNESS_FLEET=" + e.FleetFile, "RADWITNESS_PROBES_TABLE=" + estate.ProbesTable, "RADWITNESS_HEALTH_TABLE=" + estate.HealthTable,
	}
	// With the least memory there is, to see that it is enough.
	for name, value := range capacity.Environment(capacity.LeastMB) {
		i.process.Env = append(i.process.Env, name+"="+value)
	}
	began := time.Now()
	if err := i.process.Start(); err != nil {
		api.close()
		return nil, fmt.Errorf("starting %s: %w", bootstrap, err)
	}
	select {
	case at := <-api.asked:
		i.started = at.Sub(began)
		return i, nil
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	i.stop()
	return nil, fmt.Errorf("starting %s: it never asked for an event: %s", bootstrap, i.log)
}

// stop kills the process, as Lambda does in the end.
func (i *instance) stop() {
	_ = i.process.Process.Kill()
	_ = i.process.Wait() // it was killed
	i.used = i.process.ProcessState.UserTime() + i.process.ProcessState.SystemTime()
	i.api.close()
}

// peakResident is the most memory that the process has held, in bytes.
func (i *instance) peakResident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading peak memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("reading peak memory: no VmHWM in /proc: this needs Linux")
}

// processor is the processor time that the process has used so far.
func (i *instance) processor() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before it may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("reading processor time: /proc has another form than proc(5) says")
	}
	ticks := int64(0)
	for _, field := range fields[11:13] { // utime, stime, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
