package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Scores reads the attention mass that the sequence's tokens got in a layer since they
// were written, or since ClearScores: dst is [KV heads, Len], each the sum over the
// queries and the heads of the group (H2O, arXiv:2306.14048). It waits for the
// stream. A block that sequences share has the mass that all of them gave, also in steps
// that were abandoned and from tokens that have gone since. Needs Config.Scores.
func (s *Sequence[B]) Scores(stream backend.Stream, layer int, dst []float32) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.scored("scores", stream, layer); err != nil {
		return err
	}
	heads, slots := p.cfg.KVHeads, p.cfg.slots()
	if len(dst) != heads*s.len {
		return backend.ErrShape{Package: "kvcache", Op: "scores", What: fmt.Sprintf("%d elements: need %d heads of %d tokens", len(dst), heads, s.len)}
	}
	if err := s.fence.Order(stream); err != nil {
		return p.blocks.Observe(err)
	}
	if s.scratch == nil {
		s.scratch = make([]float32, heads*slots)
	}
	of := p.layers[layer].scores.Buf
	for i, b := range s.blocks[:ceilDiv(s.len, slots)] {
		if err := backend.Download(p.be, stream, s.scratch, of, int(b.ID)*len(s.scratch)); err != nil {
			return p.blocks.Observe(err)
		}
		n := min(slots, s.len-i*slots)
		for h := range heads {
			copy(dst[h*s.len+i*slots:][:n], s.scratch[h*slots:])
		}
	}
	return nil
}

// ClearScores sets the attention mass of the sequence's tokens to 0 in all layers: SnapKV
// looks at the last queries of a prompt only. Scores of shared blocks are everybody's.
func (s *Sequence[B]) ClearScores(stream backend.Stream) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.scored("clear scores", stream, 0); err != nil {
		return err
	}
	if err := s.fence.Order(stream); err != nil {
		return p.blocks.Observe(err)
	}
	for _, b := range s.blocks {
		if err := p.clearScores(stream, b.ID, 0); err != nil {
			return errors.Join(p.blocks.Observe(err), s.touched(stream))
		}
	}
	return s.touched(stream)
}

func (s *Sequence[B]) scored(op string, stream backend.Stream, layer int) error {
	if err := s.changeable(op, stream); err != nil {
		return err
	}
	if !s.pool.cfg.Scores {
		return backend.ErrUnsupported{Package: "kvcache", Op: op, Why: "Config.Scores is not set"}
	}
	return s.pool.checkLayer(op, layer)
}

// clearScores sets the mass of a block's slots from a slot on to 0, in all layers.
func (p *Pool[B]) clearScores(stream backend.Stream, id uint32, from int) error {
	slots, heads := p.cfg.slots(), p.cfg.KVHeads
	runs, n := 1, heads*slots // a whole block is one run
	if from > 0 {
		runs, n = heads, slots-from
	}
	for _, l := range p.layers {
		for h := range runs {
			if err := p.be.Fill(stream, l.scores.Buf, (int(id)*heads+h)*slots+from, n, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// clearFresh sets the mass of the slots that the step writes to 0: those of new blocks,
// and those of a last block where tokens that are gone have left theirs.
func (b *Batch[B]) clearFresh() error {
	p := b.pool
	if !p.cfg.Scores {
		return nil
	}
	for i := range b.entries {
		e := &b.entries[i]
		fresh := e.blocks
		used := e.seq.len % p.cfg.slots()
		if e.copies {
			fresh = fresh[1:]
		}
		if e.write && used > 0 && (e.copies || e.seq.stale) {
			if err := p.clearScores(b.stream, e.block(e.seq.len/p.cfg.slots()), used); err != nil {
				return err
			}
		}
		for _, block := range fresh {
			if err := p.clearScores(b.stream, block.ID, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
