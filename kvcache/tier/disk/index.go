package disk

import (
	"container/heap"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// state is what a slot is used for.
type state uint8

const (
	free state = iota // in the list of free slots
	busy              // of the one call that writes to it, or is about to make it free
	held              // it has a block
	bad               // not used: what was read there was not what had been written
)

// slot is one as it is in memory; its entry is the one in the table where nothing failed.
type slot struct {
	entry
	state  state
	read   bool  // somebody has read the block
	marked bool  // the entry in the table is that of a free slot
	moved  bool  // the last use is a later one than in the table
	fails  uint8 // reads that failed in a row
	place  int32 // among the leaves, from 1 on; 0: not there
}

// index is what is where. It takes no lock.
type index struct {
	slots  []slot
	byKey  map[tier.Key]int32
	kids   map[tier.Key]int32 // blocks, held or being written, that have this parent, which need not be here
	leaves leaves             // held slots whose block no other one follows: the ones that may be given up
	free   []int32            // the next one last
	clock  uint64             // of uses
	bytes  int64              // of payloads
	bad    int64
	base   uint64 // the generation of slots that are added: later than that of any that was cut off in their place
}

func newIndex() index { return index{byKey: map[tier.Key]int32{}, kids: map[tier.Key]int32{}} }

// leaves is a heap of slots, the least recently used one first.
type leaves struct {
	index *index
	items []int32
}

func (l *leaves) slot(i int) *slot   { return &l.index.slots[l.items[i]] }
func (l *leaves) Len() int           { return len(l.items) }
func (l *leaves) Less(i, j int) bool { return l.slot(i).use < l.slot(j).use }
func (l *leaves) Swap(i, j int) {
	l.items[i], l.items[j] = l.items[j], l.items[i]
	l.slot(i).place, l.slot(j).place = int32(i+1), int32(j+1)
}
func (l *leaves) Push(s any) {
	l.items = append(l.items, s.(int32))
	l.slot(len(l.items) - 1).place = int32(len(l.items))
}
func (l *leaves) Pop() any {
	last := len(l.items) - 1
	s := l.items[last]
	l.index.slots[s].place = 0
	l.items = l.items[:last]
	return s
}

// leaf puts a slot among the leaves, or takes it out, or moves it there, as its block demands.
func (x *index) leaf(i int32) {
	x.leaves.index = x
	s := &x.slots[i]
	switch is := s.state == held && x.kids[s.key] == 0; {
	case is && s.place == 0:
		heap.Push(&x.leaves, i)
	case is:
		heap.Fix(&x.leaves, int(s.place-1))
	case s.place != 0:
		heap.Remove(&x.leaves, int(s.place-1))
	}
}

// oldest is the block to give up next, -1 if there is none.
func (x *index) oldest() int32 {
	if len(x.leaves.items) == 0 {
		return -1
	}
	return x.leaves.items[0]
}

// follow counts a block that follows a parent, or one less of them.
func (x *index) follow(parent tier.Key, by int32) {
	if parent == (tier.Key{}) {
		return
	}
	if x.kids[parent] += by; x.kids[parent] == 0 {
		delete(x.kids, parent)
	}
	if i, ok := x.byKey[parent]; ok {
		x.leaf(i)
	}
}

// hold makes a busy slot's block one that can be found; its parent has been told by follow.
func (x *index) hold(i int32) {
	s := &x.slots[i]
	s.state, s.read, s.fails = held, false, 0
	x.byKey[s.key] = i
	x.bytes += int64(s.length)
	x.leaf(i)
}

// forget takes a held slot's block out. The slot is busy after it, of a later generation, and its caller's.
func (x *index) forget(i int32) {
	s := &x.slots[i]
	s.state = busy
	x.leaf(i)
	delete(x.byKey, s.key)
	x.bytes -= int64(s.length)
	x.follow(s.parent, -1)
	s.entry, s.moved = entry{generation: s.generation + 1}, false
}

// release makes a busy slot free.
func (x *index) release(i int32) {
	x.slots[i].state = free
	x.free = append(x.free, i)
}

// quarantine keeps a busy slot from being used.
func (x *index) quarantine(i int32) {
	x.slots[i].state = bad
	x.bad++
}

// touch makes a held slot's block the last used one.
func (x *index) touch(i int32) {
	x.clock++
	x.slots[i].use, x.slots[i].moved = x.clock, true
	x.leaf(i)
}

// grow adds free slots up to n, the first of them to be used next.
func (x *index) grow(n int) {
	from := len(x.slots)
	x.slots = append(x.slots, make([]slot, n-from)...)
	added := make([]int32, 0, n-from+len(x.free))
	for i := n - 1; i >= from; i-- {
		x.slots[i].generation = x.base
		x.slots[i].marked = true // nothing is in the table, which reads as zeros, or what was there is cut off
		added = append(added, int32(i))
	}
	x.free = append(added, x.free...)
}
