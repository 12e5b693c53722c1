package product

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// BenchmarkSpeed is how fast weights that come from memory are multiplied by one row and by many, on one thread and on two: bytes of
// weights in a nanosecond (GB/s), the share of how fast the same threads read such bytes and do nothing else (limit), and
// multiplications in a nanosecond. Each is the fastest of all iterations, in which both are done by turns with other parts
// of the weights, as each is too short for a scheduler to interrupt all of them.
func BenchmarkSpeed(b *testing.B) {
	const cols = 4096
	size := 512 << 20
	if testing.Short() {
		size = 128 << 20
	}
	rng := rand.New(rand.NewPCG(1, 1))
	x := randoms(rng, 512*cols)
	for _, name := range []string{"Q8_0", "Q4_0", "Q5_0", "IQ4_NL", "MXFP4", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "Q2_K"} {
		t := typeOf(name)
		some := stored(rng, t, 64*cols)
		data := bytes.Repeat(some, size/len(some))
		m := PackCodes(t, len(data)/len(some)*64, cols, data)
		for _, n := range []int{1, 8, 64, 512} {
			rows := max(4<<20/n/m.codes.bytes(cols), 2*unit) / (2 * unit) * (2 * unit) // of a part
			parts, out := m.Rows/rows, make([]float32, n*rows)
			for threads := 1; threads <= 2; threads++ {
				b.Run(fmt.Sprintf("%s/%d/threads%d", name, n, threads), func(b *testing.B) {
					read, mul, i := time.Hour, time.Hour, 0
					of := func(i int) []byte { return data[i%parts*m.codes.bytes(cols)*rows:][:m.codes.bytes(cols)*rows] }
					for b.Loop() {
						bytesOf, part := of(i+parts/2), PackCodes(t, rows, cols, of(i))
						read = min(read, timed(threads, func(i int) {
							bytes.Count(bytesOf[i*len(bytesOf)/threads:(i+1)*len(bytesOf)/threads], []byte{1}) // in vectors
						}))
						mul = min(mul, timed(threads, func(i int) {
							part.Mul(out, x[:n*cols], n, false, i*part.Units(n)/threads, (i+1)*part.Units(n)/threads)
						}))
						i++
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(rows*m.codes.bytes(cols))/float64(mul.Nanoseconds()), "GB/s")
					b.ReportMetric(float64(read)/float64(mul), "limit")
					b.ReportMetric(float64(n*rows*cols)/float64(mul.Nanoseconds()), "mul/ns")
				})
			}
		}
	}
}

// timed is how long all threads take.
func timed(threads int, work func(i int)) time.Duration {
	var all sync.WaitGroup
	begin := time.Now()
	for i := 1; i < threads; i++ {
		all.Go(func() { work(i) })
	}
	work(0)
	all.Wait()
	return time.Since(begin)
}
