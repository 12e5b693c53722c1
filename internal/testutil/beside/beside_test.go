package beside

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Work that takes as long as its limit and a half of it more is two thirds of it, and only work's allocations count.
func TestLimit(t *testing.T) {
	var sink []byte
	spend := func(d time.Duration) {
		for start := time.Now(); time.Since(start) < d; {
		}
	}
	r := testing.Benchmark(func(b *testing.B) {
		Limit(b, "of-limit", func() { spend(3 * time.Millisecond) }, func() {
			spend(2 * time.Millisecond)
			sink = make([]byte, 1000)
		})
	})
	require.Len(t, sink, 1000)
	require.InDelta(t, 0.67, r.Extra["of-limit"], 0.3)
	require.Zero(t, r.AllocsPerOp())
}
