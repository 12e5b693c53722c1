package runner

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
	"github.com/stretchr/testify/require"
)

// floats is all weights of a matrix.
func floats(m *product.Matrix) []float32 {
	out := make([]float32, m.Rows*m.Cols)
	for r := range m.Rows {
		m.Row(out[r*m.Cols:], r)
	}
	return out
}

// A product is right at odd sizes, and bit for bit the same whatever is computed
// beside it and on however many threads.
func TestMultiply(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {3, 5}, {4, 8}, {7, 64}, {259, 256}, {33, 9000}, {130, 700}, {1000, 4096}} {
		rows, cols := size[0], size[1]
		const n = 5
		m := randomModel(Config{Vocab: rows, Dim: cols}, 1)
		x := floats(randomModel(Config{Vocab: n, Dim: cols}, 2).Embed)
		want := make([]float32, n*rows)
		for tok := range n {
			one := &Runner[*cpu.Buffer]{model: m, threads: 1}
			one.multiply(want[tok*rows:], m.Embed, x[tok*cols:], 1)
			wide := make([]float64, cols)
			for i := range wide {
				wide[i] = float64(x[tok*cols+i])
			}
			for i, v := range times(m.Embed, wide) {
				require.InDelta(t, v, want[tok*rows+i], 1e-4*math.Sqrt(float64(cols)))
			}
		}
		for threads := range 4 {
			r := &Runner[*cpu.Buffer]{model: m, threads: threads + 1}
			got := make([]float32, n*rows)
			r.multiply(got, m.Embed, x, n)
			require.Equal(t, want, got, "%v on %d threads", size, threads+1)
		}
	}
}

func TestSplitCoversEverythingOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		for _, n := range []int{0, 1, 2, 7, 100} {
			seen := make([]int, n)
			split("", parts(threads, n, 1<<30), n, func(from, to int) {
				for i := from; i < to; i++ {
					seen[i]++
				}
			})
			for i, times := range seen {
				require.Equal(t, 1, times, "unit %d of %d on %d threads", i, n, threads)
			}
		}
	}
}

// Few units are divided, too, and many in shares that become smaller.
func TestSplitDividesFew(t *testing.T) {
	for _, c := range []struct{ parts, n, most int }{{2, 2, 1}, {2, 4, 2}, {4, 4, 1}, {8, 8, 1}, {8, 9, 2}, {8, 16, 2}, {2, 5, 3}, {2, 1000, 250}} {
		var largest, all atomic.Int64
		split("", c.parts, c.n, func(from, to int) {
			all.Add(int64(to - from))
			for size := int64(to - from); ; {
				if was := largest.Load(); was >= size || largest.CompareAndSwap(was, size) {
					break
				}
			}
		})
		require.EqualValues(t, c.n, all.Load())
		require.LessOrEqual(t, largest.Load(), int64(c.most), "%+v", c)
	}
}

// What a thread that comes late would do is done by the others.
func TestSplitWaitsForNoThread(t *testing.T) {
	const n = 64
	var first atomic.Bool
	var done atomic.Int64
	others := make(chan struct{})
	split("", 2, n, func(from, to int) {
		if first.CompareAndSwap(false, true) {
			done.Add(int64(to - from))
			select {
			case <-others:
			case <-time.After(time.Minute):
				t.Error("another thread's share is left")
			}
		} else if done.Add(int64(to-from)) == n {
			close(others)
		}
	})
	require.EqualValues(t, n, done.Load())
}

// A product that one thread finishes before another would begin is one thread's, and what is not is shared.
func TestPartsFollowTheWork(t *testing.T) {
	for _, c := range []struct{ threads, units, nanoseconds, want int }{
		{8, 100, 0, 1},
		{8, 100, least, 1},
		{8, 100, 2*least - 1, 1},
		{8, 100, 2 * least, 2},
		{8, 100, 3*least - 1, 2},
		{8, 100, 100 * least, 8},
		{1, 100, 100 * least, 1},
		{8, 3, 100 * least, 3},
		{8, 0, 0, 1},
	} {
		require.Equal(t, c.want, parts(c.threads, c.units, c.nanoseconds), "%+v", c)
	}
	m, _, _ := loadDemo(t)
	require.Greater(t, m.Size, 4<<20, "as on disk")
	require.Less(t, m.Size, cacheSize)
	large := &Runner[*cpu.Buffer]{large: true}
	w := product.Pack(backend.F16, 1024, 512, make([]float32, 1024*512))
	require.GreaterOrEqual(t, large.work(w, 1), w.Bytes()/memoryRate, "weights from memory take as long as memory does")
	require.Equal(t, w.Nanoseconds(500), large.work(w, 500), "unless there is more to compute")
	require.Equal(t, w.Nanoseconds(1), new(Runner[*cpu.Buffer]).work(w, 1))
	for _, w := range matrices(m) { // on every kind of kernel
		require.Equal(t, 1, parts(2, w.Units(1), w.Nanoseconds(1)), "a token of %dx%d", w.Rows, w.Cols)
		require.Equal(t, 2, parts(2, w.Units(1000), w.Nanoseconds(1000)), "1000 tokens of %dx%d", w.Rows, w.Cols)
	}
}

// Products below the border between one thread and two, at it and above it, on one and on two; rule is what multiply takes.
func BenchmarkThreads(b *testing.B) {
	const cols = 256
	x := make([]float32, cols)
	for _, rows := range []int{2048, 8192, 24576, 49152, 131072} {
		w := product.Pack(backend.F32, rows, cols, make([]float32, rows*cols))
		out := make([]float32, w.Rows)
		rule := parts(2, w.Units(1), w.Nanoseconds(1))
		for threads := 1; threads <= 2; threads++ {
			b.Run(fmt.Sprintf("%dx%d/threads%d/rule%d", rows, cols, threads, rule), func(b *testing.B) {
				for b.Loop() {
					split("", threads, w.Units(1), func(from, to int) { w.Mul(out, x, 1, false, from, to) })
				}
			})
		}
	}
}

func TestNorm(t *testing.T) {
	out := make([]float32, 4)
	rms(out, []float32{3, -4, 0, 0}, []float32{1, 2}, 2, 1e-5)
	scale := 1 / math.Sqrt(12.5+1e-5)
	require.InDeltaSlice(t, []float64{3 * scale, -8 * scale, 0, 0}, []float64{float64(out[0]), float64(out[1]), float64(out[2]), float64(out[3])}, 1e-6)
}

func TestSigmoid(t *testing.T) {
	for x := float32(-120); x < 120; x += 0x1p-7 {
		want := 1 / (1 + math.Exp(-float64(x)))
		require.InDelta(t, want, sigmoid(x), 4e-7*want+0x1p-125, "%v", x)
	}
	for _, x := range []float32{0, float32(math.Inf(1)), float32(math.Inf(-1))} {
		require.InDelta(t, 1/(1+math.Exp(-float64(x))), sigmoid(x), 0x1p-125)
	}
	require.True(t, math.IsNaN(float64(sigmoid(float32(math.NaN())))))
}
