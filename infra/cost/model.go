// Package cost is a model of what the system costs in a month, beside AWS's
// container that does the same work (docs/comparison.md names it). docs/cost.md
// says what its numbers rest on.
package cost

import (
	"errors"
	"math"
	"time"

	"radwitness/infra/capacity"
)

// Fleet is what the cost depends on. Every server has one check.
type Fleet struct {
	Servers, Groups int
	Interval        time.Duration
	Shards          int  // of the prober
	ServerMetrics   bool // of every server, besides the groups'
	Debug           bool // log level: every round with all its servers
	Tasks           int  // of the container
	Zones           int  // that interface endpoints are in
}

func (f Fleet) validate() error {
	switch {
	case f.Servers < 1:
		return errors.New("-servers must be at least 1")
	case f.Groups < 1 || f.Groups > f.Servers:
		return errors.New("-groups must be at least 1 and at most the number of servers")
	case f.Interval < time.Second || f.Interval > time.Minute || time.Minute%f.Interval != 0:
		return errors.New("-interval must be from 1s to 60s and divide 60s evenly")
	case f.Shards < 1:
		return errors.New("-shards must be at least 1")
	case f.Tasks < 1:
		return errors.New("-tasks must be at least 1")
	case f.Zones < 1:
		return errors.New("-zones must be at least 1")
	}
	return nil
}

// Item is one line of a bill.
type Item struct {
	Name     string
	Quantity float64
	Unit     string
	Price    float64 // dollars for one
}

// Dollars is what an item costs in a month.
func (i Item) Dollars() float64 { return i.Quantity * i.Price }

// Sum adds up items.
func Sum(items []Item) float64 {
	sum := 0.0
	for _, i := range items {
		sum += i.Dollars()
	}
	return sum
}

// What the functions do, measured or counted; docs/cost.md says how.
const (
	proberSeconds    = 61  // of an invocation: a minute of rounds, and the last write
	tableShards      = 4   // of the stream of an on-demand table, as it begins
	batchesPerRound  = 1.5 // of a shard: some rounds are cut in two by one of Lambda's four polls a second
	callSeconds      = 0.040
	batchCPUSeconds  = 0.001
	recordCPUSeconds = 0.0001
	passSeconds      = 30.0 // default of reconcile_interval

	rowBytes   = 750 // of table probes
	stateBytes = 350 // of a server in table health, and its part of the group's row

	groupMetrics, serverMetrics = 8, 2 // at rest
	groupAlarms, otherAlarms    = 5, 5

	minuteBytes     = 600 // the prober's line of a group, and its metrics
	passBytes       = 910 // the reconciler's, and its metrics
	invocationBytes = 300 // START, END and REPORT of Lambda
	roundBytes      = 130 // at log level debug
	roundServerByte = 80

	// AWS's container. That it logs each probe is what its article says, the size
	// of a line is an assumption.
	taskVCPU, taskGB = 0.25, 0.5
	witnessLogBytes  = 300
	// witnessEndpoints are the APIs that a task in a private subnet has to reach:
	// image registry (two), logs, secrets, load balancer, EC2. Our prober needs
	// the secrets alone; the reconciler is outside the VPC.
	ourEndpoints, witnessEndpoints = 1, 6
)

// Radwitness lists what this system costs.
func Radwitness(f Fleet) []Item {
	rounds := secondsInMonth / f.Interval.Seconds() // of one server
	invocations := float64(f.Shards) * minutesInMonth
	memory := float64(capacity.ProberMB((f.Servers + f.Shards - 1) / f.Shards))

	batches := float64(min(f.Groups, tableShards)) * rounds * batchesPerRound
	records := float64(f.Servers) * rounds
	share := float64(capacity.ReconcilerMB) / capacity.MBPerCPU
	reconciling := batches*(callSeconds+batchCPUSeconds/share) + records*recordCPUSeconds/share

	perGroup := float64(f.Servers) / float64(f.Groups)
	units := math.Ceil(perGroup*rowBytes/4096) + math.Ceil(perGroup*stateBytes/4096)
	reads := float64(f.Groups) * rounds * batchesPerRound * units

	logs := float64(f.Groups)*(minutesInMonth*minuteBytes+secondsInMonth/passSeconds*passBytes) + (invocations+batches)*invocationBytes
	if f.Debug {
		logs += rounds*roundBytes + records*roundServerByte
	}
	metrics := groupMetrics * f.Groups
	if f.ServerMetrics {
		metrics += serverMetrics * f.Servers
	}
	// Each shard has two environments in turn, which keep a secret five minutes.
	secretReads := float64(2*f.Shards) * minutesInMonth / 5
	return []Item{
		{"prober, running", invocations * proberSeconds * memory / 1024, "GB-s", lambdaGBSecond},
		{"prober, invoked", invocations, "calls", lambdaRequest + schedulerCall},
		{"table probes, writes", records, "units", dynamoDBWrite},
		{"reconciler, running", reconciling * capacity.ReconcilerMB / 1024, "GB-s", lambdaGBSecond},
		{"reconciler, invoked", batches, "calls", lambdaRequest},
		{"stream", records, "records", 0},
		{"both tables, reads", reads, "units", dynamoDBRead},
		{"metrics", float64(metrics), "metrics", metricMonth},
		{"alarms", float64(groupAlarms*f.Groups + otherAlarms), "alarms", alarmMonth},
		{"logs", logs / bytesInGB, "GB", logGB},
		{"dashboard", 1, "dashboard", dashboardMonth},
		{"secret", 1, "secret", secretMonth},
		{"secret, reads", secretReads, "calls", secretRead},
	}
}

// Witness lists what AWS's container costs.
func Witness(f Fleet) []Item {
	probes := float64(f.Tasks*f.Servers) * secondsInMonth / f.Interval.Seconds()
	hours := float64(f.Tasks) * hoursInMonth
	return []Item{
		{"Fargate, processors", hours * taskVCPU, "vCPU-hours", fargateVCPUHour},
		{"Fargate, memory", hours * taskGB, "GB-hours", fargateGBHour},
		{"logs", probes * witnessLogBytes / bytesInGB, "GB", logGB},
		{"secret", 1, "secret", secretMonth},
	}
}

// endpoints is what interface endpoints cost where a VPC has none.
func endpoints(n int, f Fleet) Item {
	return Item{"interface endpoints", float64(n * f.Zones * hoursInMonth), "zone-hours", endpointZoneHour}
}
