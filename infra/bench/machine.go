package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// printMachine says where and when the figures come from.
func printMachine() {
	fmt.Printf("%s, %s, %d cores, Linux %s, %s, load %s, radwitness %s\n",
		time.Now().UTC().Format(time.DateTime+" UTC"), processor(), runtime.NumCPU(), kernel(), runtime.Version(), load(), revision())
}

func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "of unknown release"
	}
	return strings.TrimSpace(string(b))
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// load is the average of the last minute, which tells a quiet machine.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// revision is the commit that is measured.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "of unknown revision"
	}
	return strings.TrimSpace(string(out))
}

// sample is figures of repeated runs.
type sample []float64

// median is the middle of the figures.
func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// spread says how far the figures are from each other: the least and the greatest.
func (s sample) spread() string { return fmt.Sprintf("%.0f to %.0f", slices.Min(s), slices.Max(s)) }
