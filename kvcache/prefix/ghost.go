package prefix

import (
	"math"
	"slices"
)

// sampled is the share of a path's levels that leave ghosts: one in so many.
const sampled = 4

// ghost is a block that was evicted, as a policy remembers it.
type ghost struct {
	hash      uint64
	since     uint64
	cellmates link
	after     uint32 // the next ghost in its place of the index, or none
	uses      uint16 // or more
	cell      uint8
}

// ghostCells are the ghosts of a policy, in the cells in which they would stand. As
// many are kept as there is room for blocks, in a ring: the latest take the place of
// the first.
type ghostCells struct {
	cells [cells]list
	ring  []ghost
	next  int
	limit int
	live  int
	index []uint32 // by hash, the first of those in the ring that have this place
	mate  links
}

func (g *ghostCells) init(limit int) {
	g.limit, g.index = limit, slices.Repeat([]uint32{none}, 64)
	g.mate = func(i uint32) *link { return &g.ring[i].cellmates }
	for c := range g.cells {
		g.cells[c] = empty
	}
}

// find is the link to the ghost of a hash or, where there is none, to put one at.
func (g *ghostCells) find(hash uint64) *uint32 {
	l := &g.index[hash&uint64(len(g.index)-1)]
	for *l != none && g.ring[*l].hash != hash {
		l = &g.ring[*l].after
	}
	return l
}

// add remembers a block, and forgets the one that has its place in the ring.
func (g *ghostCells) add(hash uint64, cell uint8, uses uint32, since uint64) {
	if l := g.find(hash); *l != none {
		g.drop(l)
	}
	if len(g.ring) < g.limit {
		g.next = len(g.ring)
		g.ring = append(g.ring, ghost{})
		if len(g.index) < 2*len(g.ring) {
			g.reindex()
		}
	} else if g.next = (g.next + 1) % g.limit; g.ring[g.next].hash != 0 {
		g.drop(g.find(g.ring[g.next].hash))
	}
	i := uint32(g.next)
	*g.find(hash) = i
	g.ring[i] = ghost{hash: hash, since: since, after: none, uses: uint16(min(uses, math.MaxUint16)), cell: cell}
	g.cells[cell].push(g.mate, i)
	g.live++
}

// reindex doubles the index.
func (g *ghostCells) reindex() {
	g.index = slices.Repeat([]uint32{none}, 2*len(g.index))
	for i := range g.ring {
		if old := &g.ring[i]; old.hash != 0 {
			old.after = none
			*g.find(old.hash) = uint32(i)
		}
	}
}

// take forgets the ghost of a hash and says what it was.
func (g *ghostCells) take(hash uint64) (cell uint8, uses uint32, there bool) {
	l := g.find(hash)
	if *l == none {
		return 0, 0, false
	}
	cell, uses = g.ring[*l].cell, uint32(g.ring[*l].uses)
	g.drop(l)
	return cell, uses, true
}

// drop forgets the ghost that a link leads to.
func (g *ghostCells) drop(l *uint32) {
	old := &g.ring[*l]
	g.cells[old.cell].pull(g.mate, *l)
	*l, old.hash = old.after, 0
	g.live--
}

// age moves the ghosts of a cell that have reached the next octave there.
func (g *ghostCells) age(cell uint8, clock, until uint64) {
	for i := g.cells[cell].head; i != none && clock-g.ring[i].since >= until; i = g.cells[cell].head {
		g.cells[cell].pull(g.mate, i)
		g.cells[cell+1].push(g.mate, i)
		g.ring[i].cell++
	}
}
