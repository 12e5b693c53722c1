package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
)

// lanes is the memory that the parts of a pool with groups have in common: beside each other as many layers as a part
// has, with blocks that take the same bytes whichever part has them. Each part sees its blocks in a lane as a cache of
// its own, of heads and dims and tokens as its layers have them.
type lanes[B backend.Buffer] struct {
	memory[B]
	blocks      int
	lanes       []lane[B]
	keys, vals  int64 // bytes of a block in a lane
	interleaved bool
	caches      map[cacheKey]Layer[B] // without masks
}

type lane[B backend.Buffer] struct{ keys, values B } // where they are interleaved both in the first; values may be in the keys

type cacheKey struct {
	lane int
	of   string
}

// newLanes allocates the memory.
func newLanes[B backend.Buffer](m memory[B], c *config.Config) (*lanes[B], error) {
	n, keys, vals, interleaved := c.Lanes()
	l := &lanes[B]{memory: m, blocks: c.Memory.Blocks, keys: keys, vals: vals, interleaved: interleaved, caches: map[cacheKey]Layer[B]{}}
	for range n {
		var at lane[B]
		var err error
		if interleaved {
			at.keys, err = m.bytes(int64(l.blocks) * (keys + vals))
		} else if at.keys, err = m.bytes(int64(l.blocks) * keys); err == nil && vals > 0 {
			at.values, err = m.bytes(int64(l.blocks) * vals)
		}
		if err != nil {
			return nil, err
		}
		l.lanes = append(l.lanes, at)
	}
	return l, nil
}

// bytes allocates memory that has no type of its own.
func (m memory[B]) bytes(n int64) (B, error) { return m.alloc(backend.U32, int((n+3)/4)) }

// place makes the caches of a part's layers from lanes.
func (st *Store[B]) place(in *lanes[B], part *config.Part, masks []backend.Mask[B]) (err error) {
	c := &part.Config
	st.Formats, st.each, st.stride = c.Formats(), c.Each(), c.Stride()
	st.slots = c.Stride() * c.KernelTokens()
	for l := range part.Layers {
		layer, err := in.cache(l, part)
		if err != nil {
			return err
		}
		layer.Mask = masks[min(l, len(masks)-1)]
		st.Layers = append(st.Layers, layer)
	}
	return nil
}

// cache is a layer's cache in its lane. Those of layers that are stored alike are the same.
func (in *lanes[B]) cache(l int, part *config.Part) (Layer[B], error) {
	key := cacheKey{l, part.Alike(l)}
	if have, ok := in.caches[key]; ok {
		return have, nil
	}
	c, f := &part.Config, part.FormatOf(l)
	// The last block ends with its values, if those lie after its keys: no block of a kernel begins there.
	blocks := in.blocks*c.Stride() - (c.Stride() - c.Each())
	layer := Layer[B]{View: emptyView[B](c, blocks)}
	at := in.lanes[l]
	var err error
	if layer.View.K, err = in.plane(at.keys, 0, c, blocks, f.K, c.Model.HeadDim, c.KeyScales(l)); err != nil {
		return layer, err
	}
	values, offset := at.values, int64(0)
	if in.interleaved {
		values, offset = at.keys, in.keys
	}
	if !c.Model.Latent {
		if layer.View.V, err = in.plane(values, offset, c, blocks, f.V, c.Model.VHeadDim, c.ValueScales(l)); err != nil {
			return layer, err
		}
	}
	layer.View.K.Hadamard = c.HadamardOf(l)
	if c.Attention.Scores {
		layer.Scores.Set = true
		if layer.Scores.Buf, err = in.alloc(backend.F32, blocks*c.Model.KVHeads*c.KernelTokens()); err != nil {
			return layer, err
		}
	}
	in.caches[key] = layer
	return layer, nil
}

// plane is keys or values that begin at an offset of a lane's memory.
func (in *lanes[B]) plane(mem B, offset int64, c *config.Config, blocks int, dt backend.DType, dim int, perHead []float32) (backend.Plane[B], error) {
	of := backend.Plane[B]{Dim: dim}
	var err error
	if of.Data, err = in.be.SubBuffer(mem, offset, dt, blocks*c.Model.KVHeads*c.KernelTokens()*dim); err != nil {
		return of, err
	}
	*in.owned = append(*in.owned, of.Data)
	err = in.scales(&of, dt, blocks, c.Model.KVHeads, c.KernelTokens(), perHead)
	return of, err
}
