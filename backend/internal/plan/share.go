package plan

import (
	"bytes"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// maxNested is how many groups a sequence is in, on average at most: each has partial rows for
// all of its rows.
const maxNested = 4

// Rules are what a device says of sharing. Rows are a sequence's queries times the query heads
// of a KV head, and a tile is as many of them as meet a key at once.
type Rules struct {
	// Tile is the rows of a tile of a sequence that has that many of them, GroupTile of a group
	// of sequences.
	Tile, GroupTile func(s *backend.AttendShape, rows int) int
	// Pays reports whether a group is to be, where the caller does not say how many keys pay.
	Pays func(s *backend.AttendShape, g Sizes) bool
}

// Sizes are those of what may become a group: its sequences, their rows together, the tiles that
// these are, and the keys that it would read once for each tile.
type Sizes struct{ Seqs, Rows, Tiles, Keys int }

// A Group is sequences whose tables are the same over a run of keys, all of which their
// queries see. Its keys are read once for all of their rows, as parts of each of
// them (ChunkAttention, arXiv:2402.15220; Hydragen, arXiv:2402.05099). Groups nest: what
// some of a group share beyond it is a group of their own.
type Group struct {
	members  []uint64 // sequences, in the lower halves
	Key, End int      // its keys
	Rows     int      // of all members
	First    int      // of its rows, in the list of those of all groups
	Part     int      // the number of its first part in each member's parts, see Cut
	Parts    int
	Size     int // keys of all parts but the last
}

// Seqs is how many sequences the group has.
func (g *Group) Seqs() int { return len(g.members) }

// Seq is the i-th of them.
func (g *Group) Seq(i int) int { return int(uint32(g.members[i])) }

// Member is what a plan knows of a sequence besides its lengths.
type Member struct {
	Begin int // the first key that no group has
	Parts int // of its groups
	Base  int // the first of its partial rows, for the planner to set

	rows   int
	common int // blocks that others may share
}

// Sharing is which sequences of a step share what. Its memory is kept to be used again.
type Sharing struct {
	Groups  []Group  // those that others lie in come first
	Members []Member // [seqs]

	step  backend.AttendShape
	rules Rules
	order []uint64 // sequences side by side that share; above 32 bits, what they are sorted by
	rows  int      // of all groups, and the most there may be
	most  int
	tiles int
}

// Shares reports whether a step may have groups. Windows and chunks cut off what is shared, as recent keys
// do, and who lies in one block shares no whole one.
func Shares(s *backend.AttendShape) bool {
	return s.Table != nil && s.TableStride > 1 && s.Window == 0 && s.Chunk == 0 && s.Part != backend.ResidualKeys && len(s.QueryLens) > 1
}

// Find finds the groups of a step, of which nothing is retained.
func (sh *Sharing) Find(s *backend.AttendShape, rules Rules) {
	sh.order, sh.Groups, sh.rows, sh.most, sh.tiles = sh.order[:0], sh.Groups[:0], 0, 0, 0
	sh.Members = slices.Grow(sh.Members[:0], len(s.QueryLens))[:len(s.QueryLens)]
	clear(sh.Members)
	if !Shares(s) {
		return
	}
	sh.step, sh.rules = *s, rules
	group, places, first := s.QHeads/s.KVHeads, PlacesOf(s), 0
	for seq, n := range s.QueryLens {
		m := &sh.Members[seq]
		m.rows = int(n) * group
		m.common = sh.common(seq, m.rows, &places, first)
		if first += int(n); m.common > 0 {
			sh.order = append(sh.order, uint64(seq))
			sh.most += maxNested * m.rows
		}
	}
	sh.descend(sh.order, 0, 0)
	sh.step = backend.AttendShape{}
}

// common is how many blocks of a sequence others may share: whole ones that all of its queries, from
// token first on, see, if it is a single tile. One of more tiles reads its keys for a tile's worth of rows
// anyway.
func (sh *Sharing) common(seq, rows int, places *Places, first int) int {
	if rows == 0 || rows > sh.rules.Tile(&sh.step, rows) {
		return 0
	}
	keys := places.Common(first, int(sh.step.ContextLens[seq]), int(sh.step.QueryLens[seq]))
	return min(max(keys, 0)/sh.step.BlockSize, sh.step.TableStride)
}

// tableOf is the blocks of a sequence from the one at depth on.
func (sh *Sharing) tableOf(seq uint64, depth int) []uint32 {
	return sh.step.Table[int(uint32(seq))*sh.step.TableStride:][depth:sh.step.TableStride]
}

// descend makes groups of sequences whose blocks up to depth are the same, and of which
// no group has those from block begin on.
func (sh *Sharing) descend(seqs []uint64, begin, depth int) {
	if sh.rows == sh.most || sh.tiles == len(sh.Members) {
		return
	}
	n := 0 // those that go on, by their next block; groups have the others, too
	for i, seq := range seqs {
		if seq = uint64(uint32(seq)); sh.Members[seq].common > depth {
			seqs[i], seqs[n] = seqs[n], uint64(sh.tableOf(seq, depth)[0])<<32|seq
			n++
		}
	}
	seqs = seqs[:n]
	if n > 0 && !slices.ContainsFunc(seqs, func(seq uint64) bool { return seq>>32 != seqs[0]>>32 }) {
		sh.meet(seqs, begin, depth)
		return
	}
	slices.Sort(seqs)
	for first := 0; first < n; {
		last := first + 1
		for last < n && seqs[last]>>32 == seqs[first]>>32 {
			last++
		}
		sh.meet(seqs[first:last], begin, depth)
		first = last
	}
}

// meet finds how far the tables of sequences go together that are the same up to block
// depth and in it, makes them a group if that pays, and goes on from there.
func (sh *Sharing) meet(seqs []uint64, begin, depth int) {
	if len(seqs) < 2 {
		return
	}
	rows, end := 0, sh.Members[uint32(seqs[0])].common
	first := sh.tableOf(seqs[0], depth)
	for _, seq := range seqs {
		m := &sh.Members[uint32(seq)]
		rows += m.rows
		end = min(end, m.common)
		end = depth + alike(first[:end-depth], sh.tableOf(seq, depth)[:end-depth])
	}
	block := sh.step.BlockSize
	if sh.pays(len(seqs), rows, (end-begin)*block) {
		sh.Groups = append(sh.Groups, Group{members: seqs, Key: begin * block, End: end * block, Rows: rows, First: sh.rows})
		sh.rows += rows
		sh.tiles += sh.tilesOf(rows)
		for _, seq := range seqs {
			sh.Members[uint32(seq)].Begin = end * block
		}
		begin = end
	}
	sh.descend(seqs, begin, end)
}

// tilesOf is how many tiles a group of that many rows has.
func (sh *Sharing) tilesOf(rows int) int {
	return ceilDiv(rows, sh.rules.GroupTile(&sh.step, rows))
}

// pays reports whether sequences are to be read as one over keys. There are never more tiles
// of groups than of sequences.
func (sh *Sharing) pays(seqs, rows, keys int) bool {
	tiles := sh.tilesOf(rows)
	if keys < 1 || tiles >= seqs || sh.tiles+tiles > len(sh.Members) || sh.rows+rows > sh.most {
		return false
	}
	if least := sh.step.MinShared; least > 0 {
		return keys >= least
	}
	return sh.rules.Pays(&sh.step, Sizes{seqs, rows, tiles, keys})
}

// Cut divides the keys of group i into parts of size keys, but for the last: they are parts
// of each of its members, after those of the groups that it lies in. Groups are cut in their order.
func (sh *Sharing) Cut(i, parts, size int) {
	g := &sh.Groups[i]
	g.Part, g.Parts, g.Size = sh.Members[g.Seq(0)].Parts, parts, size
	for _, seq := range g.members {
		sh.Members[uint32(seq)].Parts += parts
	}
}

// alike is how many elements a and b, which are as long, have in common from the start.
func alike(a, b []uint32) int {
	const step = 64 // that many at a time, as bytes
	n := 0
	for n+step <= len(a) && bytes.Equal(backend.BytesOf(a[n:n+step]), backend.BytesOf(b[n:n+step])) {
		n += step
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
