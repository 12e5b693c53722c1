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
	home   int
	owner  int     // the sequence that takes it
	from   [][]src // by strip of the home's
	mark   int     // of a state that others may go on from: the tokens that it is after; else 0
	behind *target // of a tree without groups: the block before it
	at     *place  // in the text of who may publish it; nil: nobody
	block  block.Block
}

// src is tokens of a chunk, from one on, that are those of a block from one on.
type src struct{ chunk, from, at, tokens int }

// find is where the content of a block is that has tokens of the sequence from one on, by strip of its home's; false: some of it is nowhere.
func (p *planner[B]) find(home, first, tokens int) (from [][]src, ok bool, err error) {
	h := &p.in.homes[home]
	for _, f := range h.from {
		list, ok := p.lines[f].take(nil, first, tokens)
		if !ok {
			return nil, false, nil
		}
		if err := p.oneScale(f, h, list); err != nil {
			return nil, false, err
		}
		from = append(from, list)
	}
	return from, true, nil
}

// targets are the blocks of so many numbers with what was found for them, all of which the sequence gets. Where another one has the same tokens
// of the same chunks, or one of the two has more of them, they have one block. Who has a block of a tree without groups has those before it.
func (p *planner[B]) targets(home int, blocks []int, found [][][]src) (all []*target) {
	said := newText(p.in.Head, p.i)
	for i, from := range found {
		t := &target{home: home, owner: p.i, from: from}
		t.at = said.place(blocks[i]*p.st.Config.BlockTokens(), t.tokens())
		if i > 0 && home == p.kept && !p.in.parts.Config.Grouped() {
			t.behind = all[i-1]
		}
		all = append(all, p.join(blocks[i], t, p.in.needs))
	}
	return all
}

// join is the target that another one and t are, or t, which needs a block then.
func (p *planner[B]) join(block int, t *target, needs map[*residency.Blocks]int) *target {
	key := shared{t.home, block, t.from[0][0].chunk, t.from[0][0].from, t.mark}
	for _, o := range p.in.shared[key] {
		if o.behind == t.behind && o.at.joins(t.at) && o.merge(t) {
			o.at = o.at.with(t.at)
			return o
		}
	}
	p.in.shared[key] = append(p.in.shared[key], t)
	p.in.targets = append(p.in.targets, t)
	needs[p.in.homes[t.home].of.Blocks]++
	return t
}

// shared is what targets have in common that may be one: who shares a block has it in the same place. A sequence has one target for each.
type shared struct{ home, block, chunk, from, mark int }

// merge gives t what o has more, where one of the two is the beginning of the other.
func (t *target) merge(o *target) bool {
	for i, list := range t.from {
		short, long := list, o.from[i]
		if len(short) > len(long) {
			short, long = long, short
		}
		for j, s := range short {
			if l := long[j]; s != l && (s.chunk != l.chunk || s.from != l.from || s.at != l.at || j < len(short)-1 || len(short) < len(long) && s.tokens > l.tokens) {
				return false
			}
		}
	}
	for i, list := range o.from {
		if had := t.from[i]; len(list) > len(had) || len(list) == len(had) && list[len(list)-1].tokens > had[len(had)-1].tokens {
			t.from[i] = list
		}
	}
	return true
}

// tokens is how many a target has.
func (t *target) tokens() (n int) {
	for _, s := range t.from[0] {
		n += s.tokens
	}
	return n
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
