package prefix

// sampled is the share of a path's levels that leave ghosts: one in so many.
const sampled = 4

// ghost is a block that was evicted, as a policy remembers it.
type ghost struct {
	hash      uint64
	since     uint64
	cellmates link
	uses      uint32
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
	known map[uint64]uint32 // place in the ring, by hash
	mate  links
}

func (g *ghostCells) init(limit int) {
	g.limit, g.known = limit, map[uint64]uint32{}
	g.mate = func(i uint32) *link { return &g.ring[i].cellmates }
	for c := range g.cells {
		g.cells[c] = empty
	}
}

// add remembers a block.
func (g *ghostCells) add(hash uint64, cell uint8, uses uint32, since uint64) {
	if i, there := g.known[hash]; there {
		g.drop(i)
	}
	if len(g.ring) < g.limit {
		g.next = len(g.ring)
		g.ring = append(g.ring, ghost{})
	} else if g.next = (g.next + 1) % g.limit; g.ring[g.next].hash != 0 {
		g.drop(uint32(g.next))
	}
	i := uint32(g.next)
	g.ring[i] = ghost{hash: hash, since: since, uses: uses, cell: cell}
	g.cells[cell].push(g.mate, i)
	g.known[hash] = i
}

// take forgets the ghost of a hash and says what it was.
func (g *ghostCells) take(hash uint64) (cell uint8, uses uint32, there bool) {
	i, there := g.known[hash]
	if !there {
		return 0, 0, false
	}
	cell, uses = g.ring[i].cell, g.ring[i].uses
	g.drop(i)
	return cell, uses, true
}

func (g *ghostCells) drop(i uint32) {
	old := &g.ring[i]
	g.cells[old.cell].pull(g.mate, i)
	delete(g.known, old.hash)
	old.hash = 0
}

// age moves the ghosts of a cell that have reached the next octave there.
func (g *ghostCells) age(cell uint8, clock, until uint64) {
	for i := g.cells[cell].head; i != none && clock-g.ring[i].since >= until; i = g.cells[cell].head {
		g.cells[cell].pull(g.mate, i)
		g.cells[cell+1].push(g.mate, i)
		g.ring[i].cell++
	}
}
