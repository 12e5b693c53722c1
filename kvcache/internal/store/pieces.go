package store

import (
	"iter"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Pieces are the blocks of a store as they lie in host memory, wherever they go or come from: tiers, a suspended sequence,
// a stream. What is below has them on disks: their bytes do not change, or the keys have to (docs/keys.md).
//
// A block is one piece after another, by token and then by head. A piece is one layer after another, and of a layer its planes, in
// the order of their roles: the rows of Heads heads and Tokens tokens, by head and then by token, and scales that all
// tokens of a piece share by head. In the paged layout a piece is a block of a kernel; in the contiguous one, whose blocks have room for whole
// sequences, it is some tokens of a head. Of states a piece is the next bytes of each layer's.
type Pieces struct {
	Set           backend.BlockSet // one block of which is a piece
	Layers        []snapshot.Layer // numbered as in the store, with the planes of all heads
	Begins        [][]int          // by layer and plane: where it begins in a piece
	Heads, Tokens int              // of a piece
	Bytes         int              // of a piece
	Each          int              // pieces of a block

	heads, kernel, block int // heads of a block, tokens of a kernel's block and of a block
	span                 int // from the number of a block's first piece to that of the next
	state                int // bytes; 0: there are rows
	free                 func()
}

// BlockBytes is what a block takes.
func (p *Pieces) BlockBytes() int64 { return int64(p.Each) * int64(p.Bytes) }

// perHead is the pieces of a head in a block of a kernel, perKernel those of the block.
func (p *Pieces) perHead() int   { return p.kernel / p.Tokens }
func (p *Pieces) perKernel() int { return p.perHead() * p.heads / p.Heads }

// Cut is some tokens of a piece: those from At on of the piece, which are from From on of what was asked for.
type Cut struct {
	Piece    int // of the block
	Head     int // the first of the piece
	At, From int
	Tokens   int
}

// Cuts are what tokens of a block, from one on, have of its pieces, in the order in which these lie. Of states all of them.
func (p *Pieces) Cuts(at, tokens int) iter.Seq[Cut] {
	return func(yield func(Cut) bool) {
		if p.state > 0 {
			for i := 0; i < p.Each && yield(Cut{Piece: i, Tokens: 1}); i++ {
			}
			return
		}
		for from := 0; from < tokens; {
			in := (at + from) % p.kernel
			c := Cut{At: in % p.Tokens, From: from}
			c.Tokens = min(p.Tokens-c.At, tokens-from)
			for ; c.Head < p.heads; c.Head += p.Heads {
				c.Piece = (at+from)/p.kernel*p.perKernel() + c.Head/p.Heads*p.perHead() + in/p.Tokens
				if !yield(c) {
					return
				}
			}
			from += c.Tokens
		}
	}
}

// Count is how many pieces the first tokens of a block have.
func (p *Pieces) Count(tokens int) int {
	if p.state > 0 {
		return p.Each
	}
	return (tokens + p.Tokens - 1) / p.Tokens * p.heads / p.Heads
}

// Offset is where a piece begins in blocks that lie one after another: the first that has a token of a block, which is the first of
// a piece; of states the first one.
func (p *Pieces) Offset(block uint32, at int) int {
	before := 0
	if p.state == 0 {
		before = p.Count(at)
	}
	return (int(block)*p.Each + before) * p.Bytes
}

// First is the first token of a piece in its block.
func (p *Pieces) First(piece int) int {
	return piece/p.perKernel()*p.kernel + piece%p.perHead()*p.Tokens
}

// Number is that which Set has for a piece of a block.
func (p *Pieces) Number(block uint32, piece int) uint32 { return uint32(int(block)*p.span + piece) }

// Numbers appends those of the pieces that have tokens of a block, from one on.
func (p *Pieces) Numbers(dst []uint32, block uint32, at, tokens int) []uint32 {
	for c := range p.Cuts(at, tokens) {
		dst = append(dst, p.Number(block, c.Piece))
	}
	return dst
}

// All appends the numbers of all pieces of a block.
func (p *Pieces) All(dst []uint32, block uint32) []uint32 {
	return p.Numbers(dst, block, 0, p.block)
}

// State is which bytes of a state are in a piece.
func (p *Pieces) State(piece int) (from, n int) {
	each := p.Bytes / len(p.Layers)
	return piece * each, min(each, p.state-piece*each)
}

// Wipe clears what lies after the states in the bytes of a block: what memory had before, of whoever used it.
func (p *Pieces) Wipe(bytes []byte) {
	if p.state == 0 {
		return
	}
	_, n := p.State(p.Each - 1)
	last := bytes[len(bytes)-p.Bytes:]
	for each := p.Bytes / len(p.Layers); len(last) > 0; last = last[each:] {
		clear(last[n:each])
	}
}

// Close lets go of what the copies need, after those under way.
func (p *Pieces) Close() error {
	err := p.Set.Close()
	p.free()
	return err
}
