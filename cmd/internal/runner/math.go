package runner

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
)

// rms is RMSNorm of n rows of x into dst, with weights w, or without any of rows of equal parts of x.
func rms(dst, x, w []float32, n int, eps float64) {
	dim := len(w)
	if w == nil {
		dim = len(x) / max(n, 1)
	}
	for t := range n {
		row, out := x[t*dim:(t+1)*dim], dst[t*dim:(t+1)*dim]
		sum := 0.0
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		scale := float32(1 / math.Sqrt(sum/float64(dim)+eps))
		for i, v := range row {
			if out[i] = v * scale; w != nil {
				out[i] *= w[i]
			}
		}
	}
}

// clampedSwiGLU is the activation of gpt-oss, whose files call it silu.
const clampedSwiGLU = "swiglu_oai"

// activations are what becomes of a gate and what it gates.
var activations = map[string]func(gate, up float32) float32{
	"silu": func(gate, up float32) float32 {
		g := float64(gate)
		return float32(g/(1+math.Exp(-g))) * up
	},
	"gelu_pytorch_tanh": func(gate, up float32) float32 {
		g := float64(gate)
		return float32(g/2*(1+math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g)))) * up
	},
	clampedSwiGLU: func(gate, up float32) float32 {
		g := min(float64(gate), 7)
		return float32((min(max(float64(up), -7), 7) + 1) * g / (1 + math.Exp(-1.702*g)))
	},
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

func addScaled(dst, x []float32, by float32) {
	for i, v := range x {
		dst[i] += v * by
	}
}

// project is n rows of x·wᵀ + bias, in a temporary.
func (r *Runner[B]) project(temporary string, w *Matrix, x []float32, n int) []float32 {
	out := r.floats(temporary, n*w.Rows)
	r.linear(out, w, x, n, false)
	return out
}

// linear computes n rows of dst = x·wᵀ + bias, or with add adds that.
func (r *Runner[B]) linear(dst []float32, w *Matrix, x []float32, n int, add bool) {
	r.multiply(dst, w.Matrix, x, n, add)
	for t := range n {
		addScaled(dst[t*len(w.Bias):], w.Bias, 1)
	}
}

// multiply computes n rows of dst = x·wᵀ, or with add adds that.
func (r *Runner[B]) multiply(dst []float32, w *product.Matrix, x []float32, n int, add bool) {
	split(r.model.path, parts(r.threads, w.Units(n), r.work(w, n)), w.Units(n), func(from, to int) { w.Mul(dst, x, n, add, from, to) })
}

// What processors have for a thread, about: bytes of the last cache, and bytes that memory gives in a nanosecond.
const (
	cacheSize  = 16 << 20
	memoryRate = 8
)

// work is about how many nanoseconds a product takes one thread, which may have to wait for the weights.
func (r *Runner[B]) work(w *product.Matrix, n int) int {
	if r.large {
		return max(w.Nanoseconds(n), w.Bytes()/memoryRate)
	}
	return w.Nanoseconds(n)
}

// least is the nanoseconds of work that pay for a goroutine, which on another processor begins 10 to 60 µs later.
const least = 50_000

// parts is how many threads share n units of work: each has the least, or one thread has all.
func parts(threads, n, nanoseconds int) int { return max(min(threads, n, nanoseconds/least), 1) }

// pieces is how many each part is taken in, so that a thread that begins late leaves more to the others; fewer where one would have less
// than some units, for what these have in common, such as rows of x that are rounded, is done anew for each.
const pieces, someUnits = 4, 4

// split divides n units into parts, which may read from the files of a path, and returns when all are done. It fails where a file cannot be read.
func split(path string, parts, n int, f func(from, to int)) {
	if parts == 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	var taken atomic.Int64
	failed, all := make([]error, parts), min(parts*pieces, max(parts, n/someUnits))
	for i := range parts {
		part := func() {
			failed[i] = guarded(path, func() {
				for at := int(taken.Add(1)) - 1; at < all; at = int(taken.Add(1)) - 1 {
					f(at*n/all, (at+1)*n/all)
				}
			})
		}
		if i < parts-1 {
			wg.Go(part)
		} else {
			part()
		}
	}
	wg.Wait()
	check(errors.Join(failed...))
}
