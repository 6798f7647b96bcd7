// Package machine says what a measurement was made on.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Line names date, processor, system and Go version.
func Line() string {
	return fmt.Sprintf("%s, %s, %d CPUs, %s/%s, kernel %s, %s",
		time.Now().UTC().Format(time.DateOnly), field("/proc/cpuinfo", "model name"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		firstWordAfter("/proc/version", "version"), runtime.Version())
}

// field returns a value of a file of "name : value" lines, "unknown" without.
func field(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func firstWordAfter(path, word string) string {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(text), word+" ")
	if words := strings.Fields(rest); len(words) > 0 {
		return words[0]
	}
	return "unknown"
}
