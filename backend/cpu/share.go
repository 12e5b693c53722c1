package cpu

import (
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// What attention takes on one processor, in nanoseconds, from which PlanAttend tells whether sequences
// are better read as one: of the order of what processors of 2023 take, as RATIONALE has it.
const (
	nsByte      = 1. / 18 // to read keys and values
	nsProduct   = 1. / 36 // a multiply-add where few rows meet a key
	nsTall      = 1. / 48 // where many do
	nsLaid      = 0.27    // to lay out an element of a key or a value for many rows
	nsPartial   = 250     // a partial row, from its walk to the merge
	leastGained = 0.1     // of the time without sharing
)

var sharings = sync.Pool{New: func() any { return new(plan.Sharing) }}

// sharingRules are those for tiles of tileRows and of tallRows.
func (l *workload) sharingRules() plan.Rules {
	tile := tileOfFew
	if l.tileRows == tallRows {
		tile = tileOfTall
	}
	return plan.Rules{Tile: tile, GroupTile: tile, Pays: sharingPays}
}

// sharingPays compares the times of a KV head, where sequences have about as many rows each.
func sharingPays(s *backend.AttendShape, g plan.Sizes) bool {
	dims, laid := float64(s.KDim+s.VDim), s.KDim // elements that meet a row, and that are read
	bits := s.KDim * s.Format.K.Bits()
	if !s.Latent {
		laid, bits = laid+s.VDim, bits+s.VDim*s.Format.V.Bits()
	}
	read := nsByte * float64(bits) / 8
	few := func(rows float64) float64 { return max(read, nsProduct*dims*rows) }
	each := float64(g.Seqs) * few(float64(g.Rows)/float64(g.Seqs))
	tile, one := float64(g.Rows)/float64(g.Tiles), 0.0
	if one = few(tile); tile > fewRows {
		one = min(one, max(read, nsLaid*float64(laid))+nsTall*dims*tile)
	}
	gained := each - float64(g.Tiles)*one // for each key
	return gained >= leastGained*each && gained*float64(g.Keys) >= nsPartial*float64(g.Rows)
}

func tileOfFew(s *backend.AttendShape, _ int) int  { return wholeTokens(tileRows, s.QHeads/s.KVHeads) }
func tileOfTall(s *backend.AttendShape, _ int) int { return wholeTokens(tallRows, s.QHeads/s.KVHeads) }

// wholeTokens is the rows of a tile of whole tokens, of that many rows about.
func wholeTokens(rows, group int) int { return max(rows/group, 1) * group }

// share finds what sequences have in common, until noShare.
func (sp *splitter) share(s *backend.AttendShape) {
	sp.sharing = sharings.Get().(*plan.Sharing)
	sp.sharing.Find(s, sp.load.sharingRules())
}

func (sp *splitter) noShare() {
	if sp.sharing != nil {
		sharings.Put(sp.sharing)
		sp.sharing = nil
	}
}

// member is what a sequence has in common with others.
func (sp *splitter) member(seq int) plan.Member {
	if sp.sharing == nil {
		return plan.Member{}
	}
	return sp.sharing.Members[seq]
}

// setBase notes that the partial rows of a sequence come next. One of a group has no other tile.
func (sp *splitter) setBase(seq int) {
	if sp.sharing != nil {
		sp.sharing.Members[seq].Base = sp.rows
	}
}

// groups are those of the step.
func (sp *splitter) groups() []plan.Group {
	if sp.sharing == nil {
		return nil
	}
	return sp.sharing.Groups
}

// group is the query heads of a KV head.
func (sp *splitter) group() int { return sp.load.qHeads / sp.load.kvHeads }

// weighGroups adds the costs of the groups.
func (sp *splitter) weighGroups() {
	groups := sp.groups()
	for i := range groups {
		g := &groups[i]
		for tiles, tokens := sp.groupTiles(g), g.Rows/sp.group(); tiles > 0; tiles-- { // the last ones have fewer tokens
			n := ceilDiv(tokens, tiles)
			sp.add(g.End-g.Key, n*sp.group(), sp.load.kvHeads)
			tokens -= n
		}
	}
}

// groupTiles is how many tiles a group's rows make.
func (sp *splitter) groupTiles(g *plan.Group) int {
	return ceilDiv(g.Rows/sp.group(), sp.load.tileTokens())
}

// splitGroups appends the items of the groups, in tiles that are about as large.
func (sp *splitter) splitGroups() {
	groups := sp.groups()
	for i := range groups {
		g := &groups[i]
		keys, first, tokens := plan.Keys{Lo: g.Key, Hi: g.End}, g.First/sp.group(), g.Rows/sp.group()
		tiles := sp.groupTiles(g)
		parts, size := sp.partsOf(keys, ceilDiv(tokens, tiles)*sp.load.qHeads)
		sp.sharing.Cut(i, parts, size)
		for tile := range tiles {
			q0, q1 := first+tokens*tile/tiles, first+tokens*(tile+1)/tiles
			sp.cut(item{seq: manySeqs, q0: q0, q1: q1, part: g.Part, parts: g.Part + parts + 1}, keys, parts, size)
		}
	}
}

// list appends the queries of the groups, now that their sequences' partial rows are known, and
// returns how many there are.
func (sp *splitter) list(queries []uint32) (n int) {
	groups := sp.groups()
	for i := range groups {
		g := &groups[i]
		for m := range g.Seqs() {
			seq := g.Seq(m)
			for q := range int(queries[seq]) {
				sp.work = append(sp.work, uint32(seq), uint32(q), uint32(sp.sharing.Members[seq].Base+q*sp.load.qHeads))
				n++
			}
		}
	}
	return n
}
