package policy

import (
	"math/bits"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
)

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
	lru
	capacity         uint64
	residents        [cells]intrusive.List
	ghosts           ghostCells
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

// Adaptive learns from past hits how likely blocks are to be used again, and evicts those that earn the fewest hits for their
// memory. room is the most blocks that there are.
func Adaptive(b *Blocks, room int) Queue {
	p := &adaptive{lru: lru{Blocks: b}, capacity: uint64(room), lastID: None}
	p.ghosts.init(room)
	for c := range p.residents {
		p.residents[c] = intrusive.Empty
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

// Store looks whether a new block is the ghost of an old one. Only every fourth level
// of a path leaves ghosts; the blocks between two of them are taken to be like the
// ghost below or, after the last, above.
func (p *adaptive) Store(id uint32, at Place) {
	p.lru.Store(id, at)
	e := &p.entries[id]
	run := at.Parent != None && p.lastID == at.Parent
	if at.Parent != None {
		parent := &p.entries[at.Parent]
		e.history = parent.history
		if parent.hits > 0 {
			e.history = uint8(min(2, bits.Len32(parent.hits)))
		}
	}
	if !run || at.Depth%sampled == 0 {
		p.returned = 0
	}
	if at.Depth%sampled == 0 {
		if cell, uses, there := p.ghosts.take(at.Hash); there {
			p.hits[cell] += sampled
			p.returned = uses + 1
			for above, n := at.Parent, 1; run && n < sampled && above != None; n++ {
				a := &p.entries[above]
				if a.hits > 0 || a.cached {
					break
				}
				a.hits = p.returned
				above = p.paths.Place(above).Parent
			}
		}
	}
	e.hits = p.returned
	p.lastID = id
	p.advance()
}

func (p *adaptive) Touch(id uint32, cached bool) {
	p.entries[id].hits++
	if cached {
		p.hits[p.entries[id].cell]++
	}
	p.advance()
}

func (p *adaptive) Insert(id uint32, priority uint8) {
	p.lru.Insert(id, priority)
	e := &p.entries[id]
	class := 2 * e.history
	if p.paths.IsEnd(id) {
		class++
	}
	if e.hits > 0 {
		class = novel + uint8(min(bits.Len32(e.hits), familiar)-1)
	}
	e.cell, e.since = class*ages, p.clock
	p.residents[e.cell].Push(p.inCell, id)
	p.touched(e)
}

func (p *adaptive) Remove(id uint32) {
	p.lru.Remove(id)
	e := &p.entries[id]
	p.residents[e.cell].Pull(p.inCell, id)
	p.touched(e)
}

// touched notes that the front of an entry's cell may be another one, or a leaf now.
func (p *adaptive) touched(e *entry) { p.from = min(p.from, int(p.place[e.cell])) }

func (p *adaptive) Victim() uint32 {
	id := p.lru.Victim()
	if id == None {
		return None
	}
	turns := p.evictions / float64(p.capacity)
	limit := p.worth[p.entries[id].cell] * turns / (turns + trust)
	for ; p.from < cells && p.worth[p.order[p.from]] <= limit; p.from++ {
		if first := p.residents[p.order[p.from]].Front(); first != None && p.paths.IsEnd(first) {
			id = first
			break
		}
	}
	p.evictions++
	e, at := &p.entries[id], p.paths.Place(id)
	if at.Parent != None {
		p.touched(&p.entries[at.Parent])
	}
	if at.Depth%sampled == 0 {
		p.ghosts.add(at.Hash, e.cell, e.hits, e.since)
	}
	return id
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
			for id := p.residents[c].Front(); id != None; id = p.residents[c].Front() {
				e := &p.entries[id]
				if p.clock-e.since < until {
					break
				}
				p.residents[c].Pull(p.inCell, id)
				p.residents[c+1].Push(p.inCell, id)
				e.cell++
			}
			p.ghosts.age(uint8(c), p.clock, until)
		}
		p.room[c] += float64(dt) * float64(p.residents[c].Len()+sampled*p.ghosts.cells[c].Len())
	}
	p.from = 0
	if span := p.clock - p.learned; span >= max(4, p.capacity/16) {
		p.learned = p.clock
		p.fade(span)
		p.rank()
	}
}
