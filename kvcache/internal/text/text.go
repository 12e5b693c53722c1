// Package text is what a pool remembers of a sequence's tokens: the prompt that is left to compute,
// the positions that tokens have, and which of the sequence's blocks others may find. It knows no
// device, and of blocks only what to call them.
package text

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Origin is where a sequence's blocks belong in the prefix tree: a record of how it was opened.
type Origin struct {
	Root    prefix.Root
	Extra   []prefix.Key // of the prompt's blocks with items in them
	Keep    prefix.RetentionHint
	Spans   []prefix.Span // of the prompt's tokens that see each other, while some of it is left to compute
	Items   int           // tokens up to the end of the last item or span
	Silent  bool          // nothing is published, from the moment it is set
	Private bool          // computes what others have, too
	// What Root and Extra were made of, for a snapshot.
	Scope    prefix.Scope
	Contents []prefix.Item // of the prompt
	Seen     []prefix.Span // of the whole prompt
}

// Text is the tokens of one sequence. Methods that are told a number of tokens are told the
// sequence's.
type Text struct {
	Origin
	Positions Positions
	Fidelity  prefix.Fidelity // of what is written from here on
	Draft     int             // last tokens that nobody is to find, for they may be rejected

	blockTokens int      // of a block that can be found; 0: none can
	published   int      // leading blocks that are in the tree
	offered     int      // full blocks when they were last offered to it
	tokens      []uint32 // the sequence's, after them the rest of its prompt, and those of an open step; fewer: not all are known
	prompt      int      // tokens of the prompt while some of it is left to compute, else 0
}

// New is the text of a sequence whose blocks of so many tokens can be found by others; 0: are not.
// It takes over the memory of tokens.
func New(from Origin, blockTokens int, tokens []uint32) Text {
	return Text{Origin: from, blockTokens: blockTokens, tokens: tokens[:0]}
}

// Reuse notes that the sequence begins with blocks from the tree.
func (t *Text) Reuse(found prefix.Match) {
	t.published, t.Fidelity, t.Positions.Next = found.Blocks, found.Fidelity, found.Tokens
}

// Join notes that the sequence begins with n tokens that another one writes, none of which is in the tree.
func (t *Text) Join(n int) { t.published, t.Positions.Next = 0, n }

// Extend notes that n blocks from the tree came behind those that it has, which are all full, so that it has so many tokens.
func (t *Text) Extend(n, tokens int) {
	t.published += n
	t.Positions.Next = tokens
}

// Resumed notes that the sequence has other blocks now, with the same content, none of which is in the tree.
func (t *Text) Resumed() {
	t.published, t.offered = 0, 0
	t.Silent = t.Silent || t.Fidelity != prefix.Exact // which of them are not exact is not known
}

// Loaded notes what a sequence brings that was in a snapshot: its tokens, which may not be known, those of the prompt that some of them
// are left to compute of (0: none are), and where they are.
func (t *Text) Loaded(tokens []uint32, prompt int, at Positions) {
	t.tokens, t.prompt, t.Positions = append(t.tokens[:0], tokens...), prompt, at
	if prompt == 0 {
		t.Spans = nil
	}
	t.Resumed()
}

// Grow notes that the sequence got n tokens. The last ones that it has are a draft; silent: nothing is published any more.
func (t *Text) Grow(n, draft int, silent bool) {
	t.Positions.grow(n)
	t.Draft, t.Silent = draft, t.Silent || silent
}

// Findable is how many of the leading blocks are in the tree.
func (t *Text) Findable() int { return t.published }

// Fork is a copy that changes for itself. It takes over the memory of tokens.
func (t *Text) Fork(tokens []uint32) Text {
	child := *t
	child.Positions, child.tokens = t.Positions.Clone(), append(tokens[:0], t.tokens...)
	return child
}

// Drop is the memory of the tokens, for another text.
func (t *Text) Drop() []uint32 {
	tokens := t.tokens[:0]
	t.tokens = nil
	return tokens
}

// Tokens are the sequence's, after them the rest of its prompt, and those of an open step. They are fewer than the sequence has where
// not all are known, as after an eviction.
func (t *Text) Tokens() []uint32 { return t.tokens }

// Prompt is the tokens of the prompt that the sequence is in the middle of; 0: it is in none.
func (t *Text) Prompt() int { return t.prompt }

// found reports whether others can find what the sequence computes.
func (t *Text) found() bool { return t.blockTokens > 0 }

// Publishes reports whether a sequence with so many full blocks has any to publish. What the tree did not
// want is offered again with the next block, not with every token.
func (t *Text) Publishes(full int) bool {
	return t.found() && !t.Silent && full > max(t.published, t.offered)
}

// Due reports whether a sequence of so many tokens may have something to publish: it has not before it fills a block more.
func (t *Text) Due(tokens int) bool {
	return t.found() && !t.Silent && tokens >= (max(t.published, t.offered)+1)*t.blockTokens
}

// Accepted is how many of so many full blocks, which others can find, are within the first tokens: what comes after those
// is a draft.
func (t *Text) Accepted(full, tokens int) int {
	return min(full, tokens/t.blockTokens)
}

// Pending is what a sequence with so many full blocks has to publish, if any: its place in the tree
// and the tokens of those that are not there yet.
func (t *Text) Pending(blocks []block.Block, full int) (prefix.Path, []uint32) {
	if !t.Publishes(full) {
		return prefix.Path{}, nil
	}
	return t.path(blocks), t.tokens[t.published*t.blockTokens : full*t.blockTokens]
}

// path is where what the sequence publishes next belongs.
func (t *Text) path(blocks []block.Block) prefix.Path {
	at := prefix.Path{Root: t.Root, RetentionHint: t.Keep, Fidelity: t.Fidelity, Private: t.Private}
	if t.Fidelity != prefix.Exact { // equal tokens do not make lossy content equal
		at.Private = true
	}
	if t.published > 0 {
		at.Parent = blocks[t.published-1]
	}
	if t.published < len(t.Extra) {
		at.Extra = t.Extra[t.published:]
	}
	return at
}

// End is what a sequence of so many tokens, which are all that it will have, ends with: its place in the tree and the
// tokens of its last block, which is not full, and whether all before them are there.
func (t *Text) End(blocks []block.Block, have int) (at prefix.Path, tokens []uint32, ok bool) {
	if !t.found() || t.Silent || t.Draft > 0 || have == 0 || t.published != have/t.blockTokens {
		return at, nil, false
	}
	at = t.path(blocks)
	return at, t.tokens[t.published*t.blockTokens : have], true
}

// Published notes that n of the offered blocks have entered the tree.
func (t *Text) Published(n, full int) {
	if t.Private || t.Fidelity != prefix.Exact {
		t.Silent = t.published+n < full
	}
	t.published, t.offered = t.published+n, full
}

// unwrite notes that the blocks are not full any more from a token on.
func (t *Text) unwrite(from int) {
	full := from / max(t.blockTokens, 1)
	t.published, t.offered = min(t.published, full), min(t.offered, full)
}

// Truncate keeps the first n tokens, and accepts those of a draft among them.
func (t *Text) Truncate(n int) {
	t.Draft = 0
	t.forgetPrompt()
	t.tokens = t.tokens[:min(len(t.tokens), n)]
	t.Positions.truncate(n)
	t.unwrite(n)
	t.Silent = t.Silent || n < t.Items // what follows may be without them
}

// Shift notes that count tokens from one on were dropped, so that n are left, and those after them moved
// to the positions that became free, with other roundings where keys are quantized. What was computed
// after them was computed with them, and what follows will not be: nothing of it is what its tokens alone
// would say.
func (t *Text) Shift(from, count, n int, quantized bool) {
	t.forgetPrompt()
	t.Draft -= max(from+count-max(from, n+count-t.Draft), 0) // those that went
	t.Positions.shift(from, count, n)
	if len(t.tokens) < n+count {
		t.tokens = t.tokens[:0]
	} else {
		t.tokens = append(t.tokens[:from], t.tokens[from+count:n+count]...)
	}
	t.unwrite(from)
	t.Silent = t.Silent || from < t.Items // they are not where they were
	if from < n {
		t.Fidelity |= prefix.Truncated
		if quantized {
			t.Fidelity |= prefix.Requantized
		}
	}
}

// Evict notes that tokens were dropped, so that n are left: what lies from a token on, and what follows,
// was computed with tokens that its place does not tell.
func (t *Text) Evict(from, n int) {
	t.forgetPrompt()
	t.Draft = min(t.Draft, n)
	t.tokens = t.tokens[:0]
	t.unwrite(from)
	t.Fidelity |= prefix.Evicted
	t.Silent = true
}

// Requantize notes that the sequence goes on from tokens that were quantized and brought back: what it
// writes from here on is not what its tokens alone would say.
func (t *Text) Requantize() { t.Fidelity |= prefix.Requantized }
