package kvcache

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// store is where tokens lie in one storage format: the cache of each layer, and who has its
// blocks. Block i of every layer belongs to the same owners.
//
// Most pools have one. One with Config.Residual has two: steps write to that of the last tokens, in
// the activation type, from which full blocks are quantized into the other as they leave the window
// (see window.go). The two number a sequence's tokens alike, and attention merges what both give.
type store[B backend.Buffer] struct {
	*residency.Blocks
	layers  []layer[B]
	formats []backend.Format // of the layers
	logical int              // blocks of all sequences, shared ones counted for each owner
}

// layer is the cache of one layer and how its queries see it.
type layer[B backend.Buffer] struct {
	view   backend.CacheView[B]
	mask   backend.Mask[B]
	format int            // of store.formats
	scores backend.Opt[B] // f32 [blocks, KV heads, slots]
}

// memory allocates what a pool owns.
type memory[B backend.Buffer] struct {
	be     backend.Backend[B]
	stream backend.Stream
	owned  *[]B
}

func (m memory[B]) alloc(dt backend.DType, n int) (B, error) {
	b, err := m.be.Alloc(dt, n)
	if err == nil {
		*m.owned = append(*m.owned, b)
	}
	return b, err
}

// vector is values on the device; none: unset.
func (m memory[B]) vector(values []float32) (backend.Opt[B], error) {
	if len(values) == 0 {
		return backend.Opt[B]{}, nil
	}
	b, err := backend.AllocFrom(m.be, m.stream, backend.F32, values)
	if err == nil {
		*m.owned = append(*m.owned, b)
	}
	return backend.Some(b), err
}

// allocate makes the pool's buffers. What was made before a failure is in p.owned.
func (p *Pool[B]) allocate() error {
	c := &p.cfg
	stream, err := p.be.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	m := memory[B]{p.be, stream, &p.owned}
	masks := make([]backend.Mask[B], max(len(c.Masks), 1))
	for i := range c.Masks {
		of := &c.Masks[i]
		masks[i] = backend.Mask[B]{Window: of.Window, SinkTokens: of.SinkTokens, SoftCap: of.SoftCap}
		if masks[i].ALiBi, err = m.vector(of.ALiBi); err != nil {
			return err
		}
		if masks[i].SinkLogits, err = m.vector(of.SinkLogits); err != nil {
			return err
		}
	}
	if p.kept.layers, p.kept.formats, err = m.layers(*c, masks); err != nil {
		return err
	}
	if p.windowed() {
		if p.fresh.layers, p.fresh.formats, err = m.layers(c.residual(), masks); err != nil {
			return err
		}
		p.split()
	}
	if c.RoPE != nil {
		r, err := c.RoPE.Resolve(c.HeadDim)
		if err != nil {
			return err
		}
		table, err := r.Table(c.HeadDim, c.Capacity)
		if err != nil {
			return err
		}
		p.rope = backend.Rope[B]{Positions: c.Capacity, Dims: r.Dims, Pairing: r.Pairing, Magnitude: float32(r.Attention)}
		if p.rope.Table, err = m.vector(table); err != nil {
			return err
		}
	}
	return stream.Sync()
}

// layers are the caches of a store.
func (m memory[B]) layers(c Config, masks []backend.Mask[B]) (all []layer[B], formats []backend.Format, err error) {
	formats, _ = c.formats()
	for l := range c.Layers {
		f := c.format(l)
		view, planes := backend.CacheView[B]{Blocks: c.Blocks, KVHeads: c.KVHeads, BlockSize: c.slots()}, c.planes(f)
		if view.K, err = m.plane(&c, planes[0], c.headScales(c.KScales, l)); err != nil {
			return nil, nil, err
		}
		if view.V, err = m.plane(&c, planes[1], c.headScales(c.VScales, l)); err != nil {
			return nil, nil, err
		}
		view.K.Hadamard = c.hadamard(l)
		layer := layer[B]{view: view, mask: masks[min(l, len(masks)-1)], format: slices.Index(formats, f)}
		if c.Scores {
			layer.scores.Set = true
			if layer.scores.Buf, err = m.alloc(backend.F32, c.Blocks*c.KVHeads*c.slots()); err != nil {
				return nil, nil, err
			}
		}
		all = append(all, layer)
	}
	return all, formats, nil
}

// plane is the keys or values of a layer; perHead are the scales that 8-bit floats have.
func (m memory[B]) plane(c *Config, pl plane, perHead []float32) (of backend.Plane[B], err error) {
	n, _ := c.planeLen(pl.dim) // Resolve checked that they fit
	of.Dim = pl.dim
	if of.Data, err = m.alloc(pl.dt, n); err != nil {
		return of, err
	}
	switch dt, n, _ := pl.dt.Scales(c.Blocks, c.KVHeads, c.slots(), pl.dim); {
	case pl.dt.Coding().Scope == backend.ByHead:
		of.Scales, err = m.vector(perHead)
	case n > 0:
		of.Scales.Set = true
		of.Scales.Buf, err = m.alloc(dt, n)
	}
	return of, err
}
