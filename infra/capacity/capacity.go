// Package capacity says how much memory the functions get, and how the Go
// runtime is to use it. They need little: 128 MB hold 1,000 servers, see
// docs/performance.md. But Lambda gives processor time in proportion to memory,
// and that is what a round needs.
package capacity

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	// LeastMB is the least that Lambda gives.
	LeastMB = 128
	// GCPercent is how much garbage there may be for each hundred bytes in use. To
	// collect it less often than Go does by itself saves an eighth of the processor
	// time, and a quarter of that of a start.
	GCPercent = 400
	// MBPerCPU buys a whole processor ("Configure Lambda function memory" in
	// Lambda's guide).
	MBPerCPU = 1769
	// ReconcilerMB has a batch of 1,000 records decided in a third of a second. A
	// batch's processor time costs the same with any memory, it only passes faster.
	ReconcilerMB = 512

	// probeTime is the processor time of a probe and its write, and roundTime what
	// all probes of a round may take: less than an attempt's timeout, so that no
	// answer is late only because nobody had time to read it.
	probeTime = 400 * time.Microsecond
	roundTime = 500 * time.Millisecond
	// stepMB keeps small changes of a fleet from changing the function.
	stepMB = 64
)

// ProberMB is the memory of a prober that makes so many checks in a round.
func ProberMB(checks int) int {
	mb := int(math.Ceil(MBPerCPU * float64(checks) * probeTime.Seconds() / roundTime.Seconds()))
	mb = (mb + stepMB - 1) / stepMB * stepMB
	return min(max(mb, LeastMB), MBPerCPU)
}

// Environment tells the Go runtime what memory there is. The limit has it collect
// garbage more often again before Lambda ends the function.
func Environment(mb int) map[string]string {
	return map[string]string{"GOGC": strconv.Itoa(GCPercent), "GOMEMLIMIT": fmt.Sprintf("%dMiB", mb*5/8)}
}
