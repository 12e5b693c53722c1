package plan

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Visibility is which keys a query may see: the part of a mask that a plan
// depends on.
type Visibility struct {
	NonCausal          bool
	Part               backend.Part
	Window, SinkTokens int
	Residual, Block    int // 0 where Part is all keys
	Chunk              int
}

// Visible is a mask's visibility over blocks of that many slots, in numbers that the work of a plan
// can hold: no context is longer than a U32. The mask was checked.
func Visible[B backend.Buffer](m *backend.Mask[B], block int) Visibility {
	return visible(m.NonCausal, m.Window, m.SinkTokens, m.Chunk, m.Part, m.Residual, block)
}

// Planned is the visibility that a shape, which was checked, asks a plan for.
func Planned(s *backend.AttendShape) Visibility {
	return visible(s.NonCausal, s.Window, s.SinkTokens, s.Chunk, s.Part, s.Residual, s.BlockSize)
}

func visible(nonCausal bool, window, sinkTokens, chunk int, part backend.Part, recent, block int) Visibility {
	v := Visibility{NonCausal: nonCausal, Window: bounded32(window), SinkTokens: bounded32(sinkTokens), Chunk: bounded32(chunk)}
	if part != backend.AllKeys {
		v.Part, v.Residual, v.Block = part, bounded32(recent), bounded32(block)
	}
	return v
}

// bounded32 is n, which is not negative, or the largest U32.
func bounded32(n int) int { return int(min(uint64(n), math.MaxUint32)) }

// VisibleWords is how many words the work of a plan has for its visibility.
const VisibleWords = 5

// inChunks marks, beside the part, that the word of the window is a chunk: a mask has one of them only.
const inChunks = 1 << 8

// Words is what the work of a plan says of v; a causal mask or none is part of fingerprints.
func (v *Visibility) Words() [VisibleWords]uint32 {
	words := [...]uint32{uint32(v.Window), uint32(v.SinkTokens), uint32(v.Part), uint32(v.Residual), uint32(v.Block)}
	if v.Chunk > 0 {
		words[0], words[2] = uint32(v.Chunk), words[2]|inChunks
	}
	return words
}

// Within says what a plan, by its words, has not that v shows. It serves the same part of the
// keys only, and there windows and sink tokens that are not wider, or the same chunks; one without
// a window and chunks serves all.
func (v *Visibility) Within(words []uint32) error {
	window, sinks, chunks, planned := int(words[0]), int(words[1]), words[2]&inChunks != 0, words[2]&^uint32(inChunks)
	if uint32(v.Part) != planned || uint32(v.Residual) != words[3] || uint32(v.Block) != words[4] {
		return fmt.Errorf("mask: part %d by %d recent tokens in blocks of %d, the plan was made for %d by %d in blocks of %d",
			v.Part, v.Residual, v.Block, planned, words[3], words[4])
	}
	switch {
	case chunks && v.Chunk != window:
		return fmt.Errorf("mask: chunks of %d, the plan was made for chunks of %d", v.Chunk, window)
	case !chunks && window != 0 && (v.Window == 0 || v.Window > window || v.SinkTokens > sinks):
		return fmt.Errorf("mask: window %d and %d sink tokens, the plan was made for %d and %d", v.Window, v.SinkTokens, window, sinks)
	}
	return nil
}

// Of is what queries [q0, q1) of n see together in a context of ctx tokens, the queries' own
// included, where they have no views and the mask is causal or shows all (see Places): each key is seen by one of them, or, with OlderKeys, one in its block is. A query
// before the first token sees nothing.
func (v *Visibility) Of(ctx, n, q0, q1 int) Keys {
	if v.NonCausal {
		return Keys{Hi: ctx}
	}
	k := Keys{Hi: min(max(ctx-n+q1, 0), ctx)}
	if v.Window > 0 && v.Window < ctx {
		k.Lo = min(max(ctx-n+q0-v.Window+1, 0), k.Hi)
		k.Sinks = min(v.SinkTokens, k.Lo)
	}
	if v.Part == backend.AllKeys {
		return k
	}
	return v.part(k, ctx-n+q0, ctx-n+q1-1)
}

// part is what of k the queries from position first to last see of the one part.
func (v *Visibility) part(k Keys, first, last int) Keys {
	if v.Part == backend.OlderKeys {
		v.older(&k, v.Edge(last))
	} else {
		k.after(v.Edge(first))
	}
	return k
}

// Edge is where the recent keys of a query at a position begin.
func (v *Visibility) Edge(position int) int {
	before := max(position+1-v.Residual, 0)
	return before - before%v.Block
}

// older leaves k the keys before the edge of the last query. A window that is no longer than what
// is recent shows none of them but sink tokens, however far apart the queries are.
func (v *Visibility) older(k *Keys, edge int) {
	k.Hi = min(k.Hi, edge)
	if v.Window > 0 && (v.Window <= v.Residual || k.Lo >= k.Hi) {
		k.Hi = min(v.SinkTokens, k.Hi)
		k.Sinks, k.Lo = k.Hi, k.Hi
	}
}
