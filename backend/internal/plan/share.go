package plan

import (
	"bytes"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

const (
	// leastSaved is the bytes of keys and values that a group has to save its step where
	// the caller does not say what pays, beside those of its partial rows: about what the launch of
	// its items and of the merge takes in time.
	leastSaved = 8 << 20
	// maxNested is how many groups a sequence is in, on average at most: each has partial rows for
	// all of its rows.
	maxNested = 4
)

// A group is sequences whose tables are the same over a run of keys, all of which are
// before their queries. Its keys are read once for all of their rows, as parts of each of
// them (ChunkAttention, arXiv:2402.15220; Hydragen, arXiv:2402.05099). Groups nest: what
// some of a group share beyond it is a group of their own.
type group struct {
	members  []uint64 // sequences, in the lower halves
	key, end int
	kind     Kind
	rows     int // of all members
	first    int // of them in the list of shared rows
	part     int // the number of its first part in each member's parts
	parts    int
	size     int // keys of all parts but the last
}

// tiles is how many tiles the group's rows are.
func (g *group) tiles() int { return ceilDiv(g.rows, tileRows[g.kind]) }

// member is what a plan knows of a sequence besides its lengths.
type member struct {
	begin int // the first key that no group has
	parts int // of its groups
	base  int // the first of its partial rows
}

// sharing is who shares what in a plan, and other memory that is kept to be used again.
type sharing struct {
	order   []uint64 // sequences side by side that share; above 32 bits, what they are sorted by
	members []member // [seqs]
	groups  []group  // those that others lie in come first
	rows    int      // of all groups, and the most there may be
	most    int
	tiles   int
	lengths []uint32 // of the tiles of a kind, in keys
	keys    []uint64 // by which items are sorted
	items   []abi.AttendItem
}

var sharings = sync.Pool{New: func() any { return new(sharing) }}

// begin empties sh for n sequences.
func (sh *sharing) begin(n int) {
	sh.order, sh.groups, sh.rows, sh.most, sh.tiles = sh.order[:0], sh.groups[:0], 0, 0, 0
	sh.members = slices.Grow(sh.members[:0], n)[:n]
	clear(sh.members)
}

// shares reports whether a step may have groups. A window cuts off what is shared, and
// who lies in one block shares no whole one.
func shares(s *backend.AttendShape) bool {
	return s.Table != nil && s.TableStride > 1 && s.Window == 0 && len(s.QueryLens) > 1
}

// share finds the groups of a step.
func (p *planner) share(s *backend.AttendShape) {
	p.sharing.begin(len(s.QueryLens))
	if !shares(s) {
		return
	}
	sh := p.sharing
	for seq, queries := range s.QueryLens {
		if p.common(seq) > 0 {
			sh.order = append(sh.order, uint64(seq))
			sh.most += maxNested * int(queries) * p.group
		}
	}
	p.descend(s, sh.order, 0, 0)
}

// common is how many blocks of a sequence others may share: whole ones before its queries, if
// it is a single tile. One of more tiles reads its keys for a tile's worth of rows anyway.
func (p *planner) common(seq int) int {
	rows := int(p.queries[seq]) * p.group
	if rows == 0 || rows > tileRows[kindOf(p.format, rows)] {
		return 0
	}
	return max(int(p.contexts[seq])-int(p.queries[seq]), 0) / p.block
}

// descend makes groups of sequences whose blocks up to depth are the same, and of which
// no group has those from block begin on.
func (p *planner) descend(s *backend.AttendShape, seqs []uint64, begin, depth int) {
	if p.sharing.rows == p.sharing.most || p.sharing.tiles == len(p.queries) {
		return
	}
	n := 0 // those that go on, by their next block; groups have the others, too
	for i, seq := range seqs {
		if seq = uint64(uint32(seq)); p.common(int(seq)) > depth {
			seqs[i], seqs[n] = seqs[n], uint64(s.Table[int(seq)*s.TableStride+depth])<<32|seq
			n++
		}
	}
	seqs = seqs[:n]
	if n > 0 && !slices.ContainsFunc(seqs, func(seq uint64) bool { return seq>>32 != seqs[0]>>32 }) {
		p.meet(s, seqs, begin, depth)
		return
	}
	slices.Sort(seqs)
	for first := 0; first < n; {
		last := first + 1
		for last < n && seqs[last]>>32 == seqs[first]>>32 {
			last++
		}
		p.meet(s, seqs[first:last], begin, depth)
		first = last
	}
}

// meet finds how far the tables of sequences go together that are the same up to block
// depth and in it, makes them a group if that pays, and goes on from there.
func (p *planner) meet(s *backend.AttendShape, seqs []uint64, begin, depth int) {
	if len(seqs) < 2 {
		return
	}
	rows, end := 0, p.common(int(uint32(seqs[0])))
	first := s.Table[int(uint32(seqs[0]))*s.TableStride:]
	for _, seq := range seqs {
		i := int(uint32(seq))
		rows += int(p.queries[i]) * p.group
		end = min(end, p.common(i))
		end = depth + alike(first[depth:end], s.Table[i*s.TableStride+depth:][:end-depth])
	}
	if p.pays(s, len(seqs), rows, (end-begin)*p.block) {
		p.sharing.groups = append(p.sharing.groups, group{members: seqs, key: begin * p.block, end: end * p.block,
			kind: p.groupKind(rows), rows: rows, first: p.sharing.rows})
		g := &p.sharing.groups[len(p.sharing.groups)-1]
		p.sharing.rows += rows
		p.sharing.tiles += g.tiles()
		for _, seq := range seqs {
			p.sharing.members[uint32(seq)].begin = g.end
		}
		begin = end
	}
	p.descend(s, seqs, begin, end)
}

// groupKind is the kind of a group's tiles. In a plan of fixed size all groups have the
// largest tiles, so that they are one launch.
func (p *planner) groupKind(rows int) Kind {
	if p.fixed {
		return largest(p.format)
	}
	return kindOf(p.format, rows)
}

// pays reports whether sequences are to be read as one over keys. There are never more tiles
// of groups than of sequences.
func (p *planner) pays(s *backend.AttendShape, seqs, rows, keys int) bool {
	tiles := ceilDiv(rows, tileRows[p.groupKind(rows)])
	if keys < 1 || tiles >= seqs || p.sharing.tiles+tiles > len(p.queries) || p.sharing.rows+rows > p.sharing.most {
		return false
	}
	if s.MinShared > 0 {
		return keys >= s.MinShared
	}
	const written = 2 * 4 // partial rows are f32, and read again
	heads, key := float64(s.KVHeads), float64(s.KDim*s.Format.K.Bits()+s.VDim*s.Format.V.Bits())/8
	saved, cost := heads*key*float64(keys)*float64(seqs-tiles), heads*written*float64(rows)*float64(s.VDim)
	return keys >= minKeys && saved >= leastSaved+cost
}

// alike is how many elements a and b, which are as long, have in common from the start.
func alike(a, b []uint32) int {
	const step = 64 // so many at a time, as bytes
	n := 0
	for n+step <= len(a) && bytes.Equal(backend.BytesOf(a[n:n+step]), backend.BytesOf(b[n:n+step])) {
		n += step
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// cut divides the keys of the groups into parts of at most so many keys, by their kinds.
func (p *planner) cut(chunks *[Kinds]int) {
	for i := range p.sharing.groups {
		g := &p.sharing.groups[i]
		g.part = p.sharing.members[uint32(g.members[0])].parts
		g.parts, g.size = p.partsOf(g.end-g.key, g.rows, chunks[g.kind])
		for _, seq := range g.members {
			p.sharing.members[uint32(seq)].parts += g.parts
		}
	}
}

// sharedItems appends the items of the groups of a kind.
func (p *planner) sharedItems(kind Kind) {
	for i := range p.sharing.groups {
		g := &p.sharing.groups[i]
		if g.kind != kind {
			continue
		}
		for row := 0; row < g.rows; row += tileRows[kind] {
			for part := range g.parts {
				begin := g.key + part*g.size
				p.work = append(p.work, abi.ManySeqs, uint32(g.first+row), uint32(min(tileRows[kind], g.rows-row)),
					uint32(begin), uint32(min(begin+g.size, g.end)), 0, uint32(g.part+part), uint32(g.part+g.parts+1))
			}
		}
	}
}

// sharedRows appends the list of the groups' rows, now that their sequences' partial rows
// are known, and empty ones up to room. It returns their number.
func (p *planner) sharedRows(room int) uint32 {
	first := len(p.work)
	for i := range p.sharing.groups {
		for _, m := range p.sharing.groups[i].members {
			seq := uint32(m)
			rows := p.queries[seq] * uint32(p.group)
			for row := range rows {
				p.work = append(p.work, seq, row, uint32(p.sharing.members[seq].base)+row, rows)
			}
		}
	}
	return p.pad(first, abi.RowWords, room)
}
