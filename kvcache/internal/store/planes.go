package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

const (
	// headTokens is the most tokens of a piece that has one head.
	headTokens = 64
	// mostPieces is the most pieces of a state: so much smaller than a piece is what lies after it.
	mostPieces = 64
)

func (p rows[B]) pieces(of *Store[B]) (*Pieces, error) {
	c := &p.Config
	b := newPlanes(p.BE, Pieces{heads: c.Model.KVHeads, kernel: c.KernelTokens(), block: c.BlockTokens()})
	b.Heads, b.Tokens = b.heads, b.kernel
	if c.Memory.Layout == config.Contiguous {
		b.Heads = 1
		for b.Tokens = min(headTokens, b.kernel); b.kernel%b.Tokens != 0; {
			b.Tokens--
		}
	}
	b.Each, b.span = of.each*b.perKernel(), of.stride*b.perKernel()
	for i := range of.Layers {
		l := &of.Layers[i]
		b.layer(i)
		if err := b.rows(snapshot.Keys, &l.View.K); err != nil {
			return nil, b.failed(err)
		}
		if err := b.rows(snapshot.Values, &l.View.V); err != nil {
			return nil, b.failed(err)
		}
		if l.Scores.Set {
			b.add(l.Scores.Buf, 1, snapshot.Scores, snapshot.PerRow)
		}
	}
	return b.made()
}

// StatePieces returns those of n of the part's states, from a layer on. States are shorter than the places of blocks, so pieces are a
// fraction of these.
func (p *Part[B]) StatePieces(layer, n int) (*Pieces, error) {
	t := p.States
	piece := t.Stride
	for piece%8 == 0 && (t.Bytes+piece/2-1)/(piece/2) <= mostPieces {
		piece /= 2
	}
	b := newPlanes(p.BE, Pieces{Heads: 1, Tokens: 1, Each: (t.Bytes + piece - 1) / piece, block: 1, span: t.Stride / piece, state: t.Bytes})
	for i, mem := range t.Layers[layer:][:n] {
		words := t.Stride / 4
		view, err := b.view(mem, 0, backend.U32, mem.Len()/words*words)
		if err != nil {
			return nil, b.failed(err)
		}
		b.layer(layer + i)
		b.plane(view, piece/4, snapshot.Plane{Role: snapshot.States, Per: snapshot.PerLayer, Heads: 1, Bytes: t.Bytes})
	}
	return b.made()
}

// planes are those of pieces that are made.
type planes[B backend.Buffer] struct {
	*Pieces
	be    backend.Backend[B]
	all   []backend.BlockPlane[B]
	views []B
}

func newPlanes[B backend.Buffer](be backend.Backend[B], p Pieces) *planes[B] {
	b := &planes[B]{Pieces: &p, be: be}
	p.free = func() {
		for _, v := range b.views {
			_ = be.Free(v) // ours and live
		}
	}
	return b
}

// layer begins the next one.
func (b *planes[B]) layer(number int) {
	b.Layers, b.Begins = append(b.Layers, snapshot.Layer{Number: number}), append(b.Begins, nil)
}

// plane adds one to the layer: each elements of a buffer for a piece.
func (b *planes[B]) plane(buf B, each int, as snapshot.Plane) {
	i := len(b.Layers) - 1
	b.Layers[i].Planes, b.Begins[i] = append(b.Layers[i].Planes, as), append(b.Begins[i], b.Bytes)
	b.all = append(b.all, backend.BlockPlane[B]{Buf: buf, Each: each})
	b.Bytes += each * buf.DType().Bits() / 8
}

// add is plane of each elements for each head and, by row, token.
func (b *planes[B]) add(buf B, each int, role snapshot.Role, per snapshot.Per) {
	n := b.Heads * each
	if per == snapshot.PerRow {
		n *= b.Tokens
	}
	b.plane(buf, n, snapshot.Plane{Role: role, Per: per, Heads: b.heads, Bytes: each * buf.DType().Bits() / 8})
}

// rows adds keys or values, and their scales, which have the next role.
func (b *planes[B]) rows(role snapshot.Role, of *backend.Plane[B]) error {
	dt := of.Data.DType()
	if dt == backend.Invalid { // values that are parts of the keys
		return nil
	}
	b.add(of.Data, of.Dim, role, snapshot.PerRow)
	scale, n, _ := dt.Scales(1, b.heads, b.kernel, of.Dim)
	if n == 0 || dt.Coding().Scope == backend.ByHead { // or they are the configuration's
		return nil
	}
	scales := of.Scales.Buf
	if head := dt.HeadWords(b.heads); head > 0 {
		var err error
		if scales, err = b.view(scales, int64(head*scale.Bits()/8), scale, scales.Len()-head); err != nil {
			return err
		}
	}
	if dt.Coding().Scope == backend.ByChannel {
		b.add(scales, of.Dim, role+1, snapshot.PerChunk)
	} else {
		b.add(scales, dt.ScaleWords(of.Dim), role+1, snapshot.PerRow)
	}
	return nil
}

// view is a part of a buffer, for as long as there are pieces.
func (b *planes[B]) view(of B, offset int64, dt backend.DType, n int) (B, error) {
	v, err := b.be.SubBuffer(of, offset, dt, n)
	if err == nil {
		b.views = append(b.views, v)
	}
	return v, err
}

func (b *planes[B]) made() (_ *Pieces, err error) {
	if b.Set, err = backend.NewBlockSet(b.be, b.all); err != nil {
		return nil, b.failed(err)
	}
	return b.Pieces, nil
}

func (b *planes[B]) failed(err error) error {
	b.free()
	return err
}
