package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Standalone is the cache of one layer and one sequence, with a pool of its own, for one
// goroutine at a time. Append and Attend run steps of that sequence. It must not be copied.
type Standalone[B backend.Buffer] struct {
	KvCache[B]

	solo  solo[B] // zero: released
	limit int     // most tokens it may grow to
}

// firstCapacity is the tokens that a growing cache starts with.
const firstCapacity = 256

// NewStandalone makes a cache of one layer and one sequence. cfg.Layers and MaxSeqs
// may be left 0. A contiguous cache starts small and doubles as it fills, up to
// cfg.Capacity; a paged one has its blocks from the start.
func NewStandalone[B backend.Buffer](be backend.Backend[B], cfg Config) (*Standalone[B], error) {
	cfg.Layers, cfg.MaxSeqs = max(cfg.Layers, 1), max(cfg.MaxSeqs, 1)
	if cfg.Layers != 1 || cfg.MaxSeqs != 1 {
		return nil, badConfig("Layers", cfg.Layers, "a Standalone cache has one layer and one sequence; use a Pool for more")
	}
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	if cfg.Residual > 0 {
		return nil, badConfig("Residual", cfg.Residual, "is for a Pool, whose tokens may lie in two places")
	}
	c := &Standalone[B]{limit: cfg.Capacity}
	if cfg.Layout == Paged {
		cfg.Prefix = prefix.Off // there is nobody to share with
	} else {
		cfg.Capacity = min(cfg.Capacity, firstCapacity)
	}
	if c.solo, err = openSolo(be, cfg); err != nil {
		return nil, err
	}
	c.refresh()
	return c, nil
}

// refresh brings the fields up to date.
func (c *Standalone[B]) refresh() {
	c.solo.seq.view(&c.KvCache, 0)
	if c.solo.queries > 0 && c.BlockSize != 0 {
		// A step of one sequence has its table and length as the step's own.
		ix := &c.solo.step.index
		c.BlockTable, c.ContextLens = ix.fresh.tables.buf, ix.lens.buf
	}
}

// Append writes n new tokens: keys [n, heads, head dim], values [n, heads, value
// head dim], of the activation type.
func (c *Standalone[B]) Append(s backend.Stream, k, v B, n int) error {
	return c.write(s, n, func(b *Batch[B]) error { return b.Append(0, k, v) })
}

// AppendRotated is Append with RoPE: q [n, query heads, head dim] is rotated in
// place, k on its way into the cache.
func (c *Standalone[B]) AppendRotated(s backend.Stream, q, k, v B, n int) error {
	return c.write(s, n, func(b *Batch[B]) error { return b.AppendRotated(0, q, k, v) })
}

// AppendQueries is Append for Config.Hadamard, which turns q [n, query heads, head dim], too;
// see Batch.AppendQueries.
func (c *Standalone[B]) AppendQueries(s backend.Stream, q, k, v B, n int) error {
	return c.write(s, n, func(b *Batch[B]) error { return b.AppendQueries(0, q, k, v) })
}

// write runs a step of n new tokens, in more memory where they need it.
func (c *Standalone[B]) write(s backend.Stream, n int, enqueue func(*Batch[B]) error) error {
	switch {
	case c.solo.seq == nil:
		return released("append")
	case s == nil:
		return errNoStream("append")
	case n <= 0:
		return backend.ErrShape{Package: "kvcache", Op: "append", What: fmt.Sprintf("%d tokens: need at least one", n)}
	case n > c.limit-c.Len:
		return ErrCapacity{Have: c.Len + n, Max: c.limit}
	}
	defer c.refresh()
	if c.Len+n <= c.Capacity {
		return c.solo.run(s, n, true, enqueue)
	}
	next, err := c.solo.grown(s, min(max(2*c.Capacity, c.Len+n), c.limit))
	if err != nil {
		return err
	}
	if err := next.run(s, n, true, enqueue); err != nil {
		return errors.Join(err, next.seq.pool.Close())
	}
	old := c.solo
	c.solo = next
	return old.seq.pool.Close()
}

// Attend computes attention for the last n tokens: q [n, query heads, head dim]
// over all tokens up to each, into out [n, query heads, value head dim]. After an
// Append of the same n tokens on the same stream nothing is planned again.
func (c *Standalone[B]) Attend(s backend.Stream, q, out B, n int) error {
	if c.solo.seq == nil {
		return released("attend")
	}
	if s == nil {
		return errNoStream("attend")
	}
	attend := func(b *Batch[B]) error {
		return b.attend(0, backend.Dense(q), backend.Outputs[B]{Rows: backend.Dense(out)})
	}
	if c.solo.planned(s, n) {
		return c.solo.again(s, attend)
	}
	defer c.refresh()
	return c.solo.run(s, n, false, attend)
}

// Truncate keeps the first n tokens.
func (c *Standalone[B]) Truncate(n int) error {
	if c.solo.seq == nil {
		return released("truncate")
	}
	return c.changed(c.solo.seq.Truncate(n))
}

// Reset empties the cache and keeps its memory.
func (c *Standalone[B]) Reset() error { return c.Truncate(0) }

// Shift drops tokens [begin, end) and rotates the keys behind them; see Sequence.Shift.
func (c *Standalone[B]) Shift(s backend.Stream, begin, end int) error {
	if c.solo.seq == nil {
		return released("shift")
	}
	return c.changed(c.solo.seq.Shift(s, begin, end))
}

// changed notes that the sequence has changed without a step, unless it could not.
func (c *Standalone[B]) changed(err error) error {
	if err == nil {
		c.solo.queries = 0
		c.refresh()
	}
	return err
}

// Gather is Sequence.Gather of the layer.
func (c *Standalone[B]) Gather(s backend.Stream, k, v B) error {
	if c.solo.seq == nil {
		return released("gather")
	}
	return c.solo.seq.Gather(s, 0, k, v)
}

// Release frees the cache's memory once the device is done with it.
func (c *Standalone[B]) Release() error {
	if c.solo.seq == nil {
		return released("release")
	}
	err := c.solo.seq.pool.Close()
	*c = Standalone[B]{}
	return err
}

// released is what a cache that was released says.
func released(op string) error { return fmt.Errorf("kvcache: %s: %w", op, ErrReleased) }
