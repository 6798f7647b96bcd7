package replay

import (
	"slices"
	"time"
)

// course is a value that changes with time.
type course[T comparable] struct {
	begin   T // before the first change
	changes []change[T]
}

type change[T comparable] struct {
	at    time.Time
	value T
}

// set changes the value from the given time on. One that begins before an
// earlier call's cuts that one off.
func (c *course[T]) set(at time.Time, value T) {
	for n := len(c.changes); n > 0 && !c.changes[n-1].at.Before(at); n-- {
		c.changes = c.changes[:n-1]
	}
	if c.last() != value {
		c.changes = append(c.changes, change[T]{at, value})
	}
}

// last is the newest value.
func (c *course[T]) last() T {
	if n := len(c.changes); n > 0 {
		return c.changes[n-1].value
	}
	return c.begin
}

// at is the value at a time.
func (c *course[T]) at(t time.Time) T {
	n, found := slices.BinarySearchFunc(c.changes, t, func(c change[T], t time.Time) int { return c.at.Compare(t) })
	if found {
		n++
	}
	if n == 0 {
		return c.begin
	}
	return c.changes[n-1].value
}
