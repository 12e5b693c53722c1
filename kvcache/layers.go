package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// table is a sequence's block table and length on the device, made when asked for.
type table[B backend.Buffer] struct {
	blocks vector[B, uint32] // [blocks]
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
		c.seq, c.layer = s, i
		c.refresh()
		if p.cfg.Layout == Paged {
			c.BlockTable, c.ContextLens = s.table.blocks.buf, s.table.length.buf
		}
	}
	return s.layers, nil
}

// Fence tells the pool that work of the runner's own, enqueued on stream so far,
// uses the sequence: its blocks are not handed out, nor written by a step, before
// that is done.
func (s *Sequence[B]) Fence(stream backend.Stream) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle("fence"); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream("fence")
	}
	return s.fenceBehind(stream)
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
	if err := t.blocks.upload(be, stream); err != nil {
		return err
	}
	return t.length.upload(be, stream)
}

func (s *Sequence[B]) freeTable() {
	s.table.blocks.free(s.pool.be)
	s.table.length.free(s.pool.be)
	s.scores.free(s.pool.be)
	s.slots.free(s.pool.be)
}

// gather reads all tokens of a layer into dense buffers.
func (s *Sequence[B]) gather(stream backend.Stream, layer int, k, v B) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := firstOf(s.idle("gather"), s.whole("gather")); err != nil {
		return err
	}
	if err := s.syncTable(stream); err != nil {
		return err
	}
	err := p.be.Gather(stream, backend.GatherParams[B]{
		Cache: p.kept.layers[layer].view, Table: s.table.blocks.buf, Len: s.len, K: backend.Some(k), V: backend.Some(v),
	})
	if err != nil {
		return p.fences.Observe(err)
	}
	return s.touched(stream)
}

// touch notes that work which reads the sequence was enqueued outside of a step's
// own commit.
func (s *Sequence[B]) touch(b *Batch[B], stream backend.Stream) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.fenceBehind(stream); err != nil {
		return err
	}
	b.used(s.fence)
	return nil
}

// fenceBehind is touched for work that was not put behind the sequence's fence. It
// does not change the sequence, so it need not wait for what others read of it; but
// whoever waits for the new fence waits for those, too.
func (s *Sequence[B]) fenceBehind(stream backend.Stream) error {
	if err := s.fence.Order(stream); err != nil {
		return errors.Join(s.pool.fences.Observe(err), residency.Drain(stream))
	}
	return s.touched(stream)
}

// touched makes this point of the stream the sequence's fence. The stream has been
// put behind the one before. Where no fence can be had it waits. The caller holds
// the lock.
func (s *Sequence[B]) touched(stream backend.Stream) error {
	f, err := s.pool.fences.Record(s.pool.be, stream)
	if err != nil {
		return errors.Join(s.pool.fences.Observe(err), residency.Drain(stream))
	}
	s.used(f)
	return nil
}

// adopt copies the tokens of a sequence of another contiguous pool into this
// empty one.
func (s *Sequence[B]) adopt(stream backend.Stream, from *Sequence[B]) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := from.fence.Order(stream); err != nil {
		return err
	}
	blocks, err := s.take(s.kept.blocks, 1)
	if err != nil {
		return err
	}
	s.kept.blocks = blocks
	p.kept.logical++
	if err := p.copyTokens(stream, from.pool, from.len); err != nil {
		return fmt.Errorf("kvcache: grow: %w", err)
	}
	s.len, s.places = from.len, from.places.clone()
	return s.touched(stream)
}

// copyTokens copies the first n tokens of another pool's only block into this one's.
func (p *Pool[B]) copyTokens(stream backend.Stream, of *Pool[B], n int) error {
	for l := range p.kept.layers {
		to, from := &p.kept.layers[l], &of.kept.layers[l]
		for _, plane := range [...]struct{ dst, src backend.Plane[B] }{{to.view.K, from.view.K}, {to.view.V, from.view.V}} {
			if err := p.copyRows(stream, plane.dst.Data, plane.src.Data, of, plane.dst.Dim, n); err != nil {
				return err
			}
			groups := plane.dst.Data.DType().ScaleWords(plane.dst.Dim) // 0: there are none, or those of heads
			if err := p.copyRows(stream, plane.dst.Scales.Buf, plane.src.Scales.Buf, of, groups, n); err != nil {
				return err
			}
		}
		if to.scores.Set {
			if err := p.copyRows(stream, to.scores.Buf, from.scores.Buf, of, 1, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyRows copies n rows of width elements of each head.
func (p *Pool[B]) copyRows(stream backend.Stream, dst, src B, of *Pool[B], width, n int) error {
	if width == 0 {
		return nil
	}
	for h := range p.cfg.KVHeads {
		err := p.be.Copy(stream, dst, h*p.cfg.slots()*width, src, h*of.cfg.slots()*width, n*width)
		if err != nil {
			return err
		}
	}
	return nil
}
