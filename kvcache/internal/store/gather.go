package store

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Gather materialises what a layer has of the sequence as dense keys [heads, tokens, head dim] and values [heads, tokens,
// value head dim].
func (s *Runs[B]) Gather(stream backend.Stream, layer int, k, v B) error {
	b, l := s.Of(layer)
	return s.work(stream, func() error { return b.gather(stream, l, k, v) })
}

func (s *Run[B]) gather(stream backend.Stream, layer int, k, v B) error {
	p := s.Part
	if err := s.uploadTables(stream); err != nil {
		return err
	}
	if older := min(s.Written.From*p.Config.BlockTokens(), s.Len); older > 0 {
		return s.gatherBoth(stream, layer, older, k, v)
	}
	return p.BE.Gather(stream, backend.GatherParams[B]{
		Cache: p.Written.Layers[layer].View, Table: s.table(), Len: s.Len, K: backend.Some(k), V: backend.Some(v)})
}

// table is the block table of the store that steps write to, on the device.
func (s *Run[B]) table() backend.Opt[B] { return s.tables.blocks[len(s.Segments)-1].Buf }

// gatherBoth gathers the first tokens from the kept store and the others from the written one, and brings
// them together head by head.
func (s *Run[B]) gatherBoth(stream backend.Stream, layer, older int, k, v B) error {
	p, heads := s.Part, s.Part.Config.Model.KVHeads
	planes := [...]struct {
		to  B
		dim int
		tmp B
	}{{to: k, dim: p.Config.Model.HeadDim}, {to: v, dim: p.Config.Model.VHeadDim}}
	for i := range planes {
		pl := &planes[i]
		tmp, err := p.BE.Alloc(pl.to.DType(), heads*max(older, s.Len-older)*pl.dim)
		if err != nil {
			return err
		}
		pl.tmp = tmp
		defer func() { _ = p.BE.Free(tmp) }() // ours and live; the device waits as it must
	}
	for _, part := range [...]struct {
		st    *Store[B]
		table backend.Opt[B]
		at, n int
	}{{p.Kept, s.tables.blocks[0].Buf, 0, older}, {p.Written, s.table(), older, s.Len - older}} {
		if part.n == 0 {
			continue
		}
		err := p.BE.Gather(stream, backend.GatherParams[B]{Cache: part.st.Layers[layer].View, Table: part.table, Begin: part.at, Len: part.n,
			K: backend.Some(planes[0].tmp), V: backend.Some(planes[1].tmp)})
		for h := 0; h < heads && err == nil; h++ {
			for _, pl := range planes {
				err = cmp.Or(err, p.BE.Copy(stream, pl.to, (h*s.Len+part.at)*pl.dim, pl.tmp, h*part.n*pl.dim, part.n*pl.dim))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
