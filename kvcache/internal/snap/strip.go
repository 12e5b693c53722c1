// Package snap moves what sequences have between a pool, in whichever layout, and a stream of package snapshot.
package snap

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

const (
	// memoryBytes is what is packed or unpacked at a time: copies run at their rate, and little is held.
	memoryBytes = 4 << 20
	// spared is of how many blocks that others could take one is taken meanwhile for states before last tokens, which nobody needs.
	spared = 4
	// chunkBytes is about what a chunk has in the contiguous layout, which knows no blocks.
	chunkBytes = 256 << 10
)

// strip is one of a pool, and where its rows lie.
type strip[B backend.Buffer] struct {
	snapshot.Strip
	part, layer int // of the pool, and the first that it has of the part
	store       int // of the part
	stores      *store.Part[B]
	of          *store.Store[B]
	pieces      *store.Pieces
}

// strips are those of a pool. closeStrips lets go of them.
func strips[B backend.Buffer](parts *store.Parts[B]) (all []*strip[B], err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeStrips(all))
		}
	}()
	for i, st := range parts.All {
		s := strip[B]{part: i, stores: st, of: st.Kept}
		s.Group = parts.Config.Parts()[i].Of + 1
		if st.States != nil { // one for each layer: states are long
			s.Kind = snapshot.State
			for s.layer = range st.Model {
				pieces, err := st.StatePieces(s.layer, 1)
				if err != nil {
					return all, err
				}
				all = append(all, s.with(pieces))
			}
			continue
		}
		for s.store, s.of = range st.Stores {
			pieces, err := st.Pieces(s.of)
			if err != nil {
				return all, err
			}
			all = append(all, s.with(pieces))
			s.Kind = snapshot.Computed
		}
	}
	return all, nil
}

// with is the strip of pieces.
func (s strip[B]) with(p *store.Pieces) *strip[B] {
	s.pieces, s.Keeps, s.Tokens = p, uint8(s.stores.Rule.Kind), 1
	if s.Kind != snapshot.State {
		all := p.Bytes * p.Count(p.Tokens) // of all heads
		s.Tokens = min(p.Tokens*max(chunkBytes/all, 1), s.stores.Config.KernelTokens())
	}
	for _, l := range p.Layers {
		s.Layers = append(s.Layers, snapshot.Layer{Number: s.stores.Model[l.Number], Planes: l.Planes})
	}
	return &s
}

func closeStrips[B backend.Buffer](all []*strip[B]) (err error) {
	for _, s := range all {
		err = errors.Join(err, s.pieces.Close())
	}
	return err
}

// plane is one in a chunk of a strip and in the pieces of another one, which may be the same.
type plane struct {
	rows, fixed int // bytes before it in a chunk: of a token, and besides
	begin       int // in a piece
	per         snapshot.Per
	bytes       int // of a head's
}

// bytes is what a plane has of a piece.
func (s *strip[B]) bytes(p *plane) int {
	switch p.per {
	case snapshot.PerRow:
		return p.bytes * s.pieces.Heads * s.pieces.Tokens
	case snapshot.PerChunk:
		return p.bytes * s.pieces.Heads
	default: // the last piece of a state may have room after it
		return 0
	}
}

// planes are those of a strip's own chunks in pieces, which may have other layers of the part, too.
func (s *strip[B]) planes(in *store.Pieces) []plane {
	first := s.layer - in.Layers[0].Number
	return between(&s.Strip, func(l, p int) (int, bool) { return in.Begins[first+l][p], true })
}

// between are the planes of a chunk of a strip that begin says are in a piece, and where.
func between(of *snapshot.Strip, begin func(layer, plane int) (int, bool)) (all []plane) {
	rows, fixed := 0, 0
	for l := range of.Layers {
		for i := range of.Layers[l].Planes {
			p := &of.Layers[l].Planes[i]
			if at, is := begin(l, i); is {
				all = append(all, plane{rows, fixed, at, p.Per, p.Bytes})
			}
			if p.Per == snapshot.PerRow {
				rows += p.Heads * p.Bytes
			} else {
				fixed += p.Heads * p.Bytes
			}
		}
	}
	return all
}

// copyRows copies a cut between a chunk of so many tokens, from one on, and a piece.
func (s *strip[B]) copyRows(planes []plane, c store.Cut, chunk []byte, tokens, from int, piece []byte, into bool) {
	move := func(in, out, n int) {
		if into {
			copy(piece[out:out+n], chunk[in:])
		} else {
			copy(chunk[in:in+n], piece[out:])
		}
	}
	for i := range planes {
		p := &planes[i]
		if p.per == snapshot.PerLayer {
			at, n := s.pieces.State(c.Piece)
			move(p.fixed+at, p.begin, n)
			continue
		}
		base := p.fixed + tokens*p.rows
		for h := range s.pieces.Heads {
			if p.per == snapshot.PerChunk {
				move(base+(c.Head+h)*p.bytes, p.begin+h*p.bytes, p.bytes)
			} else {
				move(base+((c.Head+h)*tokens+from+c.From)*p.bytes, p.begin+(h*s.pieces.Tokens+c.At)*p.bytes, c.Tokens*p.bytes)
			}
		}
	}
}
