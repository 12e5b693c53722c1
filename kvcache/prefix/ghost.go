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
	live  int
	index []uint32 // place in the ring by hash, one for each hash that could be there
	mate  links
}

func (g *ghostCells) init(limit int) {
	g.limit, g.index = limit, make([]uint32, 64)
	g.mate = func(i uint32) *link { return &g.ring[i].cellmates }
	for c := range g.cells {
		g.cells[c] = empty
	}
}

// slot is the place in the index that a hash has.
func (g *ghostCells) slot(hash uint64) *uint32 { return &g.index[hash&uint64(len(g.index)-1)] }

// at is the ghost that has a place in the index. What the index says may be out of
// date.
func (g *ghostCells) at(slot *uint32) (i uint32, there bool) {
	i = *slot
	return i, int(i) < len(g.ring) && g.ring[i].hash != 0 && g.slot(g.ring[i].hash) == slot
}

// add remembers a block, and forgets one that has its place in the ring or the index.
func (g *ghostCells) add(hash uint64, cell uint8, uses uint32, since uint64) {
	if len(g.ring) < g.limit {
		g.next = len(g.ring)
		g.ring = append(g.ring, ghost{})
		if len(g.index) < 4*len(g.ring) {
			g.reindex()
		}
	} else if g.next = (g.next + 1) % g.limit; g.ring[g.next].hash != 0 {
		g.drop(uint32(g.next))
	}
	slot := g.slot(hash)
	if other, there := g.at(slot); there {
		g.drop(other)
	}
	*slot = uint32(g.next)
	g.ring[g.next] = ghost{hash: hash, since: since, uses: uses, cell: cell}
	g.cells[cell].push(g.mate, *slot)
	g.live++
}

// reindex doubles the index.
func (g *ghostCells) reindex() {
	g.index = make([]uint32, 2*len(g.index))
	for i, old := range g.ring {
		if old.hash != 0 {
			*g.slot(old.hash) = uint32(i)
		}
	}
}

// take forgets the ghost of a hash and says what it was.
func (g *ghostCells) take(hash uint64) (cell uint8, uses uint32, there bool) {
	i, there := g.at(g.slot(hash))
	if !there || g.ring[i].hash != hash {
		return 0, 0, false
	}
	cell, uses = g.ring[i].cell, g.ring[i].uses
	g.drop(i)
	return cell, uses, true
}

func (g *ghostCells) drop(i uint32) {
	old := &g.ring[i]
	g.cells[old.cell].pull(g.mate, i)
	old.hash = 0
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
