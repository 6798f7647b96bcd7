// Package demo plays an outage on a lab, and checks at every step that the
// system did what it is for. It looks at the system as an operator would, and at
// the functions' API calls where a time or a number has to be exact.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"radwitness/infra/local/lab"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

const (
	interval      = time.Second            // of the probes
	pollInterval  = 100 * time.Millisecond // between two looks at the system
	defaultWithin = 20 * time.Second
)

// Environ shortens the times of the lab's fleet, so that an hour's outage takes
// half a minute. The budget of a probe stays long: a busy machine is no outage.
func Environ() []string {
	return []string{
		"RADWITNESS_PROBE_INTERVAL=" + interval.String(),
		"RADWITNESS_PROBE_FAST_INTERVAL=200ms",
		"RADWITNESS_PROBE_ATTEMPT_TIMEOUT=450ms",
		"RADWITNESS_PROBE_ATTEMPTS=2",
		"RADWITNESS_HEALTH_HOLD_DOWN=3s",
		"RADWITNESS_HEALTH_HOLD_DOWN_MAX=15s",
		"RADWITNESS_RECONCILE_INTERVAL=1s",
	}
}

// picture is how the system looks, in words, so that a wanted and an actual one
// can be compared and printed.
type picture struct {
	servers  string // status and membership, in the order of the fleet
	failOpen bool
	changes  string // what the functions registered and deregistered since the step began, sorted
}

func (p picture) String() string {
	text := p.servers
	if p.failOpen {
		text += "; fail-open"
	}
	if p.changes == "" {
		return text + "; no change of targets"
	}
	return text + "; " + p.changes
}

// stage is where the script is played.
type stage struct {
	lab   *lab.Lab
	out   io.Writer
	start time.Time

	view        lab.View
	acted       time.Time       // when the step did what it does
	firstChange int             // of the step, among the lab's changes
	in          map[string]bool // servers that were registered when the step began
	told        map[store.Transition]bool
	toldChanges int
}

// Play plays the script on a lab that was started with Environ, and prints a
// timeline. The error says which step failed, what it expected and what it saw.
func Play(ctx context.Context, l *lab.Lab, out io.Writer) error {
	return play(ctx, l, out, script)
}

// play plays any script.
func play(ctx context.Context, l *lab.Lab, out io.Writer, script []step) error {
	s := &stage{lab: l, out: out, start: time.Now(), told: map[store.Transition]bool{}}
	group := l.Fleet.Groups[0]
	probe := group.Servers[0].Checks[0]
	s.print("radwitness demo: %d RADIUS servers, port %d; AWS is emulated in this process", len(group.Servers), probe.Port)
	s.print("a probe every %v, %v after a failure; down after %d failures; held down for %v, up to %v", probe.Interval,
		probe.FastInterval, group.Health.FailureThreshold, group.Health.HoldDown, group.Health.HoldDownMax)
	for i, step := range script {
		if err := s.step(ctx, i+1, step); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, step.title, err)
		}
	}
	return s.summary(ctx)
}

// step does one step, and returns when the system is as the step wants it.
func (s *stage) step(ctx context.Context, n int, step step) error {
	s.print("\n%8s  %d. %s", s.clock(time.Now()), n, step.title)
	s.firstChange = len(s.lab.Calls.Changes())
	begin := time.Now()
	s.in = map[string]bool{}
	if len(s.view) > 0 {
		for _, server := range s.group().Servers {
			s.in[server.Name] = server.In()
		}
	}
	if step.do != nil {
		if err := step.do(ctx, s); err != nil {
			return err
		}
	}
	within := step.within
	if within == 0 {
		within = defaultWithin
	}
	if err := s.await(ctx, step.want, begin.Add(within)); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := s.keep(ctx, step.want, step.steady); err != nil {
		return err
	}
	s.print("%8s  ok in %s: %v", s.clock(time.Now()), seconds(took), step.want)
	if step.steady > 0 {
		s.print("%8s  and it stayed so for %s", "", seconds(step.steady))
	}
	if step.tell == nil {
		return nil
	}
	lines, err := step.tell(s)
	for _, line := range lines {
		s.print("%8s  %s", "", line)
	}
	return err
}

// await looks until the picture is as wanted.
func (s *stage) await(ctx context.Context, want picture, deadline time.Time) error {
	for {
		got, err := s.look(ctx)
		switch {
		case err == nil && got == want:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(deadline) && err != nil:
			return err
		case time.Now().After(deadline):
			return mismatch(want, got)
		}
		time.Sleep(pollInterval)
	}
}

// keep looks for a while whether the picture stays as wanted.
func (s *stage) keep(ctx context.Context, want picture, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(pollInterval) {
		got, err := s.look(ctx)
		if err != nil {
			return err
		}
		if got != want {
			return mismatch(want, got)
		}
	}
	return nil
}

func mismatch(want, got picture) error {
	return fmt.Errorf("\n  expected: %v\n  actual:   %v", want, got)
}

// look reads the system's present picture, and prints what has happened since
// the last look.
func (s *stage) look(ctx context.Context) (picture, error) {
	view, err := s.lab.View(ctx)
	if err != nil {
		return picture{}, err
	}
	s.view = view
	s.printNews()
	var servers, changes []string
	for _, server := range s.group().Servers {
		membership := "out"
		if server.In() {
			membership = "in"
		}
		servers = append(servers, string(server.State.Status)+" "+membership)
	}
	for _, c := range s.lab.Calls.Changes()[s.firstChange:] {
		changes = append(changes, s.words(c)...)
	}
	slices.Sort(changes)
	return picture{
		servers:  strings.Join(servers, ", "),
		failOpen: s.group().Row.FailOpen,
		changes:  strings.Join(changes, ", "),
	}, nil
}

// names lists the servers whose targets a call names.
func (s *stage) names(c lab.Change) []string {
	names := slices.Clone(c.Targets)
	for i, id := range names {
		for _, server := range s.lab.Fleet.Groups[0].Servers {
			if server.Address.String() == id {
				names[i] = server.Name
			}
		}
	}
	return names
}

// words says what a call changed, server by server. To register a server that
// is in already changes nothing: what the floor rests on is confirmed so before
// another leaves.
func (s *stage) words(c lab.Change) []string {
	verb := "register "
	if c.Operation == lab.DeregisterTargets {
		verb = "deregister "
	}
	var words []string
	for _, name := range s.names(c) {
		if c.Operation == lab.DeregisterTargets || !s.in[name] {
			words = append(words, verb+name)
		}
	}
	return words
}

// news is a line of the timeline.
type news struct {
	at   time.Time
	text string
}

// printNews prints transitions and changes that have not been printed yet, by
// their own times.
func (s *stage) printNews() {
	var fresh []news
	for _, t := range s.group().Transitions {
		if !s.told[t] {
			s.told[t] = true
			fresh = append(fresh, news{t.At, describe(t)})
		}
	}
	changes := s.lab.Calls.Changes()
	for _, c := range changes[s.toldChanges:] {
		fresh = append(fresh, news{c.At, c.Operation + " " + strings.Join(s.names(c), ", ")})
	}
	s.toldChanges = len(changes)
	slices.SortStableFunc(fresh, func(a, b news) int { return a.at.Compare(b.at) })
	for _, n := range fresh {
		s.print("%8s    %s", s.clock(n.at), n.text)
	}
}

// describe writes a transition.
func describe(t store.Transition) string {
	subject := t.Server
	if subject == "" {
		subject = "fail-open"
	}
	text := fmt.Sprintf("%s: %s -> %s, %s", subject, t.From, t.To, t.Rule)
	if t.Outcome != "" {
		text += fmt.Sprintf(" (%s)", t.Outcome)
	}
	return text
}

// changed is when the functions last registered or deregistered a server in
// this step.
func (s *stage) changed(verb, server string) (time.Time, error) {
	changes := s.lab.Calls.Changes()[s.firstChange:]
	for _, c := range slices.Backward(changes) {
		if slices.Contains(s.words(c), verb+" "+server) {
			return c.At, nil
		}
	}
	return time.Time{}, fmt.Errorf("expected a call to %s %s, actual: none", verb, server)
}

// lastTransition is the newest transition of a server to a status.
func (s *stage) lastTransition(server string, to health.Status) (store.Transition, error) {
	for _, t := range s.group().Transitions {
		if t.Server == server && t.To == string(to) {
			return t, nil
		}
	}
	return store.Transition{}, fmt.Errorf("expected a transition of %s to %s, actual: none", server, to)
}

// waitForMidRound waits until half an interval after a round.
func (s *stage) waitForMidRound(ctx context.Context) {
	next := time.Now().Add(interval / 2).Truncate(interval).Add(interval / 2)
	select {
	case <-time.After(time.Until(next)):
	case <-ctx.Done():
	}
}

// summary prints the numbers of the whole demo.
func (s *stage) summary(ctx context.Context) error {
	view, err := s.lab.View(ctx)
	if err != nil {
		return err
	}
	var probes int64
	for _, server := range view.Servers() {
		probes += server.Probe.Requests
	}
	calls := s.lab.Calls
	s.print("\nDone in %s. Sent by the functions, counted at HTTP and UDP:", seconds(time.Since(s.start)))
	s.print("  RegisterTargets %d, DeregisterTargets %d", calls.Count(lab.RegisterTargets), calls.Count(lab.DeregisterTargets))
	s.print("  DynamoDB writes %d: table probes %d, table health %d", calls.Count(lab.UpdateItem, lab.PutItem),
		calls.Count(lab.UpdateItem), calls.Count(lab.PutItem))
	s.print("  probes recorded %d, RADIUS requests on the wire %d", probes, s.lab.Packets())
	if probes == 0 {
		return errors.New("expected probes in table probes, actual: none")
	}
	return nil
}

func (s *stage) group() lab.Group { return s.view[0] }

// clock is a time as seconds since the start.
func (s *stage) clock(t time.Time) string { return fmt.Sprintf("%.2f", t.Sub(s.start).Seconds()) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// print writes a line. That the output is gone is no reason to end the demo: its
// result is the exit code.
func (s *stage) print(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }
