package operator

import (
	"fmt"
	"strings"
	"time"
)

// count is a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// names lists what the things of a list are called.
func names[T any](list []T, name func(T) string) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = name(v)
	}
	return strings.Join(words, ", ")
}

// Short is a duration to be read at a glance: in its two largest units.
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(0, d).Round(time.Second)
	if d >= day {
		d = d.Round(time.Hour)
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
