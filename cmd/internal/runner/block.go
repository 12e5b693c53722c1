package runner

import (
	"cmp"
	"math"
	"reflect"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// cached is what a cache holds of the model: all layers alike, or groups of those that see and store alike.
func (c *Config) cached(sinks func(layer int) []float32) kvcache.Model {
	b := c.block(0)
	m := kvcache.Model{Layers: c.Layers, QHeads: b.Heads, KVHeads: b.KVHeads, HeadDim: b.HeadDim, VHeadDim: b.valueDim(),
		Latent: b.Latent != (latent{}), Act: backend.F32, Scale: b.Scale}
	masks, masked := make([]kvcache.Mask, c.Layers), false
	for l := range c.Layers {
		b := c.block(l)
		if masks[l].SoftCap = b.SoftCap; b.Sinks {
			masks[l].SinkLogits = sinks(l)
		}
		masked = masked || b.SoftCap > 0 || masks[l].SinkLogits != nil
		g := b.group()
		n := slices.IndexFunc(m.Groups, func(other config.Group) bool {
			other.Layers = nil
			return reflect.DeepEqual(other, g)
		})
		if n < 0 {
			n, m.Groups = len(m.Groups), append(m.Groups, g)
		}
		m.Groups[n].Layers = append(m.Groups[n].Layers, l)
	}
	if masked {
		m.Masks = masks
	}
	if first := m.Groups[0]; len(m.Groups) == 1 && first.Kind == group.Full {
		m.RoPE, m.Groups = first.RoPE, nil
	}
	return m
}

// group is the group of layers like this one, without their numbers.
func (b *Block) group() config.Group {
	g := config.Group{Kind: b.Kind, QHeads: b.Heads, KVHeads: b.KVHeads, HeadDim: b.HeadDim, VHeadDim: b.valueDim(),
		Latent: b.Latent != (latent{}), Scale: b.Scale, NoRoPE: b.NoRoPE}
	if !b.NoRoPE {
		g.RoPE = &b.RoPE
	}
	switch b.Kind {
	case group.Window:
		g.Window = b.Span
	case group.Chunked:
		g.Chunk = b.Span
	case group.State:
		g = config.Group{Kind: b.Kind, StateBytes: 4 * b.Delta.state(), NoRoPE: true}
	case group.None:
		g = config.Group{Kind: b.Kind, NoRoPE: true}
	}
	return g
}

// Complete fills what the model says into the configuration of its cache. sinks are a layer's sink logits [heads], which
// are weights. The capacity is at most the model's context, and that where it would become more. Where no layout
// is chosen it is one that can hold the model's layers.
func (c *Config) Complete(cfg kvcache.Config, sinks func(layer int) []float32) (_ kvcache.Config, err error) {
	defer caught(&err)
	own := c.cached(sinks)
	if own.Groups == nil && own.Masks == nil { // the caller may have layers see less
		own.Groups, own.Masks = cfg.Model.Groups, cfg.Model.Masks
	}
	cfg.Model = own
	context := cmp.Or(c.Context, maxContext) // of a model of which only the size is wanted it may be unknown
	accept(cfg.Memory.Capacity <= context, "Capacity", cfg.Memory.Capacity, "the model was made for %d tokens", context)
	// Of one head, so that nothing overflows before the capacity is lowered, and of a type that goes with any.
	resolved, err := kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 1, Digest: []byte{0}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: cfg.Memory.Layout, Capacity: cfg.Memory.Capacity, MaxSeqs: 1},
	}.Resolve()
	check(err)
	cfg.Memory.Capacity = min(resolved.Memory.Capacity, context)
	paged := slices.ContainsFunc(own.Groups, func(g config.Group) bool { return g.Kind == group.State })
	if layout := resolved.Settings()[0]; paged && layout.Source == config.FromDefault {
		cfg.Memory.Layout = kvcache.Paged
	}
	return cfg, nil
}

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
		r.linears(r.h, n, false, projection{r.q.host, &w.Q}, projection{r.k.host, &w.K}, projection{r.v.host, &w.V})
	}
	if b.QKNorm { // before they rotate, which does not change lengths
		rms(r.q.host, r.q.host[:n*b.Heads*b.HeadDim], w.QNorm, n*b.Heads, float64(r.model.Eps))
		rms(r.k.host, r.k.host[:n*b.KVHeads*b.HeadDim], w.KNorm, n*b.KVHeads, float64(r.model.Eps))
	}
	if b.WarmFloor > 0 {
		for t, position := range r.positions[:n] {
			warm := 1 + b.WarmScale*math.Log(1+float64((position+1)/b.WarmFloor))
			scale(r.q.host[t*b.Heads*b.HeadDim:(t+1)*b.Heads*b.HeadDim], float32(warm))
		}
	}
	r.send(&r.q, n*b.Heads*b.HeadDim)
	r.send(&r.k, n*b.KVHeads*b.keyDim())
	r.send(&r.v, n*b.KVHeads*b.valueDim())

	step, layer := r.steps[l%len(r.steps)], l/len(r.steps) // of one pool, or of one for each layer
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
