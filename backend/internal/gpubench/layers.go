package gpubench

import (
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// turns is how many pieces of memory, of so many bytes each, exceed what a device caches: a
// call that takes the next finds nothing of an earlier one there. It is 5 times the L2 of an
// H100: a cache that evicts at random keeps a hundredth of what was used so long ago.
func (r *rig[B]) turns(bytes int) int {
	const exceeds = 256 << 20
	return r.size((exceeds+bytes-1)/bytes, 1)
}

// layers is n layers of a cache, of that many slots each.
func (r *rig[B]) layers(n int, keys backend.DType, slots, block int) []backend.CacheView[B] {
	layers := make([]backend.CacheView[B], n)
	for i := range layers {
		v := backend.CacheView[B]{Blocks: slots / block, KVHeads: kvHeads, BlockSize: block}
		v.K, v.V = r.plane(keys, v), r.plane(valuesOf(keys), v)
		layers[i] = v
	}
	return layers
}

// plane is the keys, or the values, of a cache.
func (r *rig[B]) plane(dt backend.DType, v backend.CacheView[B]) backend.Plane[B] {
	p := backend.Plane[B]{Data: r.filled(dt, v.Blocks*v.BlockSize*width), Dim: dim}
	words, n, _ := dt.Scales(v.Blocks, kvHeads, v.BlockSize, dim)
	if n == 0 {
		return p
	}
	scale := 0.01
	if words == backend.U32 {
		scale = float64(quant.BF16(0.01)) // the word of a scale, and no zero point
	}
	p.Scales = backend.Some(r.alloc(words, n))
	require.NoError(r.b, r.Backend.Fill(r.Stream, p.Scales.Buf, 0, n, scale))
	return p
}

// valuesOf is how values are stored beside keys of a type.
func valuesOf(keys backend.DType) backend.DType {
	return keys.Coding().Values
}

// layerSize is the bytes of a layer of so many slots, with its scales.
func layerSize(keys backend.DType, slots, block int) (bytes int) {
	for _, dt := range [...]backend.DType{keys, valuesOf(keys)} {
		bytes += planeSize(dt, slots, block)
	}
	return bytes
}

func planeSize(dt backend.DType, slots, block int) int {
	data, _ := dt.Size(slots * width)
	words, n, _ := dt.Scales(slots/block, kvHeads, block, dim)
	return int(data) + n*words.Bits()/8
}
