package snap

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// place is where the tokens of a block are in a text that others may find. A block has one: a stream whose sequences have the rows of
// a chunk after different texts, as no pool writes it, gets a block for each of them.
type place struct {
	before [sha256.Size]byte // the text in front of it
	tokens []uint32
	items  []prefix.Item // that begin in it
	spans  []prefix.Span
}

func (a *place) clone() *place {
	if a == nil {
		return nil
	}
	c := *a
	return &c
}

// begins reports whether b is a, or goes on where a ends. A nil place matches any.
func (a *place) begins(b *place) bool {
	if a == nil || b == nil {
		return true
	}
	n := len(a.tokens)
	same := func(a, b prefix.Item) bool {
		return a.Begin == b.Begin && a.End == b.End && bytes.Equal(a.Hash, b.Hash)
	}
	return a.before == b.before && n <= len(b.tokens) && slices.Equal(a.tokens, b.tokens[:n]) && slices.EqualFunc(a.items, b.items, same) && slices.Equal(a.spans, b.spans)
}

// text is that of a sequence, whose places are asked for in their order.
type text struct {
	of    *snapshot.Sequence
	items []prefix.Item // by their first tokens
	spans []prefix.Span
	sum   hash.Hash // of what comes before
	done  int       // tokens in the sum
	field []byte
	at    place
}

// newText is the text of a sequence; nil: none of it may be found, as for one that is not exact, because it does not say from where.
func newText(h *snapshot.Head, i int) *text {
	q := &h.Sequences[i]
	if q.Silent || q.Tokens == nil || q.Fidelity != prefix.Exact {
		return nil
	}
	t := &text{of: q, items: slices.Clone(q.Items), spans: q.Spans, sum: sha256.New()}
	slices.SortStableFunc(t.items, func(a, b prefix.Item) int { return cmp.Compare(a.Begin, b.Begin) })
	t.add(uint32(q.Scope))
	return t
}

func (t *text) add(numbers ...uint32) {
	t.field = t.field[:0]
	for _, n := range numbers {
		t.field = binary.LittleEndian.AppendUint32(t.field, n)
	}
	_, _ = t.sum.Write(t.field) // never fails
}

// place is that of n tokens from one on, until the next call.
func (t *text) place(first, tokens int) *place {
	if t == nil {
		return nil
	}
	t.add(t.of.Tokens[t.done:first]...)
	t.done = first
	for ; len(t.items) > 0 && t.items[0].Begin < first; t.items = t.items[1:] {
		item := &t.items[0]
		t.add(uint32(item.Begin), uint32(item.End), uint32(len(item.Hash)))
		_, _ = t.sum.Write(item.Hash)
	}
	for ; len(t.spans) > 0 && t.spans[0].Begin < first; t.spans = t.spans[1:] {
		t.add(uint32(t.spans[0].Begin), uint32(t.spans[0].End))
	}
	p := &t.at
	*p = place{tokens: t.of.Tokens[first : first+tokens]}
	for n := 0; n < len(t.items) && t.items[n].Begin < first+tokens; n++ {
		p.items = t.items[:n+1]
	}
	for n := 0; n < len(t.spans) && t.spans[n].Begin < first+tokens; n++ {
		p.spans = t.spans[:n+1]
	}
	t.sum.Sum(p.before[:0])
	return p
}
