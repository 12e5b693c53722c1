// Package beside times work next to its limit, such as a copy of the same bytes, in one run: machines differ, and so does one machine
// from minute to minute, but less so the ratio of two things that are timed in turn.
package beside

import (
	"slices"
	"testing"
	"time"
)

// Limit times work and limit alternately, for as long as b runs, and reports how fast work is as a part of the limit: the
// medians' ratio, as unit. Time and allocations that b reports are those of work.
func Limit(b *testing.B, unit string, work, limit func()) {
	b.Helper()
	work()
	limit()
	var took, least []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		work()
		took = append(took, time.Since(start))
		b.StopTimer()
		start = time.Now()
		limit()
		least = append(least, time.Since(start))
		b.StartTimer()
	}
	b.ReportMetric(float64(median(least))/float64(median(took)), unit)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}
