package kvcache

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"pgregory.net/rapid"
)

// modelSeq is a sequence and what it should have.
type modelSeq[B backend.Buffer] struct {
	seq *Sequence[B]
	*history
}

// history is what a model remembers of a sequence: the tokens of each layer, which
// Keep may make different ones, and the next token's position.
type history struct {
	layers [][]placed
	next   int
	rest   []uint32 // of the prompt, which is fed first
}

// placed is a token at a position. Its key was rounded anew so many times.
type placed struct {
	token
	pos, rounds int
}

func newHistory(layers int) *history { return &history{layers: make([][]placed, layers)} }

func (h *history) len() int { return len(h.layers[0]) }

func (h *history) clone() *history {
	c := &history{next: h.next, rest: h.rest}
	for _, list := range h.layers {
		c.layers = append(c.layers, slices.Clip(list))
	}
	return c
}

func (h *history) add(ids []uint32) {
	for l := range h.layers {
		for i, id := range ids {
			h.layers[l] = append(slices.Clip(h.layers[l]), placed{token: token{id: id}, pos: h.next + i})
		}
	}
	h.next += len(ids)
	h.rest = h.rest[min(len(ids), len(h.rest)):]
}

// truncate keeps the first n tokens; the next one goes behind the last of any layer.
func (h *history) truncate(n int) {
	h.next, h.rest = 0, nil
	for l, list := range h.layers {
		h.layers[l] = list[:n]
		if n > 0 {
			h.next = max(h.next, list[n-1].pos+1)
		}
	}
}

// moved is a token that is at another position, and its key turned.
func (p placed) moved(by int) placed {
	if by != 0 {
		p.rounds++
	}
	p.pos, p.turn = p.pos+by, p.turn+by
	return p
}

func (h *history) shift(begin, end int) {
	for l, list := range h.layers {
		rest := slices.Clone(list[:begin])
		for _, p := range list[end:] {
			rest = append(rest, p.moved(begin-end))
		}
		h.layers[l] = rest
	}
	h.next -= end - begin
	if begin < end {
		h.rest = nil
	}
}

func (h *history) keep(kept [][]int, o RetainOptions) {
	if len(kept[0]) < h.len() {
		h.rest = nil
	}
	for l, list := range h.layers {
		var rest []placed
		for i, token := range kept[min(l, len(kept)-1)] {
			p := list[token]
			if o.Reposition {
				p = p.moved(i - p.pos)
			}
			rest = append(rest, p)
		}
		h.layers[l] = rest
	}
	if o.Reposition {
		h.next = h.len()
	}
}

// anyKept are tokens to keep of n: sinks and a window, or any, in all layers the same
// or not.
func anyKept(t *rapid.T, n, layers int) [][]int {
	lists := rapid.SampledFrom([]int{1, 1, layers}).Draw(t, "lists")
	size := rapid.IntRange(0, n).Draw(t, "kept")
	kept := make([][]int, lists)
	for l := range kept {
		sinks := rapid.IntRange(-1, size).Draw(t, "sinks")
		if sinks < 0 { // any
			kept[l] = rapid.Permutation(sequenceOf(n)).Draw(t, "tokens")[:size]
			slices.Sort(kept[l])
			continue
		}
		kept[l] = append(sequenceOf(n)[:sinks:sinks], sequenceOf(n)[n-(size-sinks):]...)
	}
	return kept
}

// sequenceOf is 0 to n−1.
func sequenceOf(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
