package snapshot

import (
	"math"
	"math/bits"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Head is what a stream has before its chunks.
type Head struct {
	Content   string // see config.Config.Content
	Scopes    []prefix.Scope
	Strips    []Strip
	Sequences []Sequence
	Notes     []Note
}

// Kind is what the chunks of a strip hold.
type Kind uint8

const (
	Stored   Kind = iota // rows as they are stored
	Computed             // rows of the newest tokens as they were computed
	State                // states
)

func (k Kind) String() string { return [...]string{"stored", "computed", "state"}[min(k, State)] }

// Strip is layers whose rows of some tokens lie together.
type Strip struct {
	Kind   Kind
	Keeps  uint8 // a group.Kind
	Group  int   // number in Model.Groups, plus 1; 0: there are none
	Tokens int   // the most that a chunk has
	Layers []Layer
}

// Layer is the planes of one of them.
type Layer struct {
	Number int // in the model
	Planes []Plane
}

// Role is what a plane has.
type Role uint8

const (
	Keys Role = iota
	KeyScales
	Values
	ValueScales
	Scores
	States
)

func (r Role) String() string {
	return [...]string{"keys", "key scales", "values", "value scales", "scores", "state"}[min(r, States)]
}

// Per says whose a piece of a plane is.
type Per uint8

const (
	PerRow   Per = iota // a head of a token
	PerChunk            // a head, for all tokens of a chunk
	PerLayer            // the layer
)

// Plane is pieces of the same length.
type Plane struct {
	Role  Role
	Per   Per
	Heads int
	Bytes int // of a piece
}

// Size is the bytes of a plane in a chunk of so many tokens; the largest number where that is too much to count.
func (p *Plane) Size(tokens int) uint64 {
	n := mul(uint64(p.Heads), uint64(p.Bytes))
	if p.Per == PerRow {
		n = mul(n, uint64(tokens))
	}
	return n
}

// Size is the bytes of a chunk of so many tokens.
func (s *Strip) Size(tokens int) (n uint64) {
	for i := range s.Layers {
		for j := range s.Layers[i].Planes {
			var carry uint64
			if n, carry = bits.Add64(n, s.Layers[i].Planes[j].Size(tokens), 0); carry > 0 {
				return math.MaxUint64
			}
		}
	}
	return n
}

func mul(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

// Sequence is one of them.
type Sequence struct {
	Scope     int
	Silent    bool // nothing of it may be found by others
	Private   bool // it computes what others have, too
	Fidelity  prefix.Fidelity
	Len       int // tokens
	Next      int // position of the next token
	Draft     int // last tokens that may be rejected
	Prompt    int // tokens of its prompt while some are left to compute
	Items     []prefix.Item
	Spans     []prefix.Span
	Tokens    []uint32 // its own and the rest of its prompt; none: not known
	Positions [][]int  // none: token i is at position i
	Strips    [][]Run  // of each
}

// Run is tokens of a sequence that a strip has.
type Run struct {
	First int // token
	Refs  []Ref
}

// Tokens is how many a run has.
func (r *Run) Tokens() (n int) {
	for _, ref := range r.Refs {
		n += ref.Tokens
	}
	return n
}

// Ref is the first tokens of a chunk. Those that a sequence and all before it refer to are 0 to n−1, in whichever order, and Writer.Chunk
// writes them in the order of their numbers.
type Ref struct{ Chunk, Tokens int }

// Note is what a program adds to a stream.
type Note struct {
	Name string
	Data []byte
}
