package offload

import (
	"context"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A sequence can go on after n entries of a prompt where every part has what it reads: full parts all
// of it, windows and chunks the last of it and sinks, states a checkpoint there. Each of that may be with the tree or in a tier.

// finder finds the most entries after which a sequence can go on.
type finder[B backend.Buffer] struct {
	o    *Offload[B]
	ctx  context.Context
	w    *Request
	have []bool   // by entry and place: with the tree
	tier []source // by entry and place
}

// source is the tier, from 1 on, that has a payload; 0: it is not known; nowhere: none has it.
type source int

const nowhere source = -1

// find sets what of a query tiers have: nothing where that is no more than the device has. found is what the tree has of it, if all
// parts keep everything.
func (o *Offload[B]) find(ctx context.Context, w *Request, q prefix.Query, found prefix.Match) {
	size, width := o.shape.tokens, len(o.shape.places)
	f := &finder[B]{o: o, ctx: ctx, w: w, tier: make([]source, len(w.keys)*width)}
	known, goes := found.Blocks, found.Blocks*size // entries of the tree, and tokens after which the device can go on
	if o.shape.full == width {
		f.have = make([]bool, len(w.keys)*width)
		for i := range known * width {
			f.have[i] = true
		}
	} else {
		o.guard.Lock()
		if o.closed {
			o.guard.Unlock()
			w.cut(0, 0, size)
			return
		}
		path := o.path(w.Path.Root, prefix.Query{Tokens: q.Tokens, Extra: q.Extra})
		m, _ := o.cache.Match(w.Path.Root, q)
		f.have, known, goes = o.with(path, len(w.keys)), len(path), m.Tokens
		o.guard.Unlock()
	}
	n := f.full(known, len(w.keys))
	for n*size > goes {
		fits := n
		for part := range o.shape.rules {
			fits = f.fits(part, fits, goes/size)
		}
		if fits == n {
			break
		}
		n = fits
	}
	w.from = f.tier
	w.lack(o.shape.lacking(f.have, n), width)
	if n*size <= goes || len(w.units) == 0 { // or nothing is read there
		w.cut(0, 0, size)
		return
	}
	w.cut(n, n*size-goes, size)
}

// lacking is what a sequence that goes on after n entries needs, and is not among what there is, by entry and place.
func (s *Shape[B]) lacking(have []bool, entries int) (list []int) {
	for i, is := range have[:entries*len(s.places)] {
		if !is && s.needs(i/len(s.places), i%len(s.places), entries) {
			list = append(list, i)
		}
	}
	return list
}

// lack sets what is to be loaded.
func (w *Request) lack(list []int, width int) {
	w.units = w.units[:0]
	for _, i := range list {
		w.units = append(w.units, unit{i / width, i % width, max(int(w.from[i])-1, 0)})
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
			have[e*len(o.shape.places)+at] = o.cache.Block(entry, p.part, p.i) != block.Block{}
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
		if !f.have[i] && f.tier[i] == 0 {
			ask, keys = append(ask, i), append(keys, f.o.shape.key(f.w.keys[i/width], i%width))
		}
	}
	places, n := f.o.ask(f.ctx, keys)
	for _, p := range places {
		for range p.Blocks {
			f.tier[ask[0]] = source(p.Tier + 1)
			ask = ask[1:]
		}
	}
	if len(ask) > 0 && n < len(keys) {
		f.tier[ask[0]] = nowhere
	}
	for i, at := range list {
		if !f.have[at] && f.tier[at] <= 0 {
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
