package main

import (
	"fmt"
	"slices"
)

// sample is figures of repeated runs.
type sample []float64

// median is the middle of the figures.
func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// spread says how far the figures are from each other: the least and the greatest.
func (s sample) spread() string { return fmt.Sprintf("%.0f to %.0f", slices.Min(s), slices.Max(s)) }
