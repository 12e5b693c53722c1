package plan

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// leastSaved is the bytes of keys and values that a group has to save its step, beside those of
// its partial rows: about what the launch of its items and of the merge takes in time.
const leastSaved = 8 << 20

// rules and wideRules are those of a GPU.
var rules, wideRules = rulesOf(false), rulesOf(true)

func rulesOf(wide bool) Rules {
	return Rules{
		Tile: func(s *backend.AttendShape, rows int) int {
			c := cacheOf(s, wide)
			return c.tileRows(c.KindOf(rows))
		},
		GroupTile: func(s *backend.AttendShape, rows int) int {
			c := cacheOf(s, wide)
			return c.tileRows(groupKind(c, rows, s.Fixed))
		},
		Pays: pays,
	}
}

// pays is Rules.Pays, by the bytes that are read and written.
func pays(s *backend.AttendShape, g Sizes) bool {
	const written = 2 * 4 // partial rows are f32, and read again
	heads, key := float64(s.KVHeads), float64(elements(s))/8
	saved, cost := heads*key*float64(g.Keys)*float64(g.Seqs-g.Tiles), heads*written*float64(g.Rows)*float64(s.VDim)
	return g.Keys >= minKeys && saved >= leastSaved+cost
}

// elements is the bits of a key and a value.
func elements(s *backend.AttendShape) int {
	if s.Latent {
		return s.KDim * s.Format.K.Bits()
	}
	return s.KDim*s.Format.K.Bits() + s.VDim*s.Format.V.Bits()
}

// groupKind is the kind of the tiles of a group of that many rows. In a plan of fixed size all
// groups have the largest tiles, so that they are one launch.
func groupKind(c Cache, rows int, fixed bool) Kind {
	if fixed {
		return c.largest()
	}
	return c.KindOf(rows)
}

func (p *planner) kindOf(g *Group) Kind { return groupKind(p.cache, g.Rows, p.fixed) }

// cut divides the keys of the groups into parts of at most that many keys, by their kinds.
func (p *planner) cut(chunks *[Kinds]int) {
	for i := range p.sharing.Groups {
		g := &p.sharing.Groups[i]
		parts, size := p.partsOf(g.End-g.Key, g.Rows, chunks[p.kindOf(g)])
		p.sharing.Cut(i, parts, size)
	}
}

// sharedItems appends the items of the groups of a kind.
func (p *planner) sharedItems(kind Kind) {
	for i := range p.sharing.Groups {
		g := &p.sharing.Groups[i]
		if p.kindOf(g) != kind {
			continue
		}
		step := p.cache.tileRows(kind)
		for row := 0; row < g.Rows; row += step {
			for part := range g.Parts {
				begin := g.Key + part*g.Size
				p.work = append(p.work, abi.ManySeqs, uint32(g.First+row), uint32(min(step, g.Rows-row)),
					uint32(begin), uint32(min(begin+g.Size, g.End)), 0, uint32(g.Part+part), uint32(g.Part+g.Parts+1))
			}
		}
	}
}

// sharedRows appends the list of the groups' rows, now that their sequences' partial rows
// are known, and empty ones up to room. It returns their number.
func (p *planner) sharedRows(room int) uint32 {
	first := len(p.work)
	for i := range p.sharing.Groups {
		g := &p.sharing.Groups[i]
		for m := range g.Seqs() {
			seq := g.Seq(m)
			rows := p.queries[seq] * uint32(p.group)
			for row := range rows {
				p.work = append(p.work, uint32(seq), row, uint32(p.sharing.Members[seq].Base)+row, rows)
			}
		}
	}
	return p.pad(first, abi.RowWords, room)
}
