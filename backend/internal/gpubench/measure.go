package gpubench

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// trial is a benchmark: set makes its memory, says what a call does, and returns it.
type trial[B launch.Buffer] struct {
	name string
	set  func(r *rig[B]) (work, operation)
}

// list is everything that is measured.
func (r *rig[B]) list() []trial[B] { return append(r.moves(), r.steps()...) }

// operation enqueues a call; turn counts them, so that each may find other memory.
type operation func(turn int) error

// work is what a call does, and what limits it.
type work struct {
	bytes, flops float64 // read and written; calculated. 0: not counted
	calculates   bool    // the rate is that of flops
	limit        float64 // of the rate; 0: none applies
	times        int     // that a call does this; 0: once
}

// amount is what the rate counts.
func (w work) amount() float64 {
	if w.calculates {
		return w.flops
	}
	return w.bytes
}

// moved is bytes that are read or written, read those of keys and values that are read.
func (r *rig[B]) moved(bytes int) work {
	return work{bytes: float64(bytes), limit: r.limits.copy.rate()}
}
func (r *rig[B]) read(bytes int) work {
	return work{bytes: float64(bytes), limit: r.limits.read.rate()}
}

// time is the seconds of a call of op: the mean of n that follow each other.
func (r *rig[B]) time(n int, op operation) float64 {
	took, err := r.Clock.Time(func() error {
		for range n {
			r.turn++
			if err := op(r.turn); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(r.b, err)
	return took.Seconds() / float64(n)
}

// calls is how many calls of op are timed at once.
func (r *rig[B]) calls(op operation) int {
	require.NoError(r.b, op(0)) // its kernels are loaded, or compiled, now
	require.NoError(r.b, r.Stream.Sync())
	n := 1
	for !r.Emulated && n < r.Clock.Most && r.time(n, op)*float64(n) < r.Clock.Least.Seconds() {
		n *= 2
	}
	return n
}

// measure runs a trial.
func (r *rig[B]) measure(b *testing.B, c trial[B]) {
	own := *r
	own.b = b
	does, op := c.set(&own)
	n := own.calls(op)
	var times []float64
	for b.Loop() {
		times = append(times, own.time(n, op)/float64(max(does.times, 1)))
	}
	slices.Sort(times)
	does.report(b, times, !r.Emulated)
}

// report reports the seconds that calls took the device, the shortest first; where rates
// are compared, the fraction of the limit, too.
func (w work) report(b *testing.B, times []float64, compared bool) {
	seconds := quantile(times, 0.5)
	b.ReportMetric(seconds*1e9, "ns/op")
	b.ReportMetric(quantile(times, 0.25)*1e9, "q1-ns")
	b.ReportMetric(quantile(times, 0.75)*1e9, "q3-ns")
	b.ReportMetric(float64(len(times)), "runs")
	if w.calculates {
		b.ReportMetric(w.flops/seconds/1e12, "TFLOP/s")
	} else {
		b.ReportMetric(w.bytes/seconds/1e9, "GB/s")
	}
	if w.bytes > 0 {
		b.ReportMetric(w.bytes/1e6, "MB")
		if w.flops > 0 {
			b.ReportMetric(w.flops/w.bytes, "flop/B")
		}
	}
	if compared && w.limit > 0 {
		b.ReportMetric(w.amount()/seconds/w.limit, "of-limit")
	}
}

// quantile is what a part of sorted times does not exceed.
func quantile(times []float64, part float64) float64 {
	return times[int(math.Round(part*float64(len(times)-1)))]
}
