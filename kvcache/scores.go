package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Scores reads the attention mass that the sequence's tokens got since they were written, or
// since ClearScores, in layers from first on: dst is [layers, KV heads, Len], each the sum over
// the queries and the heads of the group (H2O, arXiv:2306.14048), of as many layers as dst has
// room for. It waits for the stream. A block that sequences share has the mass that all of them
// gave, also in steps that were abandoned and from tokens that have gone since. Needs Config.Scores.
func (s *Sequence[B]) Scores(stream backend.Stream, first int, dst []float32) error {
	if err := s.gatherScores(stream, first, dst); err != nil || len(dst) == 0 {
		return err
	}
	// Not under the pool's lock: it waits for the device.
	err := backend.Download(s.pool.be, stream, dst, s.scores.buf.Buf, 0)
	return s.pool.met(err)
}

// gatherScores enqueues what brings the scores together, a launch for each layer.
func (s *Sequence[B]) gatherScores(stream backend.Stream, first int, dst []float32) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.scored("scores", stream, first); err != nil {
		return err
	}
	each := p.cfg.KVHeads * s.len
	layers := len(dst) / max(each, 1)
	if len(dst) != layers*each || layers < 1 && each > 0 || layers > p.cfg.Layers-first {
		return backend.ErrShape{Package: "kvcache", Op: "scores", What: fmt.Sprintf("%d elements: need %d heads of %d tokens for each of 1 to %d layers",
			len(dst), p.cfg.KVHeads, s.len, p.cfg.Layers-first)}
	}
	if len(dst) == 0 {
		return nil
	}
	if err := s.scores.fit(p.be, len(dst)); err != nil {
		return p.fences.Observe(err)
	}
	if err := s.syncTable(stream); err != nil {
		return err
	}
	for i := range layers {
		l := &p.kept.layers[first+i]
		err := p.be.Gather(stream, backend.GatherParams[B]{Cache: l.view, Table: s.table.blocks.buf, Len: s.len,
			Mass: l.scores, Scores: s.scores.buf, ScoresOffset: i * each})
		if err != nil {
			return errors.Join(p.fences.Observe(err), s.touched(stream))
		}
	}
	return s.touched(stream)
}

// ClearScores sets the attention mass of the sequence's blocks to 0 in all layers: SnapKV
// looks at the last queries of a prompt only. Scores of shared blocks are everybody's.
func (s *Sequence[B]) ClearScores(stream backend.Stream) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.scored("clear scores", stream, 0); err != nil {
		return err
	}
	if len(s.kept.blocks) == 0 {
		return nil
	}
	if err := s.fence.Order(stream); err != nil {
		return p.fences.Observe(err)
	}
	slots := p.cfg.slots()
	s.slots.host = s.slots.host[:0]
	for _, b := range s.kept.blocks {
		for i := range slots {
			s.slots.host = append(s.slots.host, int64(b.ID)*int64(slots)+int64(i))
		}
	}
	err := s.slots.upload(p.be, stream)
	if err == nil {
		err = p.clearScores(stream, s.slots.buf.Buf, len(s.slots.host))
	}
	if err != nil {
		return errors.Join(p.fences.Observe(err), s.touched(stream))
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

// clearScores sets the mass of n slots to 0, in all layers.
func (p *Pool[B]) clearScores(stream backend.Stream, slots B, n int) error {
	for i := range p.kept.layers {
		l := &p.kept.layers[i]
		err := p.be.ClearMass(stream, backend.ClearMassParams[B]{Mass: l.scores.Buf, Blocks: p.cfg.Blocks, KVHeads: p.cfg.KVHeads,
			BlockSize: p.cfg.slots(), Slots: slots, N: n})
		if err != nil {
			return err
		}
	}
	return nil
}
