package offload

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// ready is the entries of the tree that can go down, each once, in the order in which they were written. An entry that leaves the
// device stays here until the storer reaches it, or until there are more than a device can have.
type ready struct {
	order  []block.Block
	due    map[block.Block]int // blocks of each that are neither below nor on their way
	blocks int                 // the sum of due
	begun  []block.Block       // by number: the last block that was picked, or that came from a tier
}

func newReady(blocks int) ready {
	return ready{due: map[block.Block]int{}, begun: make([]block.Block, blocks)}
}

// set notes how many blocks of an entry are due.
func (r *ready) set(entry block.Block, due int) {
	r.blocks += due - r.due[entry]
	r.due[entry] = due
}

// take forgets an entry, and returns how many blocks of it were due.
func (r *ready) take(entry block.Block) int {
	due := r.due[entry]
	r.blocks -= due
	delete(r.due, entry)
	return due
}

// begin notes that a block is on its way, or below, and reports whether that is new.
func (r *ready) begin(b block.Block) bool {
	is := r.begun[b.ID] != b
	r.begun[b.ID] = b
	return is
}

// written notes an entry of the tree that can go down: one that is full and exact. The guard is held.
func (o *Offload[B]) written(entry block.Block) {
	r := &o.ready
	if !o.blocks.Tree().Whole(entry) {
		return
	}
	due := 0
	for at := range o.shape.places {
		if b := o.at(entry, at); b != (block.Block{}) && r.begun[b.ID] != b {
			due++
		}
	}
	_, again := r.due[entry]
	if due == 0 && !again {
		return
	}
	if !again {
		r.order = append(r.order, entry)
	}
	r.set(entry, due)
	if len(r.order)+len(o.picked) > 2*len(r.begun) {
		o.sweep()
	}
	o.poke()
}

// at is the block that an entry has at a place of the shape; zero: none.
func (o *Offload[B]) at(entry block.Block, at int) block.Block {
	p := &o.shape.places[at]
	return o.cache.Block(entry, p.part, p.i)
}

// sweep counts and drops entries that have left the device. The guard is held.
func (o *Offload[B]) sweep() { o.stats.Missed += int64(o.drop()) }

// drop drops entries that the tree no longer has, and returns how many blocks they had.
func (o *Offload[B]) drop() (due int) {
	r := &o.ready
	r.order = slices.DeleteFunc(r.order, func(entry block.Block) bool {
		known, _ := o.blocks.Tree().Has(entry)
		if !known {
			due += r.take(entry)
		}
		return !known
	})
	return due
}
