// Package machine says what a measurement was made on.
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Line names time, machine, versions, and the load of the last minute, which
// tells a quiet machine.
func Line() string {
	return fmt.Sprintf("%s, %s, %d cores, Linux %s, %s, load %s, radwitness %s",
		time.Now().UTC().Format(time.DateTime+" UTC"), processor(), runtime.NumCPU(), firstWord("/proc/sys/kernel/osrelease"),
		runtime.Version(), firstWord("/proc/loadavg"), revision())
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func firstWord(path string) string {
	text, _ := os.ReadFile(path)
	if words := strings.Fields(string(text)); len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// revision is the commit that is measured.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "of unknown revision"
	}
	return strings.TrimSpace(string(out))
}
