package store

import "github.com/ferrumkv/ferrumkv/kvcache/internal/kind"

// What a part asks the kind of its layers: see package kind.

func (p *Part[B]) kind() (*kind.Row, kind.Numbers) {
	return kind.Of(p.Rule.Kind), kind.Numbers{Window: p.Rule.Window, Sinks: p.Rule.Sinks, Chunk: p.Rule.Chunk}
}

// keeps is what sequences keep in the part.
func (p *Part[B]) keeps() kind.Keeps { return kind.Of(p.Rule.Kind).Keeps }

// Slides reports whether sequences give up blocks in front as they grow.
func (p *Part[B]) Slides() bool { return p.keeps() == kind.Last }

// Piece is the tokens that steps lay out as a sequence of their own, such as those of a chunk; 0: all of a sequence.
func (p *Part[B]) Piece() int {
	k, n := p.kind()
	return k.Piece(n)
}

// MostTokens is the most tokens that a sequence has in the part, those of a step of that many included.
func (p *Part[B]) MostTokens(step int) int {
	r, most := &p.Rule, p.Config.Memory.Capacity
	if !p.Slides() {
		return most
	}
	k, n := p.kind()
	return min((r.SinkBlocks()+1)*r.Block+k.Most(n)+r.Back+step, most)
}
