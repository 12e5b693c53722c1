package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Pieces are rows of a store's blocks as they go to host memory together: of each layer keys, their scales, values, their scales,
// and the scores that are kept. A block of the set is the rows of Tokens tokens of Heads heads.
type Pieces struct {
	backend.BlockSet
	Layers        []snapshot.Layer // numbered as in the store
	Heads, Tokens int
	free          func()
}

// Close lets go of what the copies need, after those under way.
func (p *Pieces) Close() error {
	err := p.BlockSet.Close()
	p.free()
	return err
}

// BlockSet returns the store's blocks of a kernel as pieces. A block of the store is Each of them.
func (st *Store[B]) BlockSet(be backend.Backend[B]) (*Pieces, error) {
	v := &st.Layers[0].View
	return st.Pieces(be, v.KVHeads, v.BlockSize)
}

// Pieces returns the store's blocks as pieces: of all heads and all tokens of a kernel's block, or of one head, and so many of them that
// they make up the block's.
func (st *Store[B]) Pieces(be backend.Backend[B], heads, tokens int) (_ *Pieces, err error) {
	p := &Pieces{Heads: heads, Tokens: tokens}
	var planes []backend.BlockPlane[B]
	var views []B
	p.free = func() {
		for _, v := range views {
			_ = be.Free(v) // ours and live
		}
	}
	var of *snapshot.Layer
	add := func(b B, each int, role snapshot.Role, per snapshot.Per) {
		n := heads * each
		if per == snapshot.PerRow {
			n *= tokens
		}
		planes = append(planes, backend.BlockPlane[B]{Buf: b, Each: n})
		of.Planes = append(of.Planes, snapshot.Plane{Role: role, Per: per, Heads: heads, Bytes: each * b.DType().Bits() / 8})
	}
	for i := range st.Layers {
		l := &st.Layers[i]
		v := &l.View
		p.Layers = append(p.Layers, snapshot.Layer{Number: i})
		of = &p.Layers[i]
		for j, pl := range []backend.Plane[B]{v.K, v.V} {
			if pl.Data.DType() == backend.Invalid { // values that are parts of the keys
				continue
			}
			role := snapshot.Role(2 * j) // keys, values
			add(pl.Data, pl.Dim, role, snapshot.PerRow)
			dt := pl.Data.DType()
			scale, n, _ := dt.Scales(1, v.KVHeads, v.BlockSize, pl.Dim)
			if n == 0 || dt.Coding().Scope == backend.ByHead { // or they are the configuration's
				continue
			}
			scales := pl.Scales.Buf
			if head := dt.HeadWords(v.KVHeads); head > 0 {
				if scales, err = be.SubBuffer(scales, int64(head*scale.Bits()/8), scale, scales.Len()-head); err != nil {
					p.free()
					return nil, err
				}
				views = append(views, scales)
			}
			if dt.Coding().Scope == backend.ByChannel {
				add(scales, pl.Dim, role+1, snapshot.PerChunk)
			} else {
				add(scales, dt.ScaleWords(pl.Dim), role+1, snapshot.PerRow)
			}
		}
		if l.Scores.Set {
			add(l.Scores.Buf, 1, snapshot.Scores, snapshot.PerRow)
		}
	}
	if p.BlockSet, err = backend.NewBlockSet(be, planes); err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// Each is how many blocks of a kernel, or of a BlockSet, make one block.
func (st *Store[B]) Each() int { return st.each }
