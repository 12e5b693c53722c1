package plan

import "github.com/ferrumkv/ferrumkv/backend"

// room is what the lists of a plan of fixed size have room for, whatever the contexts and
// tables are; the zero room is that of a plan that has just what it needs. An empty item has
// no rows, and a block of the grid that gets one ends.
type room struct {
	items       [Kinds]int
	merges      int
	shared      int // shared rows
	partialRows int
}

// room is what a step needs at most. The parts of a kind are at most one for each tile, and
// one for each block that the device runs at once.
func (p *planner) room(s *backend.AttendShape, capacity Capacity) (r room) {
	if !p.fixed {
		return r
	}
	var most [Kinds]int // rows of a tile
	for seq := range p.queries {
		rows := int(p.queries[seq]) * p.group
		kind := p.cache.KindOf(rows)
		tiles := ceilDiv(rows, p.cache.tileRows(kind))
		r.items[kind] += tiles
		r.merges += tiles
		most[kind] = max(most[kind], min(rows, p.cache.tileRows(kind)))
	}
	if Shares(s) {
		kind := p.cache.largest()
		r.items[kind] += len(p.queries) // see pays
		r.shared = len(p.queries) * p.cache.tileRows(kind)
		most[kind] = p.cache.tileRows(kind)
	}
	for kind := range Kinds {
		if r.items[kind] == 0 {
			continue
		}
		r.items[kind] += capacity[kind] / s.KVHeads
		r.partialRows += r.items[kind] * most[kind]
	}
	return r
}

// pad appends zeros to a list of entries of that many words, which began at word first, until
// it has room of them, and returns how many it has.
func (p *planner) pad(first, words, room int) uint32 {
	have := (len(p.work) - first) / words
	for range (room - have) * words {
		p.work = append(p.work, 0)
	}
	return uint32(max(have, room))
}
