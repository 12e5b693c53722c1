package offload

import (
	"context"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// In a pool with groups a sequence can go on after so many entries of a prompt where every part has what it reads: full parts all
// of it, windows and chunks the last of it and sinks, states a checkpoint there. Each of that may be with the tree or in a tier.

// finder finds the most entries after which a sequence can go on.
type finder[B backend.Buffer] struct {
	o    *Offload[B]
	ctx  context.Context
	w    *Want
	have []bool      // by entry and place: with the tree
	tier map[int]int // by entry and place: the tier; −1: it is nowhere
}

// findParts sets what of a query tiers have: nothing where that is no more than the device has.
func (o *Offload[B]) findParts(ctx context.Context, w *Want, q prefix.Query) {
	size := o.shape.tokens
	o.guard.Lock()
	if o.closed {
		o.guard.Unlock()
		w.cut(0, 0, size)
		return
	}
	path := o.path(w.Path.Root, prefix.Query{Tokens: q.Tokens, Extra: q.Extra})
	f := &finder[B]{o, ctx, w, o.with(path, len(w.keys)), map[int]int{}}
	m, _ := o.groups.Match(w.Path.Root, q)
	o.guard.Unlock()
	n := f.full(len(path), len(w.keys))
	for n*size > m.Tokens {
		fits := n
		for part := range o.shape.rules {
			fits = f.fits(part, fits, m.Tokens/size)
		}
		if fits == n {
			break
		}
		n = fits
	}
	w.from = f.tier
	w.lack(o.shape.lacking(f.have, n), len(o.shape.places))
	if n*size <= m.Tokens || len(w.units) == 0 { // or nothing is read there
		w.cut(0, 0, size)
		return
	}
	w.cut(n, n*size-m.Tokens, size)
}

// lacking is what who goes on after so many entries needs, and is not among what there is, by entry and place.
func (s *Shape[B]) lacking(have []bool, entries int) (list []int) {
	for i, is := range have[:entries*len(s.places)] {
		if !is && s.needs(i/len(s.places), i%len(s.places), entries) {
			list = append(list, i)
		}
	}
	return list
}

// lack sets what is to be loaded.
func (w *Want) lack(list []int, width int) {
	w.units = w.units[:0]
	for _, i := range list {
		w.units = append(w.units, unit{i / width, i % width, max(w.from[i], 0)})
	}
}

// path is the full entries that the tree has of a query, as it would be computed.
func (o *Offload[B]) path(root prefix.Root, q prefix.Query) []block.Block {
	path, m := o.blocks.Tree().Lookup(nil, root, q)
	return path[:m.Blocks]
}

// with says what of entries is with the tree, by entry and place.
func (o *Offload[B]) with(path []block.Block, entries int) []bool {
	have := make([]bool, entries*len(o.shape.places))
	for e, entry := range path[:min(len(path), entries)] {
		for at, p := range o.shape.places {
			have[e*len(o.shape.places)+at] = o.groups.At(entry, p.part)[p.i] != block.Block{}
		}
	}
	return have
}

// there is how many of the first of a list are with the tree or in a tier.
func (f *finder[B]) there(list []int) int {
	width := len(f.o.shape.places)
	var ask []int
	var keys []tier.Key
	for _, i := range list {
		if _, known := f.tier[i]; !f.have[i] && !known {
			ask, keys = append(ask, i), append(keys, f.o.shape.key(f.w.keys[i/width], i%width))
		}
	}
	places, n := f.o.ask(f.ctx, keys)
	for _, p := range places {
		for range p.Blocks {
			f.tier[ask[0]] = p.Tier
			ask = ask[1:]
		}
	}
	if len(ask) > 0 && n < len(keys) {
		f.tier[ask[0]] = -1
	}
	for i, at := range list {
		if t, known := f.tier[at]; !f.have[at] && (!known || t < 0) {
			return i
		}
	}
	return len(list)
}

// full is the entries for which full parts have everything: as many as the tree has do.
func (f *finder[B]) full(known, entries int) int {
	if f.o.shape.full == 0 {
		return entries
	}
	var list []int
	for e := known; e < entries; e++ {
		for at := range f.o.shape.full {
			list = append(list, e*len(f.o.shape.places)+at)
		}
	}
	return min(known, entries) + f.there(list)/f.o.shape.full
}

// fits is the most entries, at most n, after which a part that gives something up has what is read; or fewer than that, where it is
// no more than least.
func (f *finder[B]) fits(part, n, least int) int {
	r, size := &f.o.shape.rules[part], f.o.shape.tokens
	for n > least {
		var list []int
		r.Fits(n*size, size, func(i int) bool { list = append(list, f.place(part, i)); return true })
		there := f.there(list) // asked for together
		fits := r.Fits(n*size, size, func(int) bool { there--; return there >= 0 }) / size
		if fits == n {
			break
		}
		n = fits
	}
	return n
}

// place is where block i of a part is among entries and places.
func (f *finder[B]) place(part, i int) int {
	s := f.o.shape
	for at, p := range s.places {
		if each := s.rules[part].Each; p.part == part && p.i == i%each {
			return i/each*len(s.places) + at
		}
	}
	return 0 // no such: every part has places for its blocks
}

// holdParts makes a load the owner of what the tree has of what it wants, and says what it lacks; nil: others were promised
// some. next is the first entry that the tree does not have, or that lacks something. The guard is held.
func (o *Offload[B]) holdParts(w *Want) (h *hold, next int) {
	entries := len(w.keys)
	path := o.path(w.Path.Root, prefix.Query{Tokens: w.Tokens, Extra: w.Path.Extra})
	have := o.with(path, entries)
	h, next = &hold{}, len(path)
	if len(path) > 0 {
		held, err := o.blocks.Tree().Hold(nil, path[len(path)-1])
		if err != nil {
			return nil, 0
		}
		h.path = held
	}
	kept, err := o.groups.Keep(path, entries)
	if err != nil {
		o.give(h)
		return nil, 0
	}
	for _, of := range kept {
		h.blocks = append(h.blocks, of...)
	}
	w.lack(o.shape.lacking(have, entries), len(o.shape.places))
	if len(w.units) == 0 { // it came meanwhile
		o.give(h)
		return nil, 0
	}
	return h, min(next, w.units[0].entry)
}

// publishParts puts entries and blocks with them into the tree.
func (o *Offload[B]) publishParts(l *Load, w *Want, units []unit, to int, taken *hold) error {
	type where struct{ part, i int }
	from, own := l.next, map[where]*block.Block{}
	for i, u := range units {
		p := o.shape.places[u.at]
		own[where{p.part, (u.entry-from)*o.shape.rules[p.part].Each + p.i}] = &taken.blocks[i]
	}
	at, tokens := l.at(w, l.held.path, to, o.shape.tokens)
	in, err := o.blocks.PublishPath(nil, nil, nil, at, tokens, func(part, i int) *block.Block { return own[where{part, i}] })
	was := l.held.path[from:]
	l.held.path = append(append([]block.Block(nil), l.held.path[:from]...), in...)
	l.next = from + len(in)
	again := min(len(in), len(was)) // of those it was an owner
	if err == nil {
		err = o.blocks.RetirePath(nil, was[:again])
	}
	l.held.path = append(l.held.path, was[again:]...)
	left := taken.blocks[:0]
	for i, u := range units {
		if b := taken.blocks[i]; u.entry < l.next {
			l.held.blocks = append(l.held.blocks, b)
		} else {
			left = append(left, b)
		}
	}
	taken.blocks = left
	return err
}

// Hand gives a sequence what a load brought and what was there before, as far as every part can go on: it owns that now. The
// guard is held, and the load has ended. from is how many tokens of those behind have came from each tier.
func (o *Offload[B]) Hand(l *Load, have int) (f group.Found, from []int, err error) {
	defer func() { o.done(l) }()
	f, err = o.groups.Hand(l.held.path[:o.sound(l.held.path, 0)])
	if err != nil || f.Tokens <= have {
		for _, r := range f.Runs {
			_ = o.blocks.Retire(nil, r.Blocks)
		}
		return group.Found{}, nil, err
	}
	f.Path = append([]block.Block(nil), f.Path...)
	l.held.path = l.held.path[f.Blocks:]
	return f, o.credit(l, have/o.shape.tokens, f.Blocks), nil
}
