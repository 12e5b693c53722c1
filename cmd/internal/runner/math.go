package runner

import (
	"math"

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
	"silu": func(gate, up float32) float32 { return gate * sigmoid(gate) * up },
	"gelu_pytorch_tanh": func(gate, up float32) float32 { // 1 + tanh(x) is 2·sigmoid(2x)
		return gate * sigmoid(2*math.Sqrt2/math.SqrtPi*(gate+0.044715*gate*gate*gate)) * up
	},
	clampedSwiGLU: func(gate, up float32) float32 {
		gate = min(gate, 7)
		return (min(max(up, -7), 7) + 1) * gate * sigmoid(1.702*gate)
	},
}

// sigmoid is 1/(1+e^-x) with a relative error of at most 3e-7, and at least e^-87, so that a gate of -1e38 does not vanish.
func sigmoid(x float32) float32 {
	const round = 3 << 22                             // of which the last bit is 1
	const high, low = 0x1.62p-1, math.Ln2 - 0x1.62p-1 // of which n times the first one is exact
	x = min(max(-x, -87), 87)
	n := x*math.Log2E + round
	r := x - float32((n-round)*high) - (n-round)*low
	e := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r*(1./120+r*(1./720))))))
	return 1 / (1 + e*math.Float32frombits((math.Float32bits(n)+127)<<23))
}

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
	r.linears(x, n, add, projection{dst, w})
}

// projection is a matrix and where its product goes.
type projection struct {
	dst []float32
	w   *Matrix
}

// linears computes n rows of each dst = x·wᵀ + bias, or with add adds that: all as one product, which threads share.
func (r *Runner[B]) linears(x []float32, n int, add bool, of ...projection) {
	units, work := 0, 0
	for _, p := range of {
		units, work = units+p.w.Units(n), work+r.work(p.w.Matrix, n)
	}
	split(r.model.path, parts(r.threads, units, work), units, func(from, to int) {
		for _, p := range of {
			if here := p.w.Units(n); from < here && to > 0 {
				p.w.Mul(p.dst, x, n, add, max(from, 0), min(to, here))
			}
			from, to = from-p.w.Units(n), to-p.w.Units(n)
		}
	})
	for _, p := range of {
		for t := range n {
			addScaled(p.dst[t*len(p.w.Bias):], p.w.Bias, 1)
		}
	}
}

// multiply computes n rows of dst = x·wᵀ.
func (r *Runner[B]) multiply(dst []float32, w *product.Matrix, x []float32, n int) {
	r.linear(dst, &Matrix{Matrix: w}, x, n, false)
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
