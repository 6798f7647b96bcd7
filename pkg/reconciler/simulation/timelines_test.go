package simulation

import (
	"cmp"
	"context"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"radwitness/pkg/docs"
	"radwitness/pkg/health"
)

var update = flag.Bool("update", false, "write the timelines in docs/ anew")

const timelinePage = "../../../docs/how-it-decides.md"

// What the page says of the world around the functions.
const (
	answerTime  = 5 * time.Millisecond
	rejectDelay = time.Second         // FreeRADIUS's default
	warmUp      = 2 * time.Minute     // before the story begins
	noon        = 12 * time.Hour      // of the bubble's first day
	tenth       = time.Second / 10    // what a row of a timeline is rounded to
	oldSecret   = "the secret of old" // of the servers and the prober
	newSecret   = "the secret to be"
)

// story is one of the page's timelines. It gets the stage at noon and all is well.
type story struct {
	name  string
	page  string    // empty means timelinePage
	yaml  [2]string // what to replace in the page's file, by what
	brief bool      // without the single probes
	lasts time.Duration
	tell  func(*stage)
}

func stories() []story {
	return []story{
		{name: "one server rejects", lasts: 9 * time.Minute, tell: func(s *stage) {
			s.at(13*time.Second, "**ise-1 loses its directory: it rejects everybody**", func() { s.play("ise-1", health.Reject) })
			s.at(3*time.Minute+17*time.Second, "**ise-1 is mended**", func() { s.play("ise-1", "") })
		}},
		{name: "one server is silent", lasts: 9 * time.Minute, tell: func(s *stage) {
			s.at(13*time.Second, "**ise-1 hangs: it answers nobody**", func() { s.play("ise-1", health.Timeout) })
			s.at(3*time.Minute+17*time.Second, "**ise-1 is restarted**", func() { s.play("ise-1", "") })
		}},
		{name: "one lost answer", lasts: 40 * time.Second, tell: func(s *stage) {
			s.at(13*time.Second, "**ise-1 is out of reach for nine seconds**", func() { s.play("ise-1", health.Timeout) })
			s.at(22*time.Second+500*time.Millisecond, "**ise-1 is reached again**", func() { s.play("ise-1", "") })
		}},
		{name: "directory gone within seconds", lasts: 5 * time.Minute, tell: func(s *stage) {
			for i, name := range s.names() {
				s.at(time.Duration(12+3*i)*time.Second, "**"+name+" loses the directory: it rejects everybody**", func() { s.play(name, health.Reject) })
				s.at(time.Duration(102+7*i)*time.Second, "**"+name+" has the directory again**", func() { s.play(name, "") })
			}
		}},
		{name: "directory gone over two rounds", lasts: 6 * time.Minute, tell: goneOverRounds},
		{name: "directory gone over two rounds, below 2", yaml: [2]string{"below: 1", "below: 2"}, lasts: 5 * time.Minute, tell: goneOverRounds},
		{name: "one after the other, all down", brief: true, lasts: 16 * time.Minute, tell: func(s *stage) {
			for i, name := range s.names() {
				s.at(time.Duration(1+i)*time.Minute+3*time.Second, "**"+name+" rejects everybody**", func() { s.play(name, health.Reject) })
				s.at(time.Duration(8+i)*time.Minute+3*time.Second, "**"+name+" is mended**", func() { s.play(name, "") })
			}
		}},
		{name: "a flapping server", brief: true, lasts: 42 * time.Minute, tell: func(s *stage) {
			s.at(13*time.Second, "", func() {
				for range 4 {
					s.play("ise-1", health.Reject)
					s.note(happening, "**ise-1 rejects everybody for 30 s**")
					time.Sleep(30 * time.Second)
					s.play("ise-1", "")
					for s.status("ise-1") != health.Up {
						time.Sleep(time.Second)
					}
					time.Sleep(time.Minute)
				}
			})
		}},
		{name: "the prober stops", lasts: 9 * time.Minute, tell: func(s *stage) {
			s.at(30*time.Second, "**the prober stops: its schedule is disabled**", func() { s.stopped(true) })
			s.at(90*time.Second, "**ise-1 loses its directory: it rejects everybody**", func() { s.play("ise-1", health.Reject) })
			s.at(2*time.Minute, "**somebody deregisters ise-2 by hand**", func() { s.deregister("ise-2") })
			s.at(5*time.Minute+30*time.Second, "**the schedule is enabled**", func() { s.stopped(false) })
		}},
		{name: "the secret is rotated", lasts: 14 * time.Minute, tell: func(s *stage) {
			s.at(15*time.Second, "**a new shared secret is put into Secrets Manager**", func() { s.rotate() })
			for i, name := range s.names() {
				s.at(time.Duration(2+4*i)*time.Minute+5*time.Second, "**"+name+" gets the new secret**", func() { s.knows(name, newSecret) })
			}
		}},
		{name: "observe mode", yaml: [2]string{"mode: enforce", "mode: observe"}, lasts: 6 * time.Minute, tell: func(s *stage) {
			s.at(13*time.Second, "**ise-1 loses its directory: it rejects everybody**", func() { s.play("ise-1", health.Reject) })
			s.at(77*time.Second, "**ise-1 is mended**", func() { s.play("ise-1", "") })
		}},
		{name: "a drain", lasts: 7 * time.Minute, tell: func(s *stage) {
			s.at(13*time.Second, "**an operator drains ise-2 for four minutes**", func() { s.drain("ise-2", 4*time.Minute) })
			s.at(27*time.Second, "**ise-2 is rebooted: nothing listens**", func() { s.play("ise-2", health.Refused) })
			s.at(67*time.Second, "**ise-2 is back**", func() { s.play("ise-2", "") })
		}},
	}
}

// disputed is a target group that another health checker manages too.
func disputed() story {
	return story{name: "two manage", page: "../../../docs/migrate-from-witness.md", lasts: 2 * time.Minute, tell: func(s *stage) {
		for i := range 4 {
			s.at(time.Duration(13+30*i)*time.Second, "**the other deregisters ise-2**", func() { s.deregister("ise-2") })
		}
	}}
}

// goneOverRounds has the directory reach the last server one round later.
func goneOverRounds(s *stage) {
	for i, name := range s.names() {
		s.at(time.Duration(12+5*i)*time.Second, "**"+name+" loses the directory: it rejects everybody**", func() { s.play(name, health.Reject) })
		s.at(103*time.Second, "**"+name+" has the directory again**", func() { s.play(name, "") })
	}
}

// TestTimelines plays the timelines of the documentation with the real prober and
// the real reconciler, and compares what they do with the pages.
func TestTimelines(t *testing.T) {
	for _, story := range append(stories(), disputed()) {
		t.Run(story.name, func(t *testing.T) {
			var table string
			synctest.Test(t, func(t *testing.T) { table = story.play(t) })
			docs.Section(t, cmp.Or(story.page, timelinePage), story.name, table, *update)
		})
	}
}

func (st story) play(t *testing.T) string {
	s := newStage(t, st)
	time.Sleep(noon - warmUp)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.schedule(ctx, &running) })
	time.Sleep(warmUp)
	s.begin()
	st.tell(s)
	time.Sleep(st.lasts)
	table := s.table()
	cancel()
	running.Wait()
	return table
}
