package kvcache

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
)

// table is a sequence's block table and length on the device, made when asked for.
type table[B backend.Buffer] struct {
	blocks vector[B, uint32] // [blocks]
	recent vector[B, uint32] // of the fresh store, where there are two
	length vector[B, uint32] // [1]
}

// Layers returns the sequence as one KvCache a layer, for a runner with kernels of
// its own: it brings block table and length to the device on stream. The slice
// is valid until the sequence changes or Layers is called again. The pool knows
// nothing of those kernels: call Fence behind them, or run them in a step, with
// Batch.Index, whose Commit fences them.
func (s *Sequence[B]) Layers(stream backend.Stream) ([]KvCache[B], error) {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := firstOf(s.idle("layers"), s.whole("layers")); err != nil {
		return nil, err
	}
	if err := s.syncTable(stream); err != nil {
		return nil, err
	}
	if s.layers == nil {
		s.layers = make([]KvCache[B], p.cfg.Layers)
	}
	for i := range s.layers {
		c := &s.layers[i]
		s.view(c, i)
		if p.cfg.Layout == Paged {
			c.BlockTable, c.ContextLens = s.table.blocks.buf, s.table.length.buf
		}
	}
	return s.layers, nil
}

// syncTable uploads the block table and the length, behind the sequence's last step
// and before its next.
func (s *Sequence[B]) syncTable(stream backend.Stream) error {
	p := s.pool
	if err := p.usable(); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream("layers")
	}
	if err := s.fence.Order(stream); err != nil {
		return p.fences.Observe(err)
	}
	if err := s.uploadTable(stream); err != nil {
		return errors.Join(p.fences.Observe(err), s.touched(stream))
	}
	return s.touched(stream)
}

func (s *Sequence[B]) uploadTable(stream backend.Stream) error {
	t, be := &s.table, s.pool.be
	t.blocks.host = s.Blocks(t.blocks.host[:0])
	t.length.host = append(t.length.host[:0], uint32(s.len))
	if len(s.recent.blocks) > 0 {
		t.recent.host = s.recent.numbers(t.recent.host[:0])
		if err := t.recent.upload(be, stream); err != nil {
			return err
		}
	}
	if err := t.blocks.upload(be, stream); err != nil {
		return err
	}
	return t.length.upload(be, stream)
}

func (s *Sequence[B]) freeTable() {
	s.table.blocks.free(s.pool.be)
	s.table.recent.free(s.pool.be)
	s.table.length.free(s.pool.be)
	s.scores.free(s.pool.be)
	s.slots.free(s.pool.be)
}

// view brings the fields of a layer's cache up to date, but for what is on the device.
func (s *Sequence[B]) view(c *KvCache[B], layer int) {
	p := s.pool
	view := p.kept.layers[layer].view
	c.K, c.V, c.Len, c.Capacity = view.K.Data, view.V.Data, s.len, p.cfg.Capacity
	c.KScales, c.VScales = view.K.Scales, view.V.Scales
	c.NumKVHeads, c.HeadDim, c.BlockSize = p.cfg.KVHeads, p.cfg.HeadDim, p.cfg.BlockSize
	c.PagedBlockIndices = s.Blocks(c.PagedBlockIndices[:0])
	c.BlockTable, c.ContextLens = backend.Opt[B]{}, backend.Opt[B]{}
}
