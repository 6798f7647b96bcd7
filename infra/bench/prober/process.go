package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The cores that processes are pinned to: what is measured has one for itself.
const (
	coreOfClient = "0"
	coreOfServer = "1"
	bothCores    = coreOfClient + "," + coreOfServer
)

// pinned is a command that runs on one core.
func pinned(ctx context.Context, core, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "taskset", append([]string{"-c", core, program}, args...)...)
}

// own is a pinned command of this program.
func own(ctx context.Context, core string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return pinned(ctx, core, self, args...), nil
}

// startServer starts a server of this program on the other core, which prints its
// port when it listens. It ends with the returned function.
func startServer(ctx context.Context, args ...string) (port int, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	c, err := own(ctx, coreOfServer, args...)
	if err != nil {
		cancel()
		return 0, nil, err
	}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return 0, nil, fmt.Errorf("starting %q: %w", args[0], err)
	}
	stop = func() {
		cancel()
		_ = c.Wait() // it was killed
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		port, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		stop()
		return 0, nil, fmt.Errorf("reading the port of %q: %w", args[0], err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return port, stop, nil
}

// cost is what a process has used.
type cost struct {
	wall, user, system time.Duration
}

func (c cost) cpu() time.Duration { return c.user + c.system }

// measure runs a command to its end, and returns what it printed and used.
func measure(c *exec.Cmd) (string, cost, error) {
	var out, complaint strings.Builder
	c.Stdout, c.Stderr = &out, &complaint
	begin := time.Now()
	if err := c.Run(); err != nil {
		return "", cost{}, fmt.Errorf("running %q: %w\n%s%s", c.Args, err, out.String(), complaint.String())
	}
	used := c.ProcessState.SysUsage().(*syscall.Rusage)
	return out.String(), cost{time.Since(begin), time.Duration(used.Utime.Nano()), time.Duration(used.Stime.Nano())}, nil
}

// peakMemory reads the most memory, in bytes, that a running process has had
// resident.
func peakMemory(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("reading the memory of process %d: no VmHWM in its status", pid)
	}
	kib, err := strconv.Atoi(fields[0])
	return kib << 10, err
}

// descriptors counts the open files of a running process.
func descriptors(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}
