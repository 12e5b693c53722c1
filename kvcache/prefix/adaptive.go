package prefix

import "math/bits"

// adaptive evicts the block that earns the least for its room.
//
// Every cached block stands in a cell: its class, which is what it has been through,
// and its age, the number of blocks used or stored since its last use, in octaves of
// the capacity. The policy counts for how long how many blocks stand in each cell
// and how many of them are used again there: their hazard of return. Evicted blocks
// go on being counted as ghosts, so that what is learned does not depend on what was
// kept. The worth of a cell is the best rate of hits that keeping its blocks up to some
// later age promises (see worth.go). The victim is the oldest leaf of the cell of least
// worth, unless the leaf that was released first is nearly as bad: until the cache has
// turned over a few times little is known, and the order is LRU.
//
// After LHD (Beckmann, Chen and Cidon, NSDI 2018), with lists in the place of samples
// and the classes that prompts have: a conversation that came back once is likely to
// come back again, and what it stores is likely to be asked for.
type adaptive struct {
	recency
	t                *Tree
	capacity         uint64
	residents        [cells]list
	ghosts           ghostCells
	resident         links
	clock, last      uint64 // blocks used and stored; when ages were last looked at
	learned          uint64 // when worths were last computed
	evictions        float64
	hits, room       [cells]float64
	worth            [cells]float64
	order            [cells]uint8 // cells by worth
	place            [cells]uint8 // of a cell in order
	from             int          // no cell before this place has a leaf at its front
	lastID, returned uint32       // of the run of new blocks in hand: its end, and the uses its ghosts had
}

const (
	ages     = 12 // octaves from 1/64 of the capacity on, the last one open
	novel    = 6  // what a new block's path was when it was stored (unknown, used once, used more), inside or the end of a prompt
	familiar = 7  // octaves of the times it was used
	cells    = (novel + familiar) * ages
)

// newAdaptive makes the policy of a share that has room for that many blocks.
func newAdaptive(t *Tree, room int) *adaptive {
	p := &adaptive{t: t, capacity: uint64(room), lastID: none}
	p.resident = func(id uint32) *link { return &t.entries[id].cellLinks }
	p.ghosts.init(room)
	for c := range p.residents {
		p.residents[c] = empty
		p.order[c] = uint8(c)
	}
	p.rank()
	return p
}

// bound is the age at which an octave begins.
func (p *adaptive) bound(octave int) uint64 {
	if octave == 0 {
		return 0
	}
	return p.capacity << octave >> 7
}

// stored looks whether a new block is the ghost of an old one. Only every fourth level
// of a path leaves ghosts; the blocks between two of them are taken to be like the
// ghost below or, after the last, above.
func (p *adaptive) stored(e, parent *entry) {
	id := e.node.blocks[e.index()].ID
	e.history = 0
	run := parent != nil && p.lastID == p.idOf(parent)
	if parent != nil {
		e.history = parent.history
		if parent.hits > 0 {
			e.history = uint8(min(2, bits.Len32(parent.hits)))
		}
	}
	if !run || e.depth%sampled == 0 {
		p.returned = 0
	}
	if e.depth%sampled == 0 {
		if cell, uses, there := p.ghosts.take(e.hash); there {
			p.hits[cell] += sampled
			p.returned = uses + 1
			for above, n := parent, 1; run && n < sampled && above != nil && above.hits == 0 && above.state == held; n++ {
				above.hits = p.returned
				above = p.t.parent(above.node, above.index())
			}
		}
	}
	e.hits = p.returned
	p.lastID = id
	p.advance()
}

func (p *adaptive) idOf(e *entry) uint32 { return e.node.blocks[e.index()].ID }

func (p *adaptive) used(s *evictionGroup, e *entry, waited bool) {
	if waited {
		p.hits[e.cell]++
	}
	p.advance()
}

func (p *adaptive) released(s *evictionGroup, id uint32) {
	p.recency.released(s, id)
	e := &p.t.entries[id]
	class := 2 * e.history
	if e.node.leafTail(e.index()) {
		class++
	}
	if e.hits > 0 {
		class = novel + uint8(min(bits.Len32(e.hits), familiar)-1)
	}
	e.cell, e.since = class*ages, p.clock
	p.residents[e.cell].push(p.resident, id)
	p.touched(e)
}

func (p *adaptive) taken(s *evictionGroup, id uint32) {
	p.recency.taken(s, id)
	e := &p.t.entries[id]
	p.residents[e.cell].pull(p.resident, id)
	p.touched(e)
}

// touched notes that the front of an entry's cell may be another one, or a leaf now.
func (p *adaptive) touched(e *entry) { p.from = min(p.from, int(p.place[e.cell])) }

func (p *adaptive) victim(s *evictionGroup) uint32 {
	oldest := p.recency.victim(s)
	if oldest == none {
		return none
	}
	turns := p.evictions / float64(p.capacity)
	limit := p.worth[p.t.entries[oldest].cell] * turns / (turns + trust)
	for ; p.from < cells && p.worth[p.order[p.from]] <= limit; p.from++ {
		if id := p.residents[p.order[p.from]].head; id != none {
			if e := &p.t.entries[id]; e.node.leafTail(e.index()) {
				return id
			}
		}
	}
	return oldest
}

func (p *adaptive) evicted(_ *evictionGroup, id uint32) {
	e := &p.t.entries[id]
	p.evictions++
	if parent := p.t.parent(e.node, e.index()); parent != nil {
		p.touched(parent)
	}
	if e.depth%sampled == 0 {
		p.ghosts.add(e.hash, e.cell, e.hits, e.since)
	}
}

// advance counts a block used or stored. From time to time it moves what has grown
// older to its octave and notes the room that was taken up.
func (p *adaptive) advance() {
	p.clock++
	dt := p.clock - p.last
	if dt < max(1, p.capacity/64) {
		return
	}
	p.last = p.clock
	for c := cells - 1; c >= 0; c-- {
		if octave := c % ages; octave < ages-1 {
			until := p.bound(octave + 1)
			for id := p.residents[c].head; id != none; id = p.residents[c].head {
				e := &p.t.entries[id]
				if p.clock-e.since < until {
					break
				}
				p.residents[c].pull(p.resident, id)
				p.residents[c+1].push(p.resident, id)
				e.cell++
			}
			p.ghosts.age(uint8(c), p.clock, until)
		}
		p.room[c] += float64(dt) * float64(p.residents[c].size+sampled*p.ghosts.cells[c].size)
	}
	p.from = 0
	if span := p.clock - p.learned; span >= max(4, p.capacity/16) {
		p.learned = p.clock
		p.fade(span)
		p.rank()
	}
}
