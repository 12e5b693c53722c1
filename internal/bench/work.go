package bench

import (
	"math"
	"slices"
)

// bound is what a trial cannot be faster than.
type bound int

const (
	unbounded bound = iota
	reading
	copying
	multiplying
	toHost
	toDevice
)

// work is what a call does, and what bounds it.
type work struct {
	bytes, flops float64 // read and written, or taken to the host and from there; floating point operations. 0: not counted
	bound        bound
	times        int // that a call does this; 0: once
}

// amount is what the rate counts.
func (w work) amount() float64 {
	if w.bound == multiplying {
		return w.flops
	}
	return w.bytes
}

// median is the middle of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// quantile is what a part of sorted values does not exceed.
func quantile(values []float64, part float64) float64 {
	return values[int(math.Round(part*float64(len(values)-1)))]
}
