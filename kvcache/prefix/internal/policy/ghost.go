package policy

import (
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

// sampled is the share of a path's levels that leave ghosts: one in that many.
const sampled = 4

// ghost is a block that was evicted, as a policy remembers it.
type ghost struct {
	hash  uint64
	since uint64
	after uint32 // the next ghost in its place of the index, or None
	uses  uint16 // or more
	cell  uint8
}

// ghostCells are the ghosts of a policy, in the cells in which they would stand. As
// many are kept as there is room for blocks, in a ring: the latest take the place of
// the first.
type ghostCells struct {
	cells [cells]intrusive.List
	ring  []ghost
	links []intrusive.Link // of the ring in the cells
	next  int
	limit int
	live  int
	index []uint32 // by hash, the first of those in the ring that have this place
}

func (g *ghostCells) init(limit int) {
	g.limit, g.index = limit, slices.Repeat([]uint32{None}, 64)
	for c := range g.cells {
		g.cells[c] = intrusive.Empty
	}
}

// bucket is the list in the index that a hash belongs to.
func (g *ghostCells) bucket(hash uint64) *uint32 { return &g.index[hash&uint64(len(g.index)-1)] }

// add remembers a block that is not remembered: it was in the tree. It forgets the
// ghost that has its place in the ring.
func (g *ghostCells) add(hash uint64, cell uint8, uses uint32, since uint64) {
	if len(g.ring) < g.limit {
		g.next = len(g.ring)
		g.ring, g.links = append(g.ring, ghost{}), append(g.links, intrusive.Link{})
		if len(g.index) < 2*len(g.ring) {
			g.reindex()
		}
	} else if g.next = (g.next + 1) % g.limit; g.ring[g.next].hash != 0 {
		g.drop(uint32(g.next))
	}
	i, head := uint32(g.next), g.bucket(hash)
	g.ring[i] = ghost{hash: hash, since: since, after: *head, uses: uint16(min(uses, math.MaxUint16)), cell: cell}
	*head = i
	g.cells[cell].Push(g.links, i)
	g.live++
}

// reindex doubles the index.
func (g *ghostCells) reindex() {
	g.index = slices.Repeat([]uint32{None}, 2*len(g.index))
	for i := range g.ring {
		if old := &g.ring[i]; old.hash != 0 {
			head := g.bucket(old.hash)
			old.after, *head = *head, uint32(i)
		}
	}
}

// take forgets the ghost of a hash and says what it was.
func (g *ghostCells) take(hash uint64) (cell uint8, uses uint32, there bool) {
	i := *g.bucket(hash)
	for i != None && g.ring[i].hash != hash {
		i = g.ring[i].after
	}
	if i == None {
		return 0, 0, false
	}
	cell, uses = g.ring[i].cell, uint32(g.ring[i].uses)
	g.drop(i)
	return cell, uses, true
}

// drop forgets a ghost.
func (g *ghostCells) drop(i uint32) {
	old := &g.ring[i]
	l := g.bucket(old.hash)
	for *l != i {
		l = &g.ring[*l].after
	}
	*l, old.hash = old.after, 0
	g.cells[old.cell].Pull(g.links, i)
	g.live--
}

// age moves the ghosts of a cell that have reached the next octave there.
func (g *ghostCells) age(cell uint8, clock, until uint64) {
	for i := g.cells[cell].Front(); i != None && clock-g.ring[i].since >= until; i = g.cells[cell].Front() {
		g.cells[cell].Pull(g.links, i)
		g.cells[cell+1].Push(g.links, i)
		g.ring[i].cell++
	}
}
