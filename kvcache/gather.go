package kvcache

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Gather materialises a layer as dense keys [heads, Len, head dim] and values
// [heads, Len, value head dim], in the storage type or in f32, quantized ones in f32. The buffers are
// the caller's and may be longer than needed. With Config.Residual they are f32, and the tokens that
// are still there as they were computed come so.
func (s *Sequence[B]) Gather(stream backend.Stream, layer int, k, v B) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle("gather"); err != nil {
		return err
	}
	if err := p.checkLayer("gather", layer); err != nil {
		return err
	}
	if err := s.syncTable(stream); err != nil {
		return err
	}
	var err error
	if older := min(s.recent.gone*p.cfg.slots(), s.len); p.windowed() && older > 0 {
		err = s.gatherBoth(stream, layer, older, k, v)
	} else {
		err = p.be.Gather(stream, backend.GatherParams[B]{
			Cache: p.fresh.layers[layer].view, Table: s.freshTable(), Len: s.len, K: backend.Some(k), V: backend.Some(v)})
	}
	if err != nil {
		return errors.Join(p.fences.Observe(err), s.touched(stream))
	}
	return s.touched(stream)
}

// freshTable is the block table of the store that steps write to, on the device.
func (s *Sequence[B]) freshTable() backend.Opt[B] {
	if s.pool.windowed() {
		return s.table.recent.buf
	}
	return s.table.blocks.buf
}

// gatherBoth gathers the first tokens from the kept store and the others from the fresh one, and brings
// them together head by head.
func (s *Sequence[B]) gatherBoth(stream backend.Stream, layer, older int, k, v B) error {
	p, heads := s.pool, s.pool.cfg.KVHeads
	planes := [...]struct {
		to  B
		dim int
		tmp B
	}{{to: k, dim: p.cfg.HeadDim}, {to: v, dim: p.cfg.VHeadDim}}
	for i := range planes {
		pl := &planes[i]
		tmp, err := p.be.Alloc(pl.to.DType(), heads*max(older, s.len-older)*pl.dim)
		if err != nil {
			return err
		}
		pl.tmp = tmp
		defer func() { _ = p.be.Free(tmp) }() // ours and live; the device waits as it must
	}
	for _, part := range [...]struct {
		st    *store[B]
		table backend.Opt[B]
		at, n int
	}{{p.kept, s.table.blocks.buf, 0, older}, {p.fresh, s.table.recent.buf, older, s.len - older}} {
		if part.n == 0 {
			continue
		}
		err := p.be.Gather(stream, backend.GatherParams[B]{Cache: part.st.layers[layer].view, Table: part.table, Len: part.n,
			K: backend.Some(planes[0].tmp), V: backend.Some(planes[1].tmp)})
		for h := 0; h < heads && err == nil; h++ {
			for _, pl := range planes {
				err = firstOf(err, p.be.Copy(stream, pl.to, (h*s.len+part.at)*pl.dim, pl.tmp, h*part.n*pl.dim, part.n*pl.dim))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
