package runner

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// norm is RMSNorm of n rows of x into dst, with weights w.
func (r *Runner[B]) norm(dst, x, w []float32, n int) {
	dim := len(w)
	for t := range n {
		row, out := x[t*dim:(t+1)*dim], dst[t*dim:(t+1)*dim]
		sum := 0.0
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		scale := float32(1 / math.Sqrt(sum/float64(dim)+float64(r.model.Eps)))
		for i, v := range row {
			out[i] = v * scale * w[i]
		}
	}
}

// multiply computes n rows of dst = x·wᵀ + beta·dst. The rows of w are taken in
// bands that stay in the processor's cache while all rows of x pass over them. How
// a row of w is summed does not depend on n or the number of threads, as bands are
// a multiple of four, the rows that the kernel takes at once.
func (r *Runner[B]) multiply(beta float32, dst []float32, w blas32.General, x []float32, n int) {
	const band = 32
	r.parallel((w.Rows+band-1)/band, n*band*w.Cols, func(from, to int) {
		for lo := from * band; lo < min(to*band, w.Rows); lo += band {
			part := w
			part.Rows, part.Data = min(band, w.Rows-lo), w.Data[lo*w.Stride:]
			for t := range n {
				in := blas32.Vector{N: w.Cols, Inc: 1, Data: x[t*w.Cols:]}
				out := blas32.Vector{N: part.Rows, Inc: 1, Data: dst[t*w.Rows+lo:]}
				blas32.Gemv(blas.NoTrans, 1, part, in, beta, out)
			}
		}
	})
}

// parallel divides n units of work, each of so many multiplications, over the
// runner's threads where that is worth it.
func (r *Runner[B]) parallel(n, cost int, f func(from, to int)) {
	const least = 1 << 16 // multiplications that pay for a goroutine
	parts := min(r.threads, n, n*cost/least)
	if parts <= 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := 1; i < parts; i++ {
		wg.Go(func() { f(i*n/parts, (i+1)*n/parts) })
	}
	f(0, n/parts)
	wg.Wait()
}
