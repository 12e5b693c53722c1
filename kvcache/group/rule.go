package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Kind says what the layers of a group read of a sequence's earlier tokens.
type Kind uint8

const (
	Full    Kind = iota // all of them
	Window              // the last ones, and the first ones where they are attention sinks
	Chunked             // those of the current chunk
	State               // a state that is computed from all of them, of a size that does not grow
	None                // nothing: a layer without keys and values
)

func (k Kind) String() string { return kind.Of(k).Name() }

// Rule says which of a sequence's blocks the layers of a group read.
type Rule struct {
	Kind  Kind
	Block int // tokens of a block
	// Window is the tokens that a query sees, its own included, or more that have to stay, and Sinks the first tokens,
	// which every query also sees.
	Window, Sinks int
	// Chunk is the tokens of a chunk: the query at position p sees those from p − p%Chunk on.
	Chunk int
	// Back is by how many tokens a sequence may be cut without having to compute any again: those of
	// a rejected draft.
	Back int
}

func (r *Rule) numbers() kind.Numbers {
	return kind.Numbers{Window: r.Window, Sinks: r.Sinks, Chunk: r.Chunk}
}

func (r *Rule) keeps() kind.Keeps { return kind.Of(r.Kind).Keeps }

// seen is what the query at a position sees up to itself: the first sinks tokens, and those from first on.
func (r *Rule) seen(position int) (sinks, first int) {
	return kind.Of(r.Kind).Sees(r.numbers(), position)
}

// lacks reports whether a number is too small for the kind.
func (r *Rule) lacks() bool {
	return slices.ContainsFunc(kind.Of(r.Kind).Fields(), func(f kind.Field) bool { return r.numbers().Of(f.Name) < f.Least })
}

// reads is seen in blocks.
func (r *Rule) reads(position int) (sinks, first int) {
	sinks, first = r.seen(position)
	return r.blocks(sinks), first / r.block()
}

// SinkBlocks is the number of first blocks that every query reads.
func (r *Rule) SinkBlocks() int {
	sinks, _ := r.seen(0)
	return r.blocks(sinks)
}

// First is the first block, those of sinks aside, that the query at position n reads, or a later one.
// After n tokens, of which up to Back may be taken back, the blocks before it are of no use.
func (r *Rule) First(n int) int {
	n = max(n-r.Back, 0)
	if !r.keeps().Rows() {
		return r.blocks(n)
	}
	_, first := r.seen(n)
	return first / r.block()
}

func (r *Rule) blocks(tokens int) int { return (tokens + r.block() - 1) / r.block() }

// block is the tokens of a block, and 1 of a zero rule.
func (r *Rule) block() int { return max(r.Block, 1) }

// Gone is the number of blocks that a sequence of n tokens does without: those between the sinks and First.
func (r *Rule) Gone(n int) int { return r.gives(max(n-r.Back, 0)) }

// gives is Gone after n tokens, none of which is taken back.
func (r *Rule) gives(n int) int {
	row := kind.Of(r.Kind)
	if row.Keeps != kind.Last {
		return 0
	}
	sinks, first := row.Sees(r.numbers(), n)
	gone := first / r.block()
	if sinks > 0 {
		gone -= r.blocks(sinks)
	}
	return max(gone, 0)
}

// Need is the number of blocks that a sequence of n tokens has.
func (r *Rule) Need(n int) int {
	switch r.keeps() {
	case kind.State:
		return min(n, 1)
	case kind.Nothing:
		return 0
	}
	return r.blocks(n) - r.Gone(n)
}

// Reaches reports whether a sequence which has all blocks from one on, those of the sinks aside, can go on
// after its first n tokens, so that what the next tokens see is there. Back is not asked for.
func (r *Rule) Reaches(gone, n int) bool { return gone == 0 || r.gives(max(n, 0)) >= gone }

// Resumable is the greatest length, at most n, after which a sequence that lacks as many blocks after the sinks
// can go on. 0 is always one.
func (r *Rule) Resumable(gone, n int) int {
	if r.Reaches(gone, n) {
		return n
	}
	return 0 // what a shorter one would see begins further in front
}

// Reads reports whether what comes after n tokens reads a block of them.
func (r *Rule) Reads(block, n int) bool { return block < r.blocks(n) && block >= r.First(n) }

// Keeps reports whether the blocks that leave a window are to stay findable for sequences that share no more than the
// tokens up to some border, of which every multiple of every blocks is one. block is the number of one of them; with 1
// all stay, with 0 none.
func (r *Rule) Keeps(block, every int) bool {
	if every <= 1 {
		return every == 1
	}
	border := (block/every + 1) * every // the first one after it
	return block >= r.First(border*r.block())
}

// Sees is the first token, those of sinks aside, that the query at a position sees.
func (r *Rule) Sees(position int) int {
	_, first := r.seen(position)
	return first
}

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kind.Table) {
		return nil, prefix.ErrArgument{Op: "kind", Why: accepted()}
	}
	return []byte(k.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, known := range kind.Table {
		if known.Name() == string(text) {
			*k = Kind(i)
			return nil
		}
	}
	return prefix.ErrArgument{Op: "kind", Why: fmt.Sprintf("%q: %s", text, accepted())}
}

// accepted names the kinds.
func accepted() string {
	var names []string
	for _, k := range kind.Table {
		names = append(names, k.Name())
	}
	last := len(names) - 1
	return fmt.Sprintf("accepts %s and %s", strings.Join(names[:last], ", "), names[last])
}
