package store

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Scores of tokens are f32 [KV heads] in each layer, in the slots of the store that has them: of a block in
// both stores, the kept one. What another stream adds meanwhile to a block whose scores are copied may be lost.

// settled is the number of leading tokens that have their scores in the kept store.
func (s *Run[B]) settled() int {
	return min(len(s.Kept.Blocks)*s.Part.Config.BlockTokens(), s.Len)
}

// ReadScores brings the scores of layers from first on together, a launch for each layer and store, and waits for
// them: dst is [KV heads, Len] of each layer. Tokens that are cut out in a part have none.
func (s *Runs[B]) ReadScores(stream backend.Stream, first, layers int, dst []float32) error {
	v := &s.In[0].tables.scores
	n := 0
	for l := first; l < first+layers; l++ {
		b, _ := s.Of(l)
		n += b.Part.Config.Model.KVHeads * b.Len
	}
	err := s.work(stream, func() error {
		if err := v.Fit(s.all.BE, n); err != nil {
			return err
		}
		if err := s.rows(func(b *Run[B]) error { return b.uploadTables(stream) }); err != nil {
			return err
		}
		at := 0
		for l := first; l < first+layers; l++ {
			b, own := s.Of(l)
			if err := b.gatherLayer(stream, own, v.Buf, at); err != nil {
				return err
			}
			at += b.Part.Config.Model.KVHeads * b.Len
		}
		return nil
	})
	if err != nil {
		return err
	}
	fences := &s.all.Fences
	return fences.Observe(fences.Apart(func() error { return s.downloadScores(stream, v, first, layers, n, dst) }))
}

// downloadScores waits for n scores that were gathered.
func (s *Runs[B]) downloadScores(stream backend.Stream, v *Vector[B, float32], first, layers, n int, dst []float32) error {
	if older := s.In[0].settled(); len(s.In) == 1 && s.In[0].Gone == 0 && (older == s.Len() || older == 0) {
		return backend.Download(s.all.BE, stream, dst, v.Buf.Buf, 0)
	}
	v.Host = slices.Grow(v.Host[:0], n)[:n]
	err := backend.Download(s.all.BE, stream, v.Host, v.Buf.Buf, 0)
	parts := v.Host
	for l := first; l < first+layers; l++ {
		b, _ := s.Of(l)
		heads := b.Part.Config.Model.KVHeads
		b.spreadScores(dst[:heads*s.Len()], parts[:heads*b.Len])
		dst, parts = dst[heads*s.Len():], parts[heads*b.Len:]
	}
	return err
}

// spreadScores puts what gatherLayer gathered of a layer where its tokens are in the sequence.
func (s *Run[B]) spreadScores(dst, parts []float32) {
	older, n, total := s.settled(), s.Len, s.Total()
	sinks := min(s.Part.Rule.SinkBlocks()*s.Part.Rule.Block, n)
	if s.Gone == 0 {
		sinks = n
	}
	heads := s.Part.Config.Model.KVHeads
	row := make([]float32, n)
	for h := range heads {
		copy(row, parts[h*older:][:older])
		copy(row[older:], parts[heads*older+h*(n-older):][:n-older])
		to := dst[h*total:][:total]
		clear(to)
		copy(to, row[:sinks])
		copy(to[total-(n-sinks):], row[sinks:])
	}
}

// gatherLayer gathers a layer's scores [heads, settled], and those of the other tokens after them.
func (s *Run[B]) gatherLayer(stream backend.Stream, layer int, to backend.Opt[B], offset int) error {
	p, older := s.Part, s.settled()
	p.LockScores()
	defer p.UnlockScores()
	if older > 0 {
		l := &p.Kept.Layers[layer]
		err := p.BE.Gather(stream, backend.GatherParams[B]{Cache: l.View, Table: s.tables.blocks[0].Buf, Len: older,
			CacheScores: l.Scores, Scores: to, ScoresOffset: offset})
		if err != nil {
			return err
		}
	}
	if older == s.Len {
		return nil
	}
	l := &p.Written.Layers[layer]
	return p.BE.Gather(stream, backend.GatherParams[B]{Cache: l.View, Table: s.table(), Begin: older, Len: s.Len - older,
		CacheScores: l.Scores, Scores: to, ScoresOffset: offset + p.Config.Model.KVHeads*older})
}

// ClearScores sets the scores of the sequence's blocks to 0, in all layers.
func (s *Runs[B]) ClearScores(stream backend.Stream) error {
	if s.Len() == 0 {
		return nil
	}
	return s.work(stream, func() error {
		return s.rows(func(b *Run[B]) error { return b.clearScores(stream) })
	})
}

func (s *Run[B]) clearScores(stream backend.Stream) error {
	p := s.Part
	p.LockScores()
	defer p.UnlockScores()
	return s.each(func(st *Store[B], g *Segment) error { return s.clearBlocks(stream, st, g.Blocks) })
}

func (s *Run[B]) clearBlocks(stream backend.Stream, st *Store[B], blocks []block.Block) error {
	if len(blocks) == 0 {
		return nil
	}
	v, slots := &s.tables.slots, s.Part.Config.BlockTokens()
	v.Host = v.Host[:0]
	for _, b := range blocks {
		for i := range slots {
			v.Host = append(v.Host, st.Slot(b.ID, i))
		}
	}
	if err := v.Upload(s.Part.BE, stream); err != nil {
		return err
	}
	for i := range st.Layers {
		if err := s.Part.ClearScores(stream, &st.Layers[i], v.Buf.Buf, len(v.Host)); err != nil {
			return err
		}
	}
	return nil
}

// BringScores gives the written store the scores of the sequence's blocks that lie in the kept one, too, before its tokens move.
func (s *Run[B]) BringScores(stream backend.Stream) error {
	p := s.Part
	var pairs Vector[B, uint32]
	defer func() { pairs.Free(p.BE) }()
	for i := s.Written.From; i < min(len(s.Kept.Blocks), s.Written.End()); i++ {
		pairs.Host = append(pairs.Host, s.Kept.Blocks[i].ID, s.Written.At(i).ID)
	}
	if len(pairs.Host) == 0 {
		return nil
	}
	if err := pairs.Upload(p.BE, stream); err != nil {
		return err
	}
	return p.BringScores(stream, &pairs)
}
