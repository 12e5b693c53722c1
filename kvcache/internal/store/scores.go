package store

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Scores of tokens are f32 [KV heads] in each layer, in the slots of the store that has them: of a block in
// both stores, the kept one. What another stream adds meanwhile to a block whose scores are copied may be lost.

// settled is the number of leading tokens that have their scores in the kept store.
func (s *Body[B]) settled() int {
	return min(len(s.Kept.Blocks)*s.Stores.Config.BlockTokens(), s.Len)
}

// ReadScores brings the scores of layers from first on together, a launch for each layer and store, and waits for
// them: dst is [layers, KV heads, Len].
func (s *Body[B]) ReadScores(stream backend.Stream, first, layers int, dst []float32) error {
	each := s.Stores.Config.Model.KVHeads * s.Len
	err := s.work(stream, func() error {
		if err := s.Tables.Scores.Fit(s.Stores.BE, layers*each); err != nil {
			return err
		}
		if err := s.uploadTables(stream); err != nil {
			return err
		}
		s.Stores.LockScores()
		defer s.Stores.UnlockScores()
		for i := range layers {
			if err := s.gatherLayer(stream, first+i, i*each); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fences := &s.Stores.Fences
	return fences.Observe(fences.Apart(func() error { return s.download(stream, dst) }))
}

// gatherLayer gathers a layer's scores [heads, settled], and those of the other tokens after them.
func (s *Body[B]) gatherLayer(stream backend.Stream, layer, offset int) error {
	p, older := s.Stores, s.settled()
	if older > 0 {
		l := &p.Kept.Layers[layer]
		err := p.BE.Gather(stream, backend.GatherParams[B]{Cache: l.View, Table: s.Tables.Blocks.Buf, Len: older,
			CacheScores: l.Scores, Scores: s.Tables.Scores.Buf, ScoresOffset: offset})
		if err != nil {
			return err
		}
	}
	if older == s.Len {
		return nil
	}
	l := &p.Fresh.Layers[layer]
	return p.BE.Gather(stream, backend.GatherParams[B]{Cache: l.View, Table: s.freshTable(), Begin: older, Len: s.Len - older,
		CacheScores: l.Scores, Scores: s.Tables.Scores.Buf, ScoresOffset: offset + p.Config.Model.KVHeads*older})
}

// download waits for the scores that were gathered.
func (s *Body[B]) download(stream backend.Stream, dst []float32) error {
	be, v, older, n := s.Stores.BE, &s.Tables.Scores, s.settled(), s.Len
	if older == n || older == 0 {
		return backend.Download(be, stream, dst, v.Buf.Buf, 0)
	}
	v.Host = slices.Grow(v.Host[:0], len(dst))[:len(dst)]
	err := backend.Download(be, stream, v.Host, v.Buf.Buf, 0)
	heads, parts := s.Stores.Config.Model.KVHeads, v.Host
	for ; len(dst) > 0; dst, parts = dst[heads*n:], parts[heads*n:] {
		for h := range heads {
			copy(dst[h*n:][:older], parts[h*older:])
			copy(dst[h*n+older:][:n-older], parts[heads*older+h*(n-older):])
		}
	}
	return err
}

// ClearScores sets the scores of the sequence's blocks to 0, in all layers.
func (s *Body[B]) ClearScores(stream backend.Stream) error {
	p := s.Stores
	if s.Len == 0 {
		return nil
	}
	return s.work(stream, func() error {
		p.LockScores()
		defer p.UnlockScores()
		if err := s.clearBlocks(stream, p.Kept, s.Kept.Blocks); err != nil {
			return err
		}
		return s.clearBlocks(stream, p.Fresh, s.Recent.Blocks)
	})
}

func (s *Body[B]) clearBlocks(stream backend.Stream, st *Store[B], blocks []block.Block) error {
	if len(blocks) == 0 {
		return nil
	}
	v, slots := &s.Tables.Slots, int64(s.Stores.Config.BlockTokens())
	v.Host = v.Host[:0]
	for _, b := range blocks {
		for i := range slots {
			v.Host = append(v.Host, int64(b.ID)*slots+i)
		}
	}
	if err := v.Upload(s.Stores.BE, stream); err != nil {
		return err
	}
	for i := range st.Layers {
		if err := s.Stores.ClearScores(stream, &st.Layers[i], v.Buf.Buf, len(v.Host)); err != nil {
			return err
		}
	}
	return nil
}

// BringScores gives the fresh store the scores of the sequence's blocks that lie in both, before its tokens move.
func (s *Body[B]) BringScores(stream backend.Stream) error {
	p := s.Stores
	var pairs Vector[B, uint32]
	defer func() { pairs.Free(p.BE) }()
	for i := s.Recent.Gone; i < min(len(s.Kept.Blocks), s.Recent.End()); i++ {
		pairs.Host = append(pairs.Host, s.Kept.Blocks[i].ID, s.Recent.Blocks[i-s.Recent.Gone].ID)
	}
	if len(pairs.Host) == 0 {
		return nil
	}
	if err := pairs.Upload(p.BE, stream); err != nil {
		return err
	}
	p.LockScores()
	defer p.UnlockScores()
	for l := range p.Fresh.Layers {
		if err := p.CopyScores(stream, &p.Kept.Layers[l], &p.Fresh.Layers[l], &pairs); err != nil {
			return err
		}
	}
	return nil
}
