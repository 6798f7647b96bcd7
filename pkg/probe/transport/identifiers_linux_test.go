package transport

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// An identifier is never given to two, nor again while an answer to its last
// transaction could come in; apart from that all of them can be had.
func TestIdentifiers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 7), 500, 1000).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			if err := reserveAndRelease(steps); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

// reserveAndRelease releases the oldest unanswered at step 0 and 1 and answered at
// 2, reserves at all others, and lets time pass now and then.
func reserveAndRelease(steps []int) error {
	ids := identifiers{waiting: map[byte]*sharedConn{}, late: map[byte]time.Time{}}
	var held []byte
	blocked := map[byte]time.Time{} // until when, by identifier
	for i, step := range steps {
		now := time.Now()
		switch {
		case step > 2:
			free := 256 - len(held)
			for _, until := range blocked {
				if now.Before(until) {
					free--
				}
			}
			if len(held) >= maxWaiting {
				free = 0
			}
			id, ok := ids.reserve(&sharedConn{})
			if ok != (free > 0) {
				return fmt.Errorf("step %d: reserved: %v, with %d free", i, ok, free)
			}
			if !ok {
				continue
			}
			if bytes.IndexByte(held, id) >= 0 || now.Before(blocked[id]) {
				return fmt.Errorf("step %d: identifier %d is in use", i, id)
			}
			delete(blocked, id)
			held = append(held, id)
		case len(held) > 0:
			ids.release(held[0], step == 2)
			if step < 2 {
				blocked[held[0]] = now.Add(quarantine)
			}
			held = held[1:]
		}
		if i%400 == 399 {
			time.Sleep(quarantine / 4)
		}
	}
	return nil
}
