package kvcache

import "github.com/ferrumkv/ferrumkv/backend"

// KvCache is the cache of one layer of one sequence. Its fields are what a runner's own kernels
// need and are not to be written; they are those of the moment of Sequence.Layers, or, in a
// Standalone cache, up to date after each of its methods.
type KvCache[B backend.Buffer] struct {
	// K and V are the layer's keys and values: contiguous [heads, Capacity, dim],
	// paged [blocks, heads, BlockSize, dim] of all sequences. In a contiguous pool of
	// several sequences they hold one run for each, and PagedBlockIndices[0] is the
	// number of this one's.
	K, V B
	// KScales and VScales lie beside K and V of quantized types: see backend.DType.Scales.
	KScales, VScales    backend.Opt[B]
	Len, Capacity       int // tokens
	NumKVHeads, HeadDim int
	BlockSize           int // tokens; 0: contiguous
	// BlockTable is U32, as PagedBlockIndices from its start, and ContextLens U32 [1].
	// Paged only; in a Standalone cache they are those of the last Append or Attend,
	// and unset where Len has changed since.
	BlockTable, ContextLens backend.Opt[B]
	// PagedBlockIndices is the block table on the host.
	PagedBlockIndices []uint32
}
