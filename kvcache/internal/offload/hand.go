package offload

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// holdWanted makes a load the owner of what the tree has of what it wants, and says what it lacks; nil: others were promised
// some. known is how many of the entries the tree has, and next the first that it does not have, or that lacks something. The guard is held.
func (o *Offload[B]) holdWanted(w *Request) (h *hold, known, next int) {
	path := o.path(w.Path.Root, prefix.Query{Tokens: w.Tokens, Extra: w.Path.Extra})
	have := o.with(path, len(w.keys))
	entries, blocks, err := o.cache.Keep(path, len(w.keys))
	if err != nil {
		return nil, 0, 0
	}
	h = &hold{blocks, entries}
	w.lack(o.shape.lacking(have, len(w.keys)), len(o.shape.places))
	if len(w.units) == 0 { // it came meanwhile
		o.give(h)
		return nil, 0, 0
	}
	return h, len(path), min(len(path), w.units[0].entry)
}

// Hand gives a sequence, which has some tokens, what a load brought and what was there before, as far as every part can go on: it owns
// that now. The guard is held, and the load has ended. from is how many entries after those tokens came from each tier.
func (o *Offload[B]) Hand(l *Transfer, have int) (f group.Found, from []int, err error) {
	defer func() { o.done(l) }()
	f, err = o.cache.Hand(o.sound(o.entries(l.held)), have)
	if err != nil || f.Tokens <= have {
		for _, r := range f.Runs {
			_ = o.blocks.Retire(nil, r.Blocks)
		}
		return group.Found{}, nil, err
	}
	f.Path = append([]block.Block(nil), f.Path...)
	l.held.path = l.held.path[len(f.Path):]
	return f, o.credit(l, have/o.shape.tokens, f.Blocks), nil
}

// sound is a path up to where its entries are in the tree: it may have some in place of those that a load brought which
// others wrote, and what they failed to write is taken out.
func (o *Offload[B]) sound(path []block.Block) []block.Block {
	_ = o.blocks.Reclaim() // who uses the device next meets its errors
	for i, e := range path {
		if known, _ := o.blocks.Tree().Has(e); !known {
			return path[:i]
		}
	}
	return path
}

// credit counts entries that a sequence got, and returns how many of them came from each tier.
func (o *Offload[B]) credit(l *Transfer, from, to int) []int {
	n := make([]int, len(o.stats.Tokens))
	for _, t := range l.by[from:to] {
		if t >= 0 {
			n[t]++
			o.stats.Tokens[t] += int64(o.shape.tokens)
		}
	}
	return n
}
