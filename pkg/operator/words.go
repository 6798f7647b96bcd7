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

// short is a duration to be read at a glance: in its two largest units.
func short(d time.Duration) string {
	d = max(0, d)
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		d = d.Round(time.Second)
		return pair(int(d/time.Minute), "m", int(d%time.Minute/time.Second), "s")
	case d < day:
		d = d.Round(time.Minute)
		return pair(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "m")
	}
	d = d.Round(time.Hour)
	return pair(int(d/day), "d", int(d%day/time.Hour), "h")
}

func pair(n int, unit string, m int, smaller string) string {
	if m == 0 {
		return fmt.Sprintf("%d%s", n, unit)
	}
	return fmt.Sprintf("%d%s%d%s", n, unit, m, smaller)
}
