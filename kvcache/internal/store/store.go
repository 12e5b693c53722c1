// Package store is where the tokens of a pool's sequences lie on the device: stores, each the cache of
// every layer in one storage format and the residency of its blocks, and the run of a sequence, which
// is its segments in them. What changes that is done under the pool's lock, and what reads and writes
// layers without it.
package store

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Store is where tokens lie in one storage format: the cache of each layer, and the owners of its
// blocks. Block i of every layer belongs to the same owners.
type Store[B backend.Buffer] struct {
	*residency.Blocks
	Layers     []Layer[B]
	Formats    []backend.Format // of the layers
	BlockBytes int64            // of one block in all layers
	Logical    int              // blocks of all sequences, shared ones counted for each owner

	each, stride int // see config.Config.Each
	slots        int // from the first slot of a block to that of the next
}

// numbers appends the numbers that kernels have for blocks.
func (st *Store[B]) numbers(dst []uint32, blocks []block.Block) []uint32 {
	for _, b := range blocks {
		for i := range st.each {
			dst = append(dst, uint32(int(b.ID)*st.stride+i))
		}
	}
	return dst
}

// Pair appends what a kernel is to copy a block to another of the same store: pairs.
func (st *Store[B]) Pair(dst []uint32, from, to block.Block) []uint32 {
	for i := range st.each {
		dst = append(dst, uint32(int(from.ID)*st.stride+i), uint32(int(to.ID)*st.stride+i))
	}
	return dst
}

// Slot is where token i of a block lies.
func (st *Store[B]) Slot(b uint32, i int) int64 {
	return int64(b)*int64(st.slots) + int64(i)
}

// Layer is the cache of one layer and how its queries see it. For another view, change a copy.
type Layer[B backend.Buffer] struct {
	View   backend.CacheView[B]
	Mask   backend.Mask[B]
	Format int            // of Store.Formats
	Scores backend.Opt[B] // f32 [blocks, KV heads, block tokens]
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

// masks are those of the configuration, of all layers or of each.
func (m memory[B]) masks(c *config.Config) (masks []backend.Mask[B], err error) {
	masks = make([]backend.Mask[B], max(len(c.Model.Masks), 1))
	for i := range masks {
		of := c.Model.MaskOf(i)
		masks[i] = backend.Mask[B]{NonCausal: c.Model.NonCausal, Window: of.Window, SinkTokens: of.SinkTokens, Chunk: of.Chunk, SoftCap: of.SoftCap}
		if masks[i].ALiBi, err = m.vector(of.ALiBi); err != nil {
			return nil, err
		}
		if masks[i].SinkLogits, err = m.vector(of.SinkLogits); err != nil {
			return nil, err
		}
	}
	return masks, nil
}

// rope is the table of the rotary embedding, if there is one.
func (m memory[B]) rope(c *config.Config) (rope backend.RotaryTable[B], err error) {
	if c.Model.RoPE == nil {
		return rope, nil
	}
	r, err := c.Model.RoPE.Resolve(c.Model.RotatedDims())
	if err != nil {
		return rope, err
	}
	table, err := r.Table(c.Model.RotatedDims(), c.Memory.Capacity)
	if err != nil {
		return rope, err
	}
	rope = backend.RotaryTable[B]{Positions: c.Memory.Capacity, Dims: r.Dims, Pairing: r.Pairing, Magnitude: float32(r.AttentionFactor)}
	rope.Table, err = m.vector(table)
	return rope, err
}

// make allocates the caches of a store.
func (st *Store[B]) make(m memory[B], c config.Config, masks []backend.Mask[B]) (err error) {
	if st.BlockBytes, err = c.BytesPerBlock(); err != nil {
		return err
	}
	st.Formats, st.each, st.stride = c.Formats(), c.Each(), c.Stride()
	st.slots = c.Stride() * c.KernelTokens()
	for l := range c.Model.Layers {
		f := c.FormatOf(l)
		layer := Layer[B]{Mask: masks[min(l, len(masks)-1)], Format: slices.Index(st.Formats, f),
			View: emptyView[B](&c, c.Memory.Blocks)}
		if layer.View.K, err = m.plane(&c, f.K, c.Model.HeadDim, c.KeyScales(l)); err != nil {
			return err
		}
		if !c.Model.Latent {
			if layer.View.V, err = m.plane(&c, f.V, c.Model.VHeadDim, c.ValueScales(l)); err != nil {
				return err
			}
		}
		layer.View.K.Hadamard = c.HadamardOf(l)
		if c.Attention.Scores {
			layer.Scores.Set = true
			if layer.Scores.Buf, err = m.alloc(backend.F32, c.Memory.Blocks*c.Model.KVHeads*c.BlockTokens()); err != nil {
				return err
			}
		}
		st.Layers = append(st.Layers, layer)
	}
	return nil
}

// emptyView is a cache without memory.
func emptyView[B backend.Buffer](c *config.Config, blocks int) backend.CacheView[B] {
	return backend.CacheView[B]{Blocks: blocks, KVHeads: c.Model.KVHeads, BlockSize: c.KernelTokens(),
		V: backend.Plane[B]{Dim: c.Model.VHeadDim}, Latent: c.Model.Latent}
}

// plane is the keys or values of a layer; perHead are the factors of heads, where the type has some.
func (m memory[B]) plane(c *config.Config, dt backend.DType, dim int, perHead []float32) (of backend.Plane[B], err error) {
	of.Dim = dim
	if of.Data, err = m.alloc(dt, c.Memory.Blocks*c.Model.KVHeads*c.BlockTokens()*dim); err != nil { // Resolve checked that it fits
		return of, err
	}
	return of, m.scales(&of, dt, c.Memory.Blocks, c.Model.KVHeads, c.BlockTokens(), perHead)
}

// scales makes the scales of a plane, where its type has some.
func (m memory[B]) scales(of *backend.Plane[B], dt backend.DType, blocks, heads, tokens int, perHead []float32) (err error) {
	switch scale, n, _ := dt.Scales(blocks, heads, tokens, of.Dim); {
	case dt.Coding().Scope == backend.ByHead:
		of.Scales, err = m.vector(perHead)
	case n > 0:
		of.Scales.Set = true
		if of.Scales.Buf, err = m.alloc(scale, n); err == nil && dt.HeadFactors() {
			err = m.be.Upload(m.stream, of.Scales.Buf, 0, backend.BytesOf(perHead))
		}
	}
	return err
}
