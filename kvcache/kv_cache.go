package kvcache

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// KvCache is the cache of one layer of one sequence. Its fields are what a
// runner's own kernels need and are not to be written; they are up to date after
// each method, or, for a layer of a Sequence, after Sequence.Layers.
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
	// Paged only; in a cache of its own they are those of the last Append or Attend,
	// and unset where Len has changed since.
	BlockTable, ContextLens backend.Opt[B]
	// PagedBlockIndices is the block table on the host.
	PagedBlockIndices []uint32

	seq   *Sequence[B]
	layer int
	own   *standalone[B]
}

// standalone is what a KvCache of its own stands on: a pool of one layer and one
// sequence, and the steps of that sequence.
type standalone[B backend.Buffer] struct {
	be      backend.Backend[B]
	step    *Batch[B]
	limit   int // most tokens it may grow to
	queries int // of the last step
}

// firstCapacity is the tokens that a growing cache starts with.
const firstCapacity = 256

// NewKvCache makes a cache of one layer and one sequence. cfg.Layers and MaxSeqs
// may be left 0. A contiguous cache starts small and doubles as it fills, up to
// cfg.Capacity; a paged one has its blocks from the start.
func NewKvCache[B backend.Buffer](be backend.Backend[B], cfg Config) (*KvCache[B], error) {
	cfg.Layers, cfg.MaxSeqs = max(cfg.Layers, 1), max(cfg.MaxSeqs, 1)
	if cfg.Layers != 1 || cfg.MaxSeqs != 1 {
		return nil, badConfig("Layers", cfg.Layers, "a KvCache has one layer and one sequence; use a Pool for more")
	}
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	if cfg.Residual > 0 {
		return nil, badConfig("Residual", cfg.Residual, "is for a Pool, whose tokens may lie in two places")
	}
	if cfg.Layout == Paged {
		cfg.Prefix = prefix.Off // there is nobody to share with
	}
	c := &KvCache[B]{own: &standalone[B]{be: be, limit: cfg.Capacity}}
	if cfg.Layout == Contiguous {
		cfg.Capacity = min(cfg.Capacity, firstCapacity)
	}
	if err := c.open(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// open puts the cache on a new pool.
func (c *KvCache[B]) open(cfg Config) error {
	pool, err := NewPool(c.own.be, cfg)
	if err != nil {
		return err
	}
	seq, _, err := pool.Open(context.Background(), nil)
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	c.seq, c.own.step, c.own.queries = seq, pool.NewBatch(), 0
	c.refresh()
	return nil
}

// alone reports why a method that changes the cache cannot run.
func (c *KvCache[B]) alone(op string) error {
	switch {
	case c.seq == nil:
		return fmt.Errorf("kvcache: %s: %w", op, ErrReleased)
	case c.own == nil:
		return backend.ErrUnsupported{Package: "kvcache", Op: op, Why: "this is a layer of a Sequence, whose layers change together; use a Batch"}
	}
	return nil
}

// refresh brings the fields up to date.
func (c *KvCache[B]) refresh() {
	p := c.seq.pool
	view := p.kept.layers[c.layer].view
	c.K, c.V, c.Len, c.Capacity = view.K.Data, view.V.Data, c.seq.len, p.cfg.Capacity
	c.KScales, c.VScales = view.K.Scales, view.V.Scales
	c.NumKVHeads, c.HeadDim, c.BlockSize = p.cfg.KVHeads, p.cfg.HeadDim, p.cfg.BlockSize
	c.PagedBlockIndices = c.seq.Blocks(c.PagedBlockIndices[:0])
	c.BlockTable, c.ContextLens = backend.Opt[B]{}, backend.Opt[B]{}
	if c.own != nil && c.own.queries > 0 && c.BlockSize != 0 {
		// A step of one sequence has its table and length as the step's own.
		c.BlockTable, c.ContextLens = c.own.step.index.fresh.tables.buf, c.own.step.index.lens.buf
	}
}

// Append writes n new tokens: keys [n, heads, head dim], values [n, heads, value
// head dim], of the activation type.
func (c *KvCache[B]) Append(s backend.Stream, k, v B, n int) error {
	return c.write(s, n, func(b *Batch[B]) error { return b.Append(0, k, v) })
}

// AppendRotated is Append with RoPE: q [n, query heads, head dim] is rotated in
// place, k on its way into the cache.
func (c *KvCache[B]) AppendRotated(s backend.Stream, q, k, v B, n int) error {
	return c.write(s, n, func(b *Batch[B]) error { return b.AppendRotated(0, q, k, v) })
}

// AppendQueries is Append for Config.Hadamard, which turns q [n, query heads, head dim], too;
// see Batch.AppendQueries.
func (c *KvCache[B]) AppendQueries(s backend.Stream, q, k, v B, n int) error {
	return c.write(s, n, func(b *Batch[B]) error { return b.AppendQueries(0, q, k, v) })
}

func (c *KvCache[B]) write(s backend.Stream, n int, enqueue func(*Batch[B]) error) error {
	if err := c.alone("append"); err != nil {
		return err
	}
	if s == nil {
		return errNoStream("append")
	}
	if n <= 0 {
		return backend.ErrShape{Package: "kvcache", Op: "append", What: fmt.Sprintf("%d tokens: need at least one", n)}
	}
	if n > c.own.limit-c.Len {
		return ErrCapacity{Have: c.Len + n, Max: c.own.limit}
	}
	if c.Len+n <= c.Capacity {
		return c.run(s, n, true, enqueue)
	}
	old := *c
	if err := c.grow(s, c.Len+n); err != nil {
		return err
	}
	if err := c.run(s, n, true, enqueue); err != nil { // as before, its memory included
		err = errors.Join(err, c.seq.pool.Close())
		*c = old
		c.refresh()
		return err
	}
	return old.seq.pool.Close()
}

// run does one step of n tokens.
func (c *KvCache[B]) run(s backend.Stream, n int, write bool, enqueue func(*Batch[B]) error) error {
	b := c.own.step
	c.own.queries = 0
	err := b.Reset()
	if err == nil {
		err = b.add(c.seq, nil, n, write)
	}
	if err == nil {
		err = b.Plan(s)
	}
	if err == nil {
		err = enqueue(b)
	}
	if err == nil {
		err = b.Commit()
	}
	if err != nil {
		err = errors.Join(err, b.Reset())
	} else {
		c.own.queries = n
	}
	c.refresh()
	return err
}

// Attend computes attention for the last n tokens: q [n, query heads, head dim]
// over all tokens up to each, into out [n, query heads, value head dim]. After an
// Append of the same n tokens on the same stream nothing is planned again.
func (c *KvCache[B]) Attend(s backend.Stream, q, out B, n int) error {
	if err := c.alone("attend"); err != nil {
		return err
	}
	if s == nil {
		return errNoStream("attend")
	}
	b := c.own.step
	attend := func(b *Batch[B]) error {
		return b.attend(0, backend.Dense(q), backend.Outputs[B]{Rows: backend.Dense(out)})
	}
	if c.own.queries != n || b.stream != s {
		return c.run(s, n, false, attend)
	}
	if err := attend(b); err != nil {
		return err
	}
	return c.seq.touch(b, s)
}

// Truncate keeps the first n tokens.
func (c *KvCache[B]) Truncate(n int) error {
	if err := c.alone("truncate"); err != nil {
		return err
	}
	if err := c.seq.Truncate(n); err != nil {
		return err
	}
	c.own.queries = 0
	c.refresh()
	return nil
}

// Reset empties the cache and keeps its memory.
func (c *KvCache[B]) Reset() error {
	if err := c.alone("reset"); err != nil {
		return err
	}
	return c.Truncate(0)
}

// Shift drops tokens [begin, end) and rotates the keys behind them; see Sequence.Shift.
func (c *KvCache[B]) Shift(s backend.Stream, begin, end int) error {
	if err := c.alone("shift"); err != nil {
		return err
	}
	if err := c.seq.Shift(s, begin, end); err != nil {
		return err
	}
	c.own.queries = 0
	c.refresh()
	return nil
}

// Release frees the cache's memory once the device is done with it.
func (c *KvCache[B]) Release() error {
	if err := c.alone("release"); err != nil {
		return err
	}
	err := c.seq.pool.Close()
	*c = KvCache[B]{own: c.own}
	return err
}

// Gather materialises the layer as dense keys [heads, Len, head dim] and values
// [heads, Len, value head dim], in the storage type or in f32, quantized ones in f32. The buffers are
// the caller's and may be longer than needed.
func (c *KvCache[B]) Gather(s backend.Stream, k, v B) error {
	if c.seq == nil {
		return fmt.Errorf("kvcache: gather: %w", ErrReleased)
	}
	return c.seq.gather(s, c.layer, k, v)
}

// grow puts a contiguous cache on a pool of at least need tokens, with its tokens.
// The old pool is the caller's to close, or to go back to.
func (c *KvCache[B]) grow(s backend.Stream, need int) error {
	old := *c
	own := *c.own
	cfg := c.seq.pool.cfg
	cfg.Capacity = min(max(2*cfg.Capacity, need), own.limit)
	c.own = &own
	err := c.open(cfg)
	if err == nil && old.Len > 0 {
		if err = c.seq.adopt(s, old.seq); err != nil {
			err = errors.Join(err, c.seq.pool.Close())
		}
	}
	if err != nil {
		*c = old
		return err
	}
	c.refresh()
	return nil
}
