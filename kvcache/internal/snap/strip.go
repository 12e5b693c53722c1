// Package snap moves what sequences have between a pool, in whichever layout, and a stream of package snapshot.
package snap

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

const (
	// memoryBytes is what is packed or unpacked at a time: copies run at their rate, and little is held.
	memoryBytes = 4 << 20
	// chunkBytes is about what a chunk has in the contiguous layout, which knows no blocks.
	chunkBytes = 256 << 10
	// headTokens is the most tokens of a piece there, which has one head.
	headTokens = 64
)

// strip is one of a pool, and where its rows lie.
type strip[B backend.Buffer] struct {
	snapshot.Strip
	part   int
	stores *store.Stores[B]
	of     *store.Store[B]
	pieces *store.Pieces
	begins [][]int // by layer and plane: where it begins in a piece
	bytes  int     // of a piece
	heads  int
	kernel int // tokens of a block of a kernel
}

// strips are those of a pool. close lets go of them.
func strips[B backend.Buffer](parts *store.Parts[B]) (all []*strip[B], err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeStrips(all))
		}
	}()
	for i, st := range parts.All {
		group := 0
		if parts.Config.Grouped() {
			group = parts.Config.Parts()[i].Of + 1
		}
		if st.States != nil {
			for l := range st.Model {
				s, err := stateStrip(parts.BE, st, l)
				if err != nil {
					return all, err
				}
				s.part, s.Group = i, group
				all = append(all, s)
			}
			continue
		}
		kinds := []snapshot.Kind{snapshot.Stored}
		if st.Windowed() {
			kinds = append(kinds, snapshot.Computed)
		}
		for _, kind := range kinds {
			s, err := rowStrip(parts.BE, st, kind)
			if err != nil {
				return all, err
			}
			s.part, s.Group = i, group
			all = append(all, s)
		}
	}
	return all, nil
}

func closeStrips[B backend.Buffer](all []*strip[B]) (err error) {
	for _, s := range all {
		err = errors.Join(err, s.pieces.Close())
	}
	return err
}

func stateStrip[B backend.Buffer](be backend.Backend[B], st *store.Stores[B], layer int) (*strip[B], error) {
	pieces, bytes, err := st.StatePieces(be, layer)
	if err != nil {
		return nil, err
	}
	s := &strip[B]{stores: st, of: st.Kept, pieces: pieces, heads: 1, kernel: 1, bytes: int(pieces.BlockBytes()), begins: [][]int{{0}}}
	s.Kind, s.Keeps, s.Tokens = snapshot.State, uint8(st.Rule.Kind), 1
	s.Layers = []snapshot.Layer{{Number: st.Model[layer], Planes: []snapshot.Plane{{Role: snapshot.States, Per: snapshot.PerLayer, Heads: 1, Bytes: bytes}}}}
	return s, nil
}

func rowStrip[B backend.Buffer](be backend.Backend[B], st *store.Stores[B], kind snapshot.Kind) (_ *strip[B], err error) {
	c := &st.Config
	s := &strip[B]{stores: st, of: st.Kept, heads: c.Model.KVHeads, kernel: c.KernelTokens()}
	if kind == snapshot.Computed {
		s.of = st.Fresh
	}
	heads, tokens := s.heads, s.kernel
	if c.Memory.Layout == config.Contiguous {
		for heads, tokens = 1, 1; tokens < headTokens && s.kernel%(2*tokens) == 0; {
			tokens *= 2
		}
	}
	if s.pieces, err = s.of.Pieces(be, heads, tokens); err != nil {
		return nil, err
	}
	s.Kind, s.Keeps, s.Tokens = kind, uint8(st.Rule.Kind), s.kernel
	for i, l := range s.pieces.Layers {
		own := snapshot.Layer{Number: st.Model[i]}
		var begins []int
		for _, p := range l.Planes {
			begins = append(begins, s.bytes)
			s.bytes += int(p.Size(tokens))
			p.Heads = s.heads
			own.Planes = append(own.Planes, p)
		}
		s.Layers, s.begins = append(s.Layers, own), append(s.begins, begins)
	}
	if heads < s.heads || tokens < s.kernel {
		s.Tokens = min(tokens*max(chunkBytes/(s.bytes*s.heads/heads), 1), s.kernel)
	}
	return s, nil
}

// perHead is the pieces of a head in a block of a kernel, perKernel those of the block.
func (s *strip[B]) perHead() int   { return s.kernel / s.pieces.Tokens }
func (s *strip[B]) perKernel() int { return s.perHead() * s.heads / s.pieces.Heads }

// number is what the set has for a piece of a block.
func (s *strip[B]) number(block uint32, piece int) uint32 {
	return uint32(int(block)*s.of.Stride()*s.perKernel() + piece)
}

// cut is some tokens of a piece: those from one on of the piece, which are from one on of what is copied.
type cut struct {
	piece    int // of the block
	head     int // the first of the piece
	at, from int
	tokens   int
}

// cuts yields what tokens of a block, from one on, are in its pieces.
func (s *strip[B]) cuts(at, tokens int, yield func(cut)) {
	if s.Kind == snapshot.State {
		yield(cut{tokens: 1})
		return
	}
	for from := 0; from < tokens; {
		in := (at + from) % s.kernel
		c := cut{at: in % s.pieces.Tokens, from: from}
		c.tokens = min(s.pieces.Tokens-c.at, tokens-from)
		for ; c.head < s.heads; c.head += s.pieces.Heads {
			c.piece = (at+from)/s.kernel*s.perKernel() + c.head/s.pieces.Heads*s.perHead() + in/s.pieces.Tokens
			yield(c)
		}
		from += c.tokens
	}
}

// plane is one in a chunk of a strip and in the pieces of another one, which may be the same.
type plane struct {
	rows, fixed int // bytes before it in a chunk: of a token, and besides
	begin       int // in a piece
	per         snapshot.Per
	heads       int
	bytes       int
}

// planes are those of a strip's own chunks.
func (s *strip[B]) planes() (all []plane) {
	return between(&s.Strip, func(l, p int) (int, bool) { return s.begins[l][p], true })
}

// between are the planes of a chunk of a strip that begin says are in a piece, and where.
func between(of *snapshot.Strip, begin func(layer, plane int) (int, bool)) (all []plane) {
	rows, fixed := 0, 0
	for l := range of.Layers {
		for i := range of.Layers[l].Planes {
			p := &of.Layers[l].Planes[i]
			if at, is := begin(l, i); is {
				all = append(all, plane{rows, fixed, at, p.Per, p.Heads, p.Bytes})
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
func (s *strip[B]) copyRows(planes []plane, c cut, chunk []byte, tokens, from int, piece []byte, into bool) {
	move := func(in, out, n int) {
		if into {
			copy(piece[out:out+n], chunk[in:])
		} else {
			copy(chunk[in:in+n], piece[out:])
		}
	}
	for i := range planes {
		p := &planes[i]
		base := p.fixed + tokens*p.rows
		if p.per == snapshot.PerLayer {
			move(p.fixed, p.begin, p.bytes)
			continue
		}
		for h := range s.pieces.Heads {
			if p.per == snapshot.PerChunk {
				move(base+(c.head+h)*p.bytes, p.begin+h*p.bytes, p.bytes)
			} else {
				move(base+((c.head+h)*tokens+from+c.from)*p.bytes, p.begin+(h*s.pieces.Tokens+c.at)*p.bytes, c.tokens*p.bytes)
			}
		}
	}
}
