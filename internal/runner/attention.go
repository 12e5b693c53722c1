package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// attention is a layer's attention over the cache, of the n rows of r.h into r.out. This is all that a runner
// does with the cache in a layer.
func (r *Runner[B]) attention(l, n int) {
	b, w := r.model.block(l), &r.model.Layers[l]
	switch {
	case b.Kind == group.State:
		r.delta(l, n)
		return
	case b.Latent != (latent{}):
		r.latent(b, w, n)
	default:
		r.linear(r.q.host, &w.Q, r.h, n, false)
		r.linear(r.k.host, &w.K, r.h, n, false)
		r.linear(r.v.host, &w.V, r.h, n, false)
	}
	if b.QKNorm { // before they rotate, which does not change lengths
		rms(r.q.host, r.q.host[:n*b.Heads*b.HeadDim], w.QNorm, n*b.Heads, float64(r.model.Eps))
		rms(r.k.host, r.k.host[:n*b.KVHeads*b.HeadDim], w.KNorm, n*b.KVHeads, float64(r.model.Eps))
	}
	if b.Warm.Floor > 0 {
		for t, position := range r.positions[:n] {
			warm := 1 + b.Warm.Scale*math.Log(1+float64((position+1)/b.Warm.Floor))
			scale(r.q.host[t*b.Heads*b.HeadDim:(t+1)*b.Heads*b.HeadDim], float32(warm))
		}
	}
	r.send(&r.q, n*b.Heads*b.HeadDim)
	r.send(&r.k, n*b.KVHeads*b.keyDim())
	r.send(&r.v, n*b.KVHeads*b.valueDim())

	step, layer := r.steps[0], l
	if len(r.steps) > 1 {
		step, layer = r.steps[l], 0
	}
	io := kvcache.Dense(r.q.buf, r.k.buf, r.v.buf, r.out.buf)
	io.Rotate = !b.NoRoPE
	check(step.Append(layer, io))
	check(step.Attend(layer, io))
	r.receive(&r.out, n*b.Heads*b.valueDim())
	if b.Latent != (latent{}) {
		out := r.floats("values", n*b.Heads*b.Latent.Value)
		r.ofHeads(out, b.Latent.Value, w.Latent.Values, r.out.host, b.Latent.KV, n)
		copy(r.out.host, out)
	}
	if b.Gated {
		for i, g := range r.project("gates", &w.Gate, r.h, n) {
			r.out.host[i] *= sigmoid(g)
		}
	}
}
