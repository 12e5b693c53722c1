package cpu

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A dispatch beyond its parts: those that do nothing, and those of which each waits until
// another goroutine has begun the other.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range []struct {
		name  string
		parts int
		task  task
	}{{"empty", 8, taskFunc(func(int, *scratch) {})}, {"meeting", 2, new(meeting)}} {
		b.Run(c.name, func(b *testing.B) {
			processors(b, 2)
			p, w := newTestPool(b, 2)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.run(c.task, c.parts, wakeWork, w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// How long a worker takes to begin after a pause, which the time does not include. The
// median tells more than the mean where others use the machine.
func BenchmarkWake(b *testing.B) {
	for _, pause := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		b.Run(fmt.Sprint(pause), func(b *testing.B) {
			processors(b, 2)
			p, w := newTestPool(b, 2)
			var sum time.Duration
			took := make([]time.Duration, b.N)
			for i := range took {
				busy(pause)
				start := time.Now()
				if err := p.run(new(meeting), 2, wakeWork, w); err != nil {
					b.Fatal(err)
				}
				took[i] = time.Since(start)
				sum += took[i]
			}
			slices.Sort(took)
			b.ReportMetric(float64(sum)/float64(b.N), "ns/op")
			b.ReportMetric(float64(took[b.N/2]), "p50-ns/op")
		})
	}
}

// meeting is two parts that wait for each other.
type meeting struct{ begun atomic.Int64 }

func (m *meeting) part(int, *scratch) {
	for last := (m.begun.Add(1) + 1) / 2 * 2; m.begun.Load() < last; {
	}
}

func busy(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}
