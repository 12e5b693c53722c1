package kvcache

import (
	"strconv"

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

// NewStandalone makes a cache of one layer and one sequence. Model.Layers and
// Memory.MaxSeqs may be left 0. A contiguous cache starts small and doubles as it fills,
// up to Memory.Capacity; a paged one allocates all its blocks at the start.
func NewStandalone[B backend.Buffer](be backend.Backend[B], cfg Config) (_ *Standalone[B], err error) {
	defer naming("NewStandalone", &err)
	cfg.Model.Layers, cfg.Memory.MaxSeqs = max(cfg.Model.Layers, 1), max(cfg.Memory.MaxSeqs, 1)
	switch {
	case cfg.Model.Layers != 1:
		return nil, ErrConfig{Name: "Model.Layers", Value: strconv.Itoa(cfg.Model.Layers), Why: "a Standalone cache has one layer; use a Pool for more"}
	case cfg.Memory.MaxSeqs != 1:
		return nil, ErrConfig{Name: "Memory.MaxSeqs", Value: strconv.Itoa(cfg.Memory.MaxSeqs), Why: "a Standalone cache has one sequence; use a Pool for more"}
	}
	cfg, err = cfg.Resolve()
	if err != nil {
		return nil, err
	}
	c := &Standalone[B]{limit: cfg.Memory.Capacity}
	if cfg.Memory.Layout == Paged {
		cfg.Memory.Prefix = prefix.Off // there is nobody to share with
	} else {
		cfg.Memory.Capacity = min(cfg.Memory.Capacity, firstCapacity)
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
		kept, recent := c.solo.step.step.Steps[0].Device()
		c.on(kept.Table, recent.Table, backend.Some(kept.ContextLens))
		if c.Residual != nil { // what the step read is not what it leaves
			c.on(c.solo.seq.runs.In[0].Device())
		}
	}
}

// Append writes n new tokens, whose rows are in io, as Batch.Append does. A contiguous cache that is too small for them
// is first copied into a larger one.
func (c *Standalone[B]) Append(s backend.Stream, io LayerIO[B], n int) (err error) {
	defer naming("Standalone.Append", &err)
	switch {
	case c.solo.seq == nil:
		return ErrReleased
	case s == nil:
		return errNoStream
	case n <= 0:
		return argument("%d tokens: need at least one", n)
	case n > c.limit-c.Len:
		return ErrCapacity{Have: c.Len + n, Max: c.limit}
	}
	defer c.refresh()
	if c.Len+n <= c.Capacity {
		return c.solo.run(s, n, true, &io)
	}
	next, err := c.solo.grown(s, min(max(2*c.Capacity, c.Len+n), c.limit))
	if err != nil {
		return err
	}
	if err := next.run(s, n, true, &io); err != nil {
		return both(err, next.seq.pool.Close())
	}
	old := c.solo
	c.solo = next
	return old.seq.pool.Close()
}

// Attend computes attention for the last n tokens, whose queries are in io, as Batch.Attend does: each over all tokens
// up to its own. After an Append of these n tokens on the same stream it reuses the plan.
func (c *Standalone[B]) Attend(s backend.Stream, io LayerIO[B], n int) (err error) {
	defer naming("Standalone.Attend", &err)
	switch {
	case c.solo.seq == nil:
		return ErrReleased
	case s == nil:
		return errNoStream
	case c.solo.planned(s, n):
		return c.solo.again(s, &io)
	}
	defer c.refresh()
	return c.solo.run(s, n, false, &io)
}

// Truncate keeps the first n tokens.
func (c *Standalone[B]) Truncate(n int) (err error) {
	defer naming("Standalone.Truncate", &err)
	if c.solo.seq == nil {
		return ErrReleased
	}
	return c.changed(c.solo.seq.Truncate(n))
}

// Reset empties the cache and keeps its memory.
func (c *Standalone[B]) Reset() (err error) {
	defer naming("Standalone.Reset", &err)
	return c.Truncate(0)
}

// Shift drops tokens [begin, end) and rotates the keys after them; see Sequence.Shift.
func (c *Standalone[B]) Shift(s backend.Stream, begin, end int) (err error) {
	defer naming("Standalone.Shift", &err)
	if c.solo.seq == nil {
		return ErrReleased
	}
	return c.changed(c.solo.seq.Shift(s, begin, end))
}

// changed notes that the sequence has changed without a step, unless it could not.
func (c *Standalone[B]) changed(err error) error {
	if err == nil || c.Len != c.solo.seq.Len() { // an error of the device may be told after the change
		c.solo.queries = 0
		c.refresh()
	}
	return err
}

// Gather copies keys and values into dense buffers: see Sequence.Gather.
func (c *Standalone[B]) Gather(s backend.Stream, k, v B) (err error) {
	defer naming("Standalone.Gather", &err)
	if c.solo.seq == nil {
		return ErrReleased
	}
	return c.solo.seq.Gather(s, 0, k, v)
}

// Scores reads the attention scores of the tokens, [KV heads, Len]: see Sequence.Scores.
func (c *Standalone[B]) Scores(s backend.Stream, dst []float32) (err error) {
	defer naming("Standalone.Scores", &err)
	if c.solo.seq == nil {
		return ErrReleased
	}
	return c.solo.seq.Scores(s, 0, dst)
}

// ClearScores sets the attention scores to 0: see Sequence.ClearScores.
func (c *Standalone[B]) ClearScores(s backend.Stream) (err error) {
	defer naming("Standalone.ClearScores", &err)
	if c.solo.seq == nil {
		return ErrReleased
	}
	return c.solo.seq.ClearScores(s)
}

// Release frees the cache's memory once the device is done with it.
func (c *Standalone[B]) Release() (err error) {
	defer naming("Standalone.Release", &err)
	if c.solo.seq == nil {
		return ErrReleased
	}
	err = c.solo.seq.pool.Close()
	*c = Standalone[B]{}
	return err
}
