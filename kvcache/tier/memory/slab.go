package memory

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

const (
	// slabBytes is the size of slabs, where that is not more than a share of the budget. Payloads of this size and more have one each.
	slabBytes = 8 << 20
	slabShare = 16
	// align is the alignment of slots: a cache line.
	align = 64
)

// slot is the place of one payload.
type slot struct {
	slab *slab
	i    int
}

// slab is memory for payloads of one size.
type slab struct {
	mem    []byte
	stride int
	owners []*entry // of each slot; nil: it is free
	used   int
}

func (s slot) bytes(n int) []byte { return s.slab.mem[s.i*s.slab.stride:][:n:n] }

// class is the slabs of payloads of one size.
type class struct {
	size, stride int
	slabs        []*slab
	free         []slot
}

// store is all slabs.
type store struct {
	budget, taken int64 // bytes; what slabs take
	classes       []*class
}

// class is that of a size.
func (s *store) class(size int) *class {
	for _, c := range s.classes {
		if c.size == size {
			return c
		}
	}
	c := &class{size: size, stride: (size + align - 1) &^ (align - 1)}
	if int64(c.stride) > s.budget {
		c.stride = size // a budget for one payload of this size
	}
	// Sizes that nothing is left of go when another one comes.
	s.classes = append(slices.DeleteFunc(s.classes, func(c *class) bool { return len(c.slabs) == 0 }), c)
	return c
}

// take gives a free slot to an entry.
func (c *class) take(e *entry) bool {
	n := len(c.free) - 1
	if n < 0 {
		return false
	}
	e.at, c.free = c.free[n], c.free[:n]
	e.at.slab.owners[e.at.i] = e
	e.at.slab.used++
	return true
}

// give takes the slot of an entry back.
func (s *store) give(e *entry) {
	if e.at.slab == nil {
		return
	}
	e.at.slab.owners[e.at.i] = nil
	e.at.slab.used--
	c := s.class(e.size)
	c.free = append(c.free, e.at)
	e.at = slot{}
}

// grow adds a slab to a class, if the budget has room for a slot and the system has the memory.
func (s *store) grow(c *class) bool {
	n := max(min(slabBytes, s.budget/slabShare)/int64(c.stride), 1)
	n = min(n, (s.budget-s.taken)/int64(c.stride))
	if n == 0 {
		return false
	}
	mem, err := hostmemory.Obtain(int(n) * c.stride)
	if err != nil {
		return false
	}
	add := &slab{mem: mem, stride: c.stride, owners: make([]*entry, n)}
	c.slabs = append(c.slabs, add)
	s.taken += int64(len(mem))
	for i := range add.owners {
		c.free = append(c.free, slot{add, len(add.owners) - 1 - i})
	}
	return true
}

// shrink gives back to the system a slab of a class other than c, if those have as many free slots as one of their slabs has: what is
// in the slab moves to free slots of others.
func (s *store) shrink(c *class) bool {
	for _, d := range s.classes {
		if d == c {
			continue
		}
		var best *slab
		for _, b := range d.slabs {
			if len(d.free) >= len(b.owners) && (best == nil || b.used < best.used) && !slices.ContainsFunc(b.owners, copied) {
				best = b
			}
		}
		if best != nil {
			s.release(d, best)
			return true
		}
	}
	return false
}

func copied(e *entry) bool { return e != nil && e.copies > 0 }

func (s *store) release(c *class, b *slab) {
	c.free = slices.DeleteFunc(c.free, func(f slot) bool { return f.slab == b })
	for _, e := range b.owners {
		if e != nil {
			from := e.at.bytes(e.size)
			c.take(e)
			copy(e.at.bytes(e.size), from)
		}
	}
	c.slabs = slices.DeleteFunc(c.slabs, func(x *slab) bool { return x == b })
	s.taken -= int64(len(b.mem))
	_ = hostmemory.Discard(b.mem) // the system knows the mapping, for it gave it
}

func (s *store) close() (err error) {
	for _, c := range s.classes {
		for _, b := range c.slabs {
			err = errors.Join(err, hostmemory.Discard(b.mem))
		}
	}
	s.classes, s.taken = nil, 0
	return err
}
