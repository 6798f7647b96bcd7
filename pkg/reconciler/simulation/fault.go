package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Fault is a kind of thing that goes wrong, or that somebody does.
type Fault string

// The faults.
const (
	EventLate          Fault = "eventbridge: event late"
	EventDuplicate     Fault = "eventbridge: event twice"
	EventLost          Fault = "eventbridge: event lost"
	ProberKilled       Fault = "prober: killed"
	ProberBlind        Fault = "prober: every probe a prober_error"
	ClockStep          Fault = "prober: clock stepped"
	PacketLost         Fault = "network: probe lost"
	ServerFailed       Fault = "server: begins to fail"
	CommonCause        Fault = "server: all fail within seconds"
	RecordThrottled    Fault = "probes: write throttled"
	RecordAnswerLost   Fault = "probes: answer to a write lost"
	ShardStalled       Fault = "stream: shard stalled"
	RecordsReplayed    Fault = "stream: records delivered again"
	RecordsBisected    Fault = "stream: batch bisected"
	RecordsExpired     Fault = "stream: records lost"
	RecordPoisoned     Fault = "stream: poison record"
	ShardSplit         Fault = "stream: resharded"
	ColdStart          Fault = "reconciler: cold start"
	ReconcilerKilled   Fault = "reconciler: killed between two calls"
	ReadFailed         Fault = "tables: read throttled"
	StateThrottled     Fault = "health: write throttled"
	StateAnswerLost    Fault = "health: answer to a write lost"
	APIThrottled       Fault = "elbv2, ec2: throttled"
	APIAnswerLost      Fault = "elbv2: answer to a change lost"
	StaleTargets       Fault = "elbv2: target list out of date"
	TargetInvalid      Fault = "elbv2: one target refused"
	TooManyTargets     Fault = "elbv2: target group full"
	TargetGroupDeleted Fault = "elbv2: target group deleted and made again"
	InstanceStopped    Fault = "ec2: instance stopped"
	InstanceReplaced   Fault = "ec2: instance terminated, address taken over"
	DriftRemoved       Fault = "operator: target removed by hand"
	DriftAdded         Fault = "operator: target added by hand"
	ForeignTarget      Fault = "operator: foreign target registered"
	Drained            Fault = "operator: server drained"
	FleetChanged       Fault = "operator: fleet.yaml changed, two versions at once"
	EventsFailed       Fault = "eventbridge: change not taken"
)

// faults lists all of them.
func faults() []Fault {
	return []Fault{
		EventLate, EventDuplicate, EventLost, ProberKilled, ProberBlind, ClockStep, PacketLost, ServerFailed, CommonCause,
		RecordThrottled, RecordAnswerLost, ShardStalled, RecordsReplayed, RecordsBisected, RecordsExpired, RecordPoisoned, ShardSplit,
		ColdStart, ReconcilerKilled, ReadFailed, StateThrottled, StateAnswerLost,
		APIThrottled, APIAnswerLost, StaleTargets, TargetInvalid, TooManyTargets, TargetGroupDeleted, InstanceStopped, InstanceReplaced,
		DriftRemoved, DriftAdded, ForeignTarget, Drained, FleetChanged, EventsFailed,
	}
}

// Tally counts the faults that were injected.
type Tally map[Fault]int

// Add adds the counts of another tally.
func (t Tally) Add(other Tally) {
	for f, n := range other {
		t[f] += n
	}
}

// String lists the counts, one fault a line.
func (t Tally) String() string {
	var b strings.Builder
	for _, f := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "%12d  %s\n", t[f], f)
	}
	return b.String()
}

// weather is how likely each fault is in one history. Most faults are absent
// from most histories: rare combinations are where the trouble is, and a
// history with everything in it tests little but the everything.
type weather map[Fault]float64

func newWeather(rng *rand.Rand) weather {
	w := weather{}
	for _, f := range faults() {
		if rng.Float64() < 0.4 {
			w[f] = []float64{0.02, 0.1, 0.3}[rng.IntN(3)]
		}
	}
	return w
}
