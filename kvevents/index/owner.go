package index

import (
	"github.com/ferrumkv/ferrumkv/kvevents"
)

// owner is an engine and what it said.
type owner struct {
	name   string
	number int               // below Index.numbers, of no other owner
	blocks map[uint64]*block // by the engine's hash
	keys   int               // of all blocks
	groups map[int]bool      // whether a group counts, where its kind was said
}

// block is a block of an engine, which has the tokens of one or more blocks of the index.
type block struct {
	keys   []key
	places []place
}

// mostPlaces bounds the places of a block. Engines have a few media, and a few groups of layers.
const mostPlaces = 64

// place is where a block is: stored n times more than removed.
type place struct {
	medium uint16
	group  int // -1: none
	n      int32
}

// ofGroup is the group of an event, -1: none. false: it does not count.
func (o *owner) ofGroup(group int, has bool, kind string) (int, bool) {
	if !has || group < 0 {
		return -1, counts(kind)
	}
	yes, known := o.groups[group]
	if kind != "" && (known || len(o.groups) < mostMedia) {
		if o.groups == nil {
			o.groups = map[int]bool{}
		}
		yes, known = counts(kind), true
		o.groups[group] = yes
	}
	return group, yes || !known && counts(kind)
}

// counts says whether layers of a kind need all tokens before, so that having a block of them means having what a prompt needs there.
func counts(kind string) bool {
	switch kind {
	case "", "full_attention", "mla_attention", "sink_full_attention":
		return true
	}
	return false
}

func (x *Index) store(o *owner, e *kvevents.Stored) error {
	group, ok := o.ofGroup(e.Group, e.HasGroup, e.Kind)
	if !ok {
		x.stats.Skipped += uint64(len(e.Hashes))
		return nil
	}
	at := place{x.medium(e.Medium), group, 1}
	if len(e.Tokens) == 0 {
		for _, h := range e.Hashes {
			if b := o.blocks[h.Number]; b != nil {
				x.place(o, b, at)
			} else {
				x.stats.Orphans++
			}
		}
		return nil
	}
	each := 1 // numbers a token
	if e.Pairs {
		each = 2
	}
	if e.BlockSize < 1 || e.BlockSize > len(e.Tokens) || len(e.Tokens)/each != len(e.Hashes)*e.BlockSize || len(e.Tokens)%each != 0 {
		x.stats.Skipped += uint64(len(e.Hashes))
		return nil
	}
	if e.BlockSize%x.o.BlockSize != 0 {
		x.stats.Skipped += uint64(len(e.Hashes))
		return ErrBlockSize{e.BlockSize, x.o.BlockSize}
	}
	before := x.root(e.LoRAName)
	if follows(e) {
		parent := o.blocks[e.Parent.Number]
		if parent == nil {
			x.stats.Orphans += uint64(len(e.Hashes))
			return nil
		}
		before = parent.keys[len(parent.keys)-1]
	}
	c := x.coder()
	defer coders.Put(c)
	for i, h := range e.Hashes {
		keys := make([]key, e.BlockSize/x.o.BlockSize)
		for j := range keys {
			c.begin(before)
			if j == 0 {
				c.extras(e, i)
			}
			from := (i*e.BlockSize + j*x.o.BlockSize) * each
			c.tokens(e.Tokens[from:from+x.o.BlockSize*each], each)
			before = c.key()
			keys[j] = before
		}
		b := o.blocks[h.Number]
		if b == nil {
			if o.keys+len(keys) > x.o.Blocks {
				x.stats.Skipped += uint64(len(e.Hashes) - i)
				return ErrFull{o.name, "blocks", x.o.Blocks}
			}
			b = &block{keys: keys}
			o.blocks[h.Number] = b
			o.keys += len(keys)
			x.stats.Blocks++
		}
		x.place(o, b, at)
	}
	return nil
}

// follows says that the blocks of an event follow another one. A parent of 0 is none, as for llm-d.
func follows(e *kvevents.Stored) bool { return e.HasParent && e.Parent.Number != 0 }

// place notes that a block was stored at a place.
func (x *Index) place(o *owner, b *block, at place) {
	for i := range b.places {
		if p := &b.places[i]; p.medium == at.medium && p.group == at.group {
			x.stats.Stored++
			p.n++
			return
		}
	}
	if len(b.places) >= mostPlaces {
		x.stats.Skipped++
		return
	}
	x.stats.Stored++
	b.places = append(b.places, at)
	x.hold(o, b, at.medium)
}

// remove takes away what was removed. What was not stored there is nothing.
func (x *Index) remove(o *owner, e *kvevents.Removed) {
	group, medium := -1, x.medium(e.Medium)
	if e.HasGroup && e.Group >= 0 {
		group = e.Group
	}
	for _, h := range e.Hashes {
		b := o.blocks[h.Number]
		if b == nil {
			continue
		}
		for i := range b.places {
			p := &b.places[i]
			if p.medium != medium || p.group != group {
				continue
			}
			x.stats.Removed++
			if p.n--; p.n == 0 {
				*p = b.places[len(b.places)-1]
				b.places = b.places[:len(b.places)-1]
				x.drop(o, b, medium)
			}
			break
		}
		if len(b.places) == 0 {
			delete(o.blocks, h.Number)
			o.keys -= len(b.keys)
			x.stats.Blocks--
		}
	}
}
