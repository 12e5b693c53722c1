package prefix

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Item is a part of a prompt that is not text, such as an image. The placeholder tokens of all
// images are equal, so the item's hash becomes part of the keys of the blocks that it overlaps.
type Item struct {
	Begin, End int    // token range in the prompt
	Hash       []byte // of its content
}

// Span is a range of tokens that see each other both ways, such as those of an image: what is
// stored of one of them depends on all of them, and on the items that they are of.
type Span struct{ Begin, End int }

// ItemKeys computes Query.Extra for a prompt with items: a key for each block that an item
// overlaps, and the zero Key for the others. Ranges are cut to the prompt; empty ones do not count.
// The order of items counts. A key also depends on where the item begins and ends relative to the
// block.
func ItemKeys(items []Item, tokens, blockSize int) []Key {
	return extraKeys(nil, tokens, items, nil, blockSize)
}

// SpanKeys is ItemKeys of a prompt with spans: the keys of the blocks that a span overlaps are also
// made of where it begins and ends, of its tokens, and of the items that it overlaps, wherever in it
// those are. Spans, too, are cut to the prompt, and empty ones do not count.
func SpanKeys(prompt []uint32, items []Item, spans []Span, blockSize int) []Key {
	return extraKeys(prompt, len(prompt), items, within(spans, len(prompt)), blockSize)
}

// within is spans cut to so many tokens, without empty ones.
func within(spans []Span, tokens int) []Span {
	whole := func(s Span) bool { return s.Begin >= 0 && s.Begin < s.End && s.End <= tokens }
	if !slices.ContainsFunc(spans, func(s Span) bool { return !whole(s) }) {
		return spans
	}
	var all []Span
	for _, s := range spans {
		if s = (Span{max(s.Begin, 0), min(s.End, tokens)}); whole(s) {
			all = append(all, s)
		}
	}
	return all
}

func extraKeys(prompt []uint32, tokens int, items []Item, spans []Span, blockSize int) []Key {
	if blockSize < 1 {
		return []Key{}
	}
	texts := make([]keytext.Text, 0)
	at := func(block int) *keytext.Text {
		for len(texts) <= block {
			texts = append(texts, nil)
		}
		if texts[block] == nil {
			texts[block] = keytext.New("items")
		}
		return &texts[block]
	}
	for _, item := range items {
		hash := keytext.Bytes(item.Hash)
		for _, b := range item.blocks(tokens, spans, blockSize) {
			at(b).Line("item", keytext.Number(item.Begin-b*blockSize), keytext.Number(item.End-b*blockSize), hash)
		}
	}
	for _, s := range spans {
		digest := Query{Tokens: prompt[s.Begin:s.End]}.Digests(nil, s.End-s.Begin)[0]
		for b := s.Begin / blockSize; b*blockSize < s.End; b++ {
			at(b).Line("span", keytext.Number(s.Begin-b*blockSize), keytext.Number(s.End-b*blockSize), keytext.Bytes(digest[:]))
		}
	}
	keys := make([]Key, len(texts))
	for i, t := range texts {
		if t != nil {
			keys[i] = t.Sum()
		}
	}
	return keys
}

// blocks are those that the item overlaps, and those that a span overlaps which the item overlaps.
func (i Item) blocks(tokens int, spans []Span, blockSize int) (all []int) {
	begin, end := max(i.Begin, 0), min(i.End, tokens)
	if begin >= end {
		return nil
	}
	for b := begin / blockSize; b*blockSize < end; b++ {
		all = append(all, b)
	}
	for _, s := range spans {
		for b := s.Begin / blockSize; s.Begin < end && begin < s.End && b*blockSize < s.End; b++ {
			all = append(all, b)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
