package snap

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// target is a block that is filled: each strip of its home has the same tokens for it.
type target struct {
	home       int
	owner      int     // the sequence that takes it: the first in Order that has it
	from       [][]src // by strip of the home's
	checkpoint int     // of a state that others may go on from: the tokens that it is after; else 0
	behind     *target // the block before it, where a block is of one path
	at         *place  // in the text of who may publish it; nil: nobody
	block      block.Block
}

// nobody is the owner of a target before all sequences are planned.
const nobody = -1

// src is tokens of a chunk, from one on, that are those of a block from one on.
type src struct{ chunk, from, at, tokens int }

// find is where the content of a block with the sequence's tokens from one on is, by strip of its home's, until the next call; false:
// some is missing.
func (p *planner[B]) find(home, first, tokens int) (from [][]src, ok bool, err error) {
	h := &p.in.homes[home]
	if n := len(h.from) - len(p.in.found); n > 0 {
		p.in.found = append(p.in.found, make([][]src, n)...)
	}
	for i, f := range h.from {
		list, ok := p.lines[f].take(p.in.found[i][:0], first, tokens)
		p.in.found[i] = list
		if !ok {
			return nil, false, nil
		}
		if err := p.oneScale(f, h, list); err != nil {
			return nil, false, err
		}
	}
	return p.in.found[:len(h.from)], true, nil
}

// has reports whether the content of blocks of these numbers is in the stream.
func (p *planner[B]) has(home int, blocks []int) (ok bool, err error) {
	for _, i := range blocks {
		if _, ok, err := p.find(home, i*p.size(), p.tokensOf(i)); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// size is the tokens of a block, and tokensOf those that the sequence has in one.
func (p *planner[B]) size() int { return p.st.Config.BlockTokens() }

func (p *planner[B]) tokensOf(block int) int { return min(p.size(), p.tokens-block*p.size()) }

// targets are the blocks of these numbers, whose content is in the stream; the sequence gets all of them. Where another sequence has the
// same tokens of the same chunks, or more of them, they share one block. One that is of one path comes after the same blocks.
func (p *planner[B]) targets(home int, blocks []int) (all []*target, err error) {
	all = make([]*target, 0, len(blocks))
	said := newText(p.in.Head, p.i)
	for _, i := range blocks {
		from, _, err := p.find(home, i*p.size(), p.tokensOf(i))
		if err != nil {
			return nil, err
		}
		t := target{home: home, owner: nobody, from: from, at: said.place(i*p.size(), p.tokensOf(i))}
		if len(all) > 0 && home == p.homes[0] && p.in.parts.Plain() {
			t.behind = all[len(all)-1]
		}
		all = append(all, p.join(i, &t, p.in.needs))
	}
	return all, nil
}

// join is an existing target equal to t, or a new one like t, which then needs a block.
func (p *planner[B]) join(block int, t *target, needs map[*residency.Blocks]int) *target {
	o, there := p.in.shared.join(block, t)
	if !there {
		p.in.targets = append(p.in.targets, o)
		needs[p.in.homes[t.home].of.Blocks]++
	}
	return o
}

// tokens is how many a target has.
func (t *target) tokens() (n int) {
	for _, s := range t.from[0] {
		n += s.tokens
	}
	return n
}

// clone is a target like t that stays.
func (t *target) clone() *target {
	c := *t
	c.from = make([][]src, len(t.from))
	for i, list := range t.from {
		c.from[i] = slices.Clone(list)
	}
	c.at = t.at.clone()
	return &c
}

// oneScale checks that rows which share scales, those of a block of a kernel, are of one chunk.
func (p *planner[B]) oneScale(f int, h *home[B], list []src) error {
	for _, pair := range p.in.planes[f] {
		s := p.in.strips[pair.to]
		if s.of != h.of || !slices.ContainsFunc(pair.planes, func(p plane) bool { return p.per == snapshot.PerChunk }) {
			continue
		}
		for i, one := range list[:len(list)-1] {
			if next := list[i+1]; next.chunk != one.chunk && next.at%s.pieces.Tokens != 0 {
				return snapshot.ErrMismatch{Field: "Memory.BlockSize", Layer: s.Layers[0].Number, Have: fmt.Sprint(p.in.Head.Strips[f].Tokens), Want: fmt.Sprint(s.pieces.Tokens),
					Why: "the tokens of a block share scales, and those of several blocks have several; take blocks of a size that divides the snapshot's"}
			}
		}
	}
	return nil
}
