package main

import (
	"context"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
)

// minRounds is the least number of rounds, however long a call takes.
const minRounds = 3

// measure times call in rounds until about budget is spent, and asks for the
// limit before each, so that a machine that is busy for a while is busy for both.
// It returns the medians.
func measure(ctx context.Context, s backend.Stream, budget time.Duration, call func() error, limit func() (float64, error)) (perCall, limitRate float64, err error) {
	timed := func(calls int) (float64, error) {
		start := time.Now()
		for range calls {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := call(); err != nil {
				return 0, err
			}
		}
		err := s.Sync()
		return time.Since(start).Seconds() / float64(calls), err
	}
	var warm float64
	for range 2 { // a GPU loads a kernel, or compiles it, at its first call, which may take longer than the budget
		if warm, err = timed(1); err != nil {
			return 0, 0, err
		}
	}
	calls := int(min(max(budget.Seconds()/10/max(warm, 1e-9), 1), 1e6))
	var times, limits []float64
	for start := time.Now(); len(times) < minRounds || time.Since(start) < budget; {
		rate, err := limit()
		if err != nil {
			return 0, 0, err
		}
		t, err := timed(calls)
		if err != nil {
			return 0, 0, err
		}
		times, limits = append(times, t), append(limits, rate)
	}
	return median(times), median(limits), nil
}

// median is the middle of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
