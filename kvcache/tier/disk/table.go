package disk

import (
	"container/heap"
	"errors"
	"io"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// tablePiece is how many entries are read, or written, at a time: 1 MiB.
const tablePiece = 4096

// readTable reads the entries of all slots, once and in order; dataSize is what there is of payloads.
func (t *Tier) readTable(dataSize int64) error {
	x := &t.index
	b := make([]byte, min(tablePiece, len(x.slots))*entryBytes)
	x.free = x.free[:0]
	for from := 0; from < len(x.slots); from += len(b) / entryBytes {
		part := b[:min(len(b), (len(x.slots)-from)*entryBytes)]
		n, err := t.table.ReadAt(part, page+int64(from)*entryBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		clear(part[n:]) // what was never written
		for i := range len(part) / entryBytes {
			t.readSlot(int32(from+i), part[i*entryBytes:][:entryBytes], dataSize)
		}
	}
	t.settle()
	return nil
}

// readSlot takes a slot's block into the index, if its entry says that there is one.
func (t *Tier) readSlot(i int32, b []byte, dataSize int64) {
	x, s := &t.index, &t.index.slots[i]
	e, ok := t.codec.readEntry(b, int(i))
	s.marked = ok && e.key == (tier.Key{})
	switch {
	case !ok:
		t.stats.Corrupt++
	case s.marked:
		s.generation = e.generation
	case int64(i)*t.stride+int64(e.length) > dataSize:
		s.generation = e.generation + 1
	default:
		if e.parent == e.key {
			e.parent = tier.Key{} // it would never be a leaf
		}
		s.entry = e
		if j, twice := x.byKey[e.key]; twice { // a crash took back what made the older one free
			if x.slots[j].use > e.use {
				s.entry = entry{generation: e.generation + 1}
				break
			}
			old := &x.slots[j]
			x.bytes -= int64(old.length)
			old.entry, old.state = entry{generation: old.generation + 1}, free
		}
		s.state, x.byKey[e.key] = held, i
		x.bytes += int64(e.length)
		x.clock = max(x.clock, e.use)
	}
}

// settle completes an index whose slots have been read: who follows whom, and what is free. Where a free slot's entry in the table does
// not say so, it is written before the slot is used, and before anything is forgotten for good: see forget.
func (t *Tier) settle() {
	x := &t.index
	x.leaves.index = x
	for i := range x.slots {
		if s := &x.slots[i]; s.state == held && s.parent != (tier.Key{}) {
			x.kids[s.parent]++
		}
	}
	for i := range x.slots {
		switch s := &x.slots[i]; s.state {
		case held:
			if x.kids[s.key] == 0 {
				x.leaves.items = append(x.leaves.items, int32(i))
				s.place = int32(len(x.leaves.items))
			}
		default:
			x.free = append(x.free, int32(i))
		}
	}
	slices.Reverse(x.free)
	heap.Init(&x.leaves)
}
