package memory

import (
	"container/heap"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// entry is a block that is there, or on its way in or out.
type entry struct {
	key, parent, root tier.Key
	used              uint64 // the call that put or read it last
	read              bool   // by any call
	ready             bool   // its payload is whole
	gone              bool   // forgotten; its slot is given back by the last call that copies it
	copies            int    // calls that copy its payload now: it may not be moved or overwritten
	leaf              int    // where it is among the leaves; −1: it is none
	size              int    // bytes of the payload
	sum               uint32 // tier.Block.Sum
	at                slot
}

// books are the entries: by key, how many children each has, and which could go.
type books struct {
	index  map[tier.Key]*entry
	kids   map[tier.Key]int // entries with this parent, which need not be there itself
	leaves leaves
	spare  []*entry // of blocks that went, to be used again
}

func (b *books) init() { *b = books{index: map[tier.Key]*entry{}, kids: map[tier.Key]int{}} }

func (b *books) find(key tier.Key) *entry { return b.index[key] }

// add is the entry of a block that is not there yet.
func (b *books) add(block *tier.Block) *entry {
	var e *entry
	if n := len(b.spare); n > 0 {
		e, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		e = new(entry)
	}
	*e = entry{key: block.Key, parent: block.Parent, root: block.Root, size: len(block.Bytes), leaf: -1}
	if e.parent == e.key {
		e.parent = tier.Key{} // it would never be a leaf
	}
	b.index[e.key] = e
	if e.parent != (tier.Key{}) {
		b.kids[e.parent]++
		b.settleKey(e.parent)
	}
	return e
}

// drop takes an entry out of the books. Its slot and itself are the caller's.
func (b *books) drop(e *entry) {
	e.gone = true
	delete(b.index, e.key)
	b.settle(e)
	if e.parent == (tier.Key{}) {
		return
	}
	if b.kids[e.parent]--; b.kids[e.parent] == 0 {
		delete(b.kids, e.parent)
		b.settleKey(e.parent)
	}
}

func (b *books) settleKey(key tier.Key) {
	if e := b.index[key]; e != nil {
		b.settle(e)
	}
}

// settle puts an entry that has changed where it belongs among the leaves. A leaf is whole, has no children, and nobody copies it.
func (b *books) settle(e *entry) {
	leaf := e.ready && !e.gone && e.copies == 0 && b.kids[e.key] == 0
	switch {
	case leaf && e.leaf < 0:
		heap.Push(&b.leaves, e)
	case leaf:
		heap.Fix(&b.leaves, e.leaf)
	case e.leaf >= 0:
		heap.Remove(&b.leaves, e.leaf)
	}
}

// leaves are the entries that could go, the next one first. It is a heap of package container/heap.
type leaves []*entry

func (l leaves) Len() int { return len(l) }

func (l leaves) Less(i, j int) bool {
	if l[i].used != l[j].used {
		return l[i].used < l[j].used
	}
	return !l[i].read && l[j].read
}

func (l leaves) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].leaf, l[j].leaf = i, j
}

// Push appends an *entry.
func (l *leaves) Push(e any) {
	e.(*entry).leaf = len(*l)
	*l = append(*l, e.(*entry))
}

// Pop removes the last one.
func (l *leaves) Pop() any {
	n := len(*l) - 1
	e := (*l)[n]
	(*l)[n] = nil
	*l = (*l)[:n]
	e.leaf = -1
	return e
}
