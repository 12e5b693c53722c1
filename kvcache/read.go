package kvcache

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Gather copies a layer of the sequence into dense buffers of the caller: keys [heads, Len, head dim]
// and values [heads, Len, value head dim], in the storage type or in f32; quantized types are
// dequantized to f32. Len is KvCache.Len of the layer: what is left, if it has given tokens back. The buffers may be
// longer than needed. With Storage.Residual they must be f32, and tokens in the residual window are exact.
func (s *Sequence[B]) Gather(stream backend.Stream, layer int, k, v B) (err error) {
	defer naming("Sequence.Gather", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.usable(stream); err != nil {
		return err
	}
	if err := p.checkLayer(layer); err != nil {
		return err
	}
	return s.alone(func() error { return s.runs.Gather(stream, layer, k, v) })
}

// Scores reads the attention scores that the sequence's tokens got since they were written, or
// since ClearScores, in layers from first on: dst is [layers, KV heads, Len], each the sum over
// the queries and the heads of the group (H2O, arXiv:2306.14048). The length of dst decides the number
// of layers. Tokens that a layer has given back (Model.Groups) count as 0. It waits for the stream and needs
// Attention.Scores.
//
// A shared block has the sum of the scores of all its sequences, including abandoned steps and dropped
// tokens. With Storage.Residual, scores move to the quantized block when it is quantized. When several
// sequences that share that block still read it unquantized, in a step or in steps that are open at once,
// it keeps the scores of one of them; those of an abandoned step may be incomplete.
func (s *Sequence[B]) Scores(stream backend.Stream, first int, dst []float32) (err error) {
	defer naming("Sequence.Scores", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.scored(stream, first); err != nil {
		return err
	}
	layers, rest := 0, len(dst)
	for l := first; l < p.cfg.Model.Layers && rest > 0 && p.attends(l); l++ {
		st, _ := p.of(l)
		rest -= st.Config.Model.KVHeads * s.Len()
		layers++
	}
	if st, _ := p.of(first); rest != 0 || len(dst) == 0 && s.Len() > 0 || s.Len() == 0 && len(dst) > 0 {
		return argument("%d elements: need %d heads of %d tokens for each of 1 to %d layers", len(dst), st.Config.Model.KVHeads, s.Len(), p.cfg.Model.Layers-first)
	}
	if len(dst) == 0 {
		return nil
	}
	return s.alone(func() error { return s.runs.ReadScores(stream, first, layers, dst) })
}

// ClearScores sets the attention scores of the sequence's blocks to 0 in all layers, for instance to
// count only the last queries of a prompt, as SnapKV (arXiv:2404.14469) does. Other sequences that share
// the blocks lose their scores, too.
func (s *Sequence[B]) ClearScores(stream backend.Stream) (err error) {
	defer naming("Sequence.ClearScores", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.scored(stream, 0); err != nil {
		return err
	}
	return s.alone(func() error { return s.runs.ClearScores(stream) })
}

func (s *Sequence[B]) scored(stream backend.Stream, layer int) error {
	if err := s.usable(stream); err != nil {
		return err
	}
	if !s.pool.cfg.Attention.Scores {
		return unsupported("Attention.Scores is not set")
	}
	return s.pool.checkLayer(layer)
}

// KvCache is the cache of one layer of one sequence. Its fields are for kernels of the runner's own
// and must not be changed. They describe the sequence when Sequence.Layers was called; in a
// Standalone cache each of its methods updates them.
type KvCache[B backend.Buffer] struct {
	// K and V are the layer's keys and values: contiguous [heads, Capacity, dim],
	// paged [blocks, heads, BlockSize, dim] of all sequences. In a contiguous pool of
	// several sequences they are [sequences, heads, Capacity, dim], and
	// PagedBlockIndices[0] is the index of this sequence.
	K, V B
	// KScales and VScales are the scales of quantized K and V: see backend.DType.Scales.
	KScales, VScales backend.Opt[B]
	// Len is the tokens that the layer has. One that has given some back (Model.Groups) has fewer than the sequence: the
	// blocks of its sinks, then the last tokens, with nothing between them. So tables and lengths give the distances
	// between tokens after the sinks, but not their positions.
	Len, Capacity       int
	NumKVHeads, HeadDim int
	// VHeadDim is the elements of a value. With Latent there is no V, and they are the first ones of a key (Model.Latent).
	VHeadDim  int
	Latent    bool
	BlockSize int // tokens; 0: contiguous
	// BlockTable is PagedBlockIndices on the device, U32, and ContextLens is Len there, U32 [1].
	// Paged only. In a Standalone cache they are those of the last Append or Attend, and
	// unset if Len has changed since.
	BlockTable, ContextLens backend.Opt[B]
	// PagedBlockIndices is the block table on the host.
	PagedBlockIndices []uint32
	// Residual is, with Storage.Residual, the cache of the sequence's last, unquantized tokens, and the fields
	// above are the quantized cache; else nil. backend.Mask.Part says which of the two caches a query reads for
	// a token. Both block tables are indexed by place among the Len tokens, in blocks; that of Residual has 0 for
	// blocks that are only in the quantized cache.
	Residual *KvCache[B]
}

// Layers returns one KvCache for each layer of the sequence, for a runner with kernels
// of its own; it uploads block tables and length on stream. The slice is valid until
// the sequence changes or Layers is called again. The pool does not see those kernels:
// call Fence after them, or run them in a step, with Batch.Metadata, whose Commit
// fences them.
func (s *Sequence[B]) Layers(stream backend.Stream) (_ []KvCache[B], err error) {
	defer naming("Sequence.Layers", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.usable(stream); err != nil {
		return nil, err
	}
	if err := s.alone(func() error { return s.runs.Sync(stream) }); err != nil {
		return nil, err
	}
	if s.layers == nil {
		s.layers = make([]KvCache[B], p.cfg.Model.Layers)
	}
	for i := range s.layers {
		if !p.attends(i) {
			continue
		}
		c := &s.layers[i]
		s.view(c, i)
		if b, _ := s.runs.Of(i); p.cfg.Memory.Layout == Paged {
			c.on(b.Device())
		}
	}
	return s.layers, nil
}

// view brings the fields of a layer's cache up to date, but for what is on the device.
func (s *Sequence[B]) view(c *KvCache[B], layer int) {
	b, l := s.runs.Of(layer)
	s.fill(c, b, &b.Part.Kept.Layers[l].View)
	c.PagedBlockIndices = b.Part.Kept.Places(c.PagedBlockIndices[:0], b.Kept)
	for i, st := range b.Part.Stores[1:] {
		if c.Residual == nil {
			c.Residual = &KvCache[B]{}
		}
		s.fill(c.Residual, b, &st.Layers[l].View)
		c.Residual.PagedBlockIndices = st.Places(c.Residual.PagedBlockIndices[:0], &b.Segments[i+1])
	}
}

func (s *Sequence[B]) fill(c *KvCache[B], b *store.Run[B], view *backend.CacheView[B]) {
	cfg := &b.Part.Config
	c.K, c.V, c.Len, c.Capacity = view.K.Data, view.V.Data, b.Len, cfg.Memory.Capacity
	c.KScales, c.VScales = view.K.Scales, view.V.Scales
	c.NumKVHeads, c.HeadDim, c.BlockSize = cfg.Model.KVHeads, cfg.Model.HeadDim, cfg.Memory.BlockSize
	c.VHeadDim, c.Latent = cfg.Model.VHeadDim, cfg.Model.Latent
	c.BlockTable, c.ContextLens = backend.Opt[B]{}, backend.Opt[B]{}
}

// on says where the tables and the length are on the device.
func (c *KvCache[B]) on(blocks, recent, length backend.Opt[B]) {
	c.BlockTable, c.ContextLens = blocks, length
	if c.Residual != nil {
		c.Residual.BlockTable, c.Residual.ContextLens = recent, length
	}
}
