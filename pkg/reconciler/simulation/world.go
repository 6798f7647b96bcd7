// Package simulation is the world around the two functions in virtual time,
// for tests: EventBridge, the RADIUS servers, both tables, the stream between
// them, ELBv2, EC2, and the operators. It breaks everything that these can
// break, by chance from a seed, and checks after every step what must always
// hold (docs: design section 8, P1 to P8).
//
// The reconciler and the balancer are the real ones. The prober is a model of
// the real one's schedule, because goroutines that wait on timers are too slow
// for a hundred thousand histories; TestRealProber runs the real one, with the
// real encoding of the tables, over fewer of them.
package simulation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer/balancertest"
	"radwitness/pkg/fleet"
)

// Violation is a property that did not hold.
type Violation struct {
	Seed     uint64
	Property string        // "P1" to "P8", or a rule in a word
	At       time.Duration // since the history began
	Detail   string
}

// Error names the property, what happened and the seed.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d, %v into its history: %s: %s", v.Seed, v.At, v.Property, v.Detail)
}

// Report is what came of one history.
type Report struct {
	Faults     Tally
	Probes     int
	Deliveries int // batches given to the reconciler
	Changes    int // calls of RegisterTargets and DeregisterTargets that succeeded
}

// world is one history.
type world struct {
	seed    uint64
	rng     *rand.Rand
	now     time.Time
	queue   queue
	added   int // events so far, to keep their order
	weather weather
	report  Report
	trace   func(format string, args ...any) // nil unless a seed is replayed
	epoch   time.Time                        // when it began
	sleep   func(time.Duration)              // waits for others that live by the same clock; nil if there are none

	store storage // other than the tables in memory; its zero value is none

	fleets        []*fleet.Fleet // the newest last; while a change rolls out, both functions run the last two
	rolling       time.Time      // end of the roll-out
	policyChanged bool           // by a version of the fleet
	machines      map[string]*machine
	prober        probing
	tables        *tables
	shards        []*shard
	records       int // written to the stream so far
	cloud         *cloud
	workers       map[string]*worker // warm reconcilers, by version of the fleet
	violated      *Violation
}

// event is something that happens at a time.
type event struct {
	at    time.Time
	order int
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// at plans an event; one in the past happens now.
func (w *world) at(t time.Time, do func()) {
	if t.Before(w.now) {
		t = w.now
	}
	w.added++
	heap.Push(&w.queue, event{t, w.added, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now.Add(d), do) }

// run lets time pass until nothing is left to do before the given time, or a
// property is broken.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for w.violated == nil {
		next := end
		if len(w.queue) > 0 && w.queue[0].at.Before(end) {
			next = w.queue[0].at
		}
		switch {
		case next.After(w.now):
			w.pass(next)
		case len(w.queue) == 0 || w.queue[0].at.After(end):
			return
		default:
			heap.Pop(&w.queue).(event).do()
		}
	}
}

// pass lets the clock go on towards a time. With others around it goes in small
// steps: what they do meanwhile may be what happens next.
func (w *world) pass(t time.Time) {
	if w.sleep != nil {
		t = earlier(t, w.now.Add(step))
		w.sleep(t.Sub(w.now))
	}
	w.now = t
}

// step is how far the world's clock may lag behind that of others.
const step = 20 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// strikes draws whether a fault happens now, and counts it.
func (w *world) strikes(f Fault) bool {
	if p := w.weather[f]; p == 0 || w.rng.Float64() >= p {
		return false
	}
	w.inject(f, "")
	return true
}

func (w *world) inject(f Fault, detail string) {
	w.report.Faults[f]++
	w.tracef("fault %s %s", f, detail)
}

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		w.trace("%9.3fs "+format, append([]any{w.now.Sub(w.epoch).Seconds()}, args...)...)
	}
}

// violate notes the first broken property.
func (w *world) violate(property, format string, args ...any) {
	if w.violated == nil {
		w.violated = &Violation{Seed: w.seed, Property: property, At: w.now.Sub(w.epoch), Detail: fmt.Sprintf(format, args...)}
		w.tracef("%s broken: %s", property, w.violated.Detail)
	}
}

// between draws a duration.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)+1))
}

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

// current is the newest fleet; running is the one that an invocation gets.
func (w *world) current() *fleet.Fleet { return w.fleets[len(w.fleets)-1] }

func (w *world) running() *fleet.Fleet {
	if n := len(w.fleets); n > 1 && w.now.Before(w.rolling) && w.rng.IntN(2) == 0 {
		return w.fleets[n-2]
	}
	return w.current()
}

// Run plays the history of a seed: faults for some minutes, then peace, in
// which everything must come to rest. trace, if not nil, is told every step.
func Run(seed uint64, trace func(format string, args ...any)) (Report, error) {
	w := newWorld(seed, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), trace)
	return w.play()
}

// play lets the history happen.
func (w *world) play() (Report, error) {
	w.begin()
	w.run(w.between(time.Minute, 6*time.Minute))
	w.makePeace()
	w.checkConvergence()
	w.checkReplay()
	w.checkRecovery()
	w.checkRest()
	w.checkRemoval()
	if w.violated != nil {
		return w.report, w.violated
	}
	return w.report, nil
}

func newWorld(seed uint64, epoch time.Time, trace func(format string, args ...any)) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), now: epoch, epoch: epoch, trace: trace,
		report: Report{Faults: Tally{}}, machines: map[string]*machine{}, tables: newTables(),
		workers: map[string]*worker{},
	}
	w.weather = newWeather(w.rng)
	w.cloud = &cloud{world: w, AWS: balancertest.New(func() time.Time { return w.now }), before: map[string]snapshot{}, types: map[string]elbv2types.TargetTypeEnum{}, owners: map[string]string{}}
	w.fleets = []*fleet.Fleet{w.drawFleet()}
	for _, g := range w.current().Groups {
		s := &shard{world: w, groups: []string{g.Name}}
		if len(w.shards) > 0 && w.rng.IntN(2) == 0 {
			w.shards[0].groups = append(w.shards[0].groups, g.Name)
			continue
		}
		w.shards = append(w.shards, s)
	}
	return w
}

// begin plans the first of everything that goes on by itself.
func (w *world) begin() {
	w.at(w.now, w.minute)
	w.after(w.between(0, 20*time.Second), w.mishap)
}

// shardOf is the shard that the records of a group are in.
func (w *world) shardOf(group string) *shard {
	for _, s := range w.shards {
		if slices.Contains(s.groups, group) {
			return s
		}
	}
	s := &shard{world: w, groups: []string{group}}
	w.shards = append(w.shards, s)
	return s
}
