// Package plan splits the attention of one step over a GPU, on the host. The rows
// of each sequence become tiles, and the keys that a tile sees are cut into parts
// where there are fewer tiles than the device runs blocks at once; each part is an
// item, which one block of the grid runs for one KV head. abi.AttendItem says what
// an item holds.
//
// A plan depends on its shape and the capacities of the device only.
//
// What sequences of a step have in common (Sharing), which keys a query sees (Visibility) and
// what recognises a plan (Fingerprint) are the same for every kind of device; the CPU has its own items.
package plan

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

const (
	// minKeys is how many keys a part has at least, on average: below, the merge
	// costs more than the parallelism saves.
	minKeys = 128
	// keyStep is what the parts of a tile, but for the last, are multiples of, so
	// that kernels walk whole tiles of keys.
	keyStep = 64
	// maxParts bounds the parts of a tile, so that no row's merge is long.
	maxParts = 256
	// maxTiles keeps the number of items below the largest grid.
	maxTiles = math.MaxInt32 / maxParts
)

// Capacity is how many blocks of each kind's kernel the whole device runs at once.
type Capacity [Kinds]int

// Resident is c as Attend asks for it.
func (c Capacity) Resident(k Kind) (int, error) { return c[k], nil }

// Attend plans a shape that check.Plan has accepted. It appends to s.Work[:0]. resident is how many
// blocks of a kind's kernel the whole device runs at once; it is asked for the kinds that the step
// contains, as the answer may have to be compiled first, and is 0 for kind Wide where the device has none.
func Attend(s backend.AttendShape, resident func(Kind) (int, error)) (backend.AttendPlan, error) {
	p := planner{queries: s.QueryLens, contexts: s.ContextLens, cache: cacheOf(&s, false), group: s.QHeads / s.KVHeads,
		block: s.BlockSize, fixed: s.Fixed, places: PlacesOf(&s)}
	var capacity Capacity
	var err error
	rules := &rules
	if MayBeWide(s.Format) && p.longest(Shares(&s)) > p.cache.narrow() {
		if capacity[Wide], err = resident(Wide); err != nil {
			return backend.AttendPlan{}, err
		}
		if p.cache.Wide = capacity[Wide] > 0; p.cache.Wide {
			rules = &wideRules
		}
	}
	c := Call{QHeads: s.QHeads, KVHeads: s.KVHeads, KDim: s.KDim, VDim: s.VDim, Cache: p.cache,
		Seqs: len(s.QueryLens), See: p.places.See, Views: s.Views != nil, TreeWords: s.TreeWords, Mass: s.Scores}
	if c.Tokens, err = p.count(); err != nil {
		return backend.AttendPlan{}, err
	}
	p.sharing = sharings.Get().(*sharing)
	defer sharings.Put(p.sharing)
	p.sharing.Find(&s, *rules)
	p.sharing.number(s.QueryLens)
	for kind, found := range p.kinds(&s) {
		if !found || capacity[kind] > 0 {
			continue
		}
		if capacity[kind], err = resident(Kind(kind)); err != nil {
			return backend.AttendPlan{}, err
		}
	}
	p.work = c.header(s.Work[:0])
	var chunks [Kinds]int
	for kind := range Kinds {
		chunks[kind] = p.chunk(kind, max(capacity[kind]/s.KVHeads, 1))
	}
	p.cut(&chunks)
	room := p.room(&s, capacity)
	for kind := range Kinds {
		p.work[wordLists+int(kind)] = p.split(kind, chunks[kind], room.items[kind])
	}
	items := (len(p.work) - abi.WorkHeader) / abi.ItemWords
	p.work[wordLists+int(Kinds)] = p.merges(room.merges)
	p.work[wordShared] = p.sharedRows(room.shared)
	rows := max(p.partialRows, room.partialRows)
	p.work[wordParts] = uint32(rows)
	partial, ok := backend.Mul(rows, s.KVHeads)
	space, fits := spaceOf(c.Tokens, s.QHeads, partial, s.VDim, s.Scores)
	if !ok || !fits || uint64(rows) > math.MaxUint32 {
		return backend.AttendPlan{}, shapeError("workspace: %d tokens of %d heads are too many", c.Tokens, s.QHeads)
	}
	if uint64(len(p.work)) > math.MaxUint32 {
		return backend.AttendPlan{}, shapeError("query lengths: %d tokens are too many for one step", c.Tokens)
	}
	return backend.AttendPlan{Work: p.work, Items: items, Parts: p.parts, Workspace: space.Len, Scores: s.Scores}, nil
}

func shapeError(format string, args ...any) error {
	return backend.ErrArgument{Op: "plan attend", What: fmt.Sprintf(format, args...)}
}

// planner is a plan in the making.
type planner struct {
	queries, contexts []uint32
	cache             Cache
	group, block      int // query heads of a KV head, and slots of a block
	fixed             bool
	places            Places
	*sharing

	work        []uint32
	parts       int // of the tiles of several parts
	partialRows int // of one KV head
}

// sharing is who shares what in a plan, and other memory that is kept to be used again.
type sharing struct {
	Sharing
	first   []uint32 // of each sequence's tokens
	lengths []uint32 // of the tiles of a kind, in keys
	keys    []uint64 // by which items are sorted
	sorted  []uint64 // room for as many
	items   []abi.AttendItem
}

// number notes which token of the step is each sequence's first one.
func (sh *sharing) number(queries []uint32) {
	sh.first = sh.first[:0]
	tokens := uint32(0)
	for _, n := range queries {
		sh.first = append(sh.first, tokens)
		tokens += n
	}
}

var sharings = sync.Pool{New: func() any { return new(sharing) }}

// count is the number of tokens, of a step whose numbers the work can hold.
func (p *planner) count() (tokens int, err error) {
	tiles := 0
	for i, n := range p.queries {
		tokens += int(n)
		rows, ok := backend.Mul(int(n), p.group)
		if !ok || uint64(rows) > math.MaxUint32 {
			return 0, shapeError("query lengths: sequence %d has %d tokens of %d heads a group, need at most %d rows", i, n, p.group, uint32(math.MaxUint32))
		}
		tiles += ceilDiv(rows, p.cache.tileRows(p.cache.KindOf(rows)))
		if tiles > maxTiles || uint64(tokens) > math.MaxUint32 {
			return 0, shapeError("query lengths: the first %d sequences have %d tokens, too many for one step", i+1, tokens)
		}
	}
	return tokens, nil
}

// longest is the most rows that a sequence or a group of sequences has, or may have.
func (p *planner) longest(shares bool) (rows int) {
	all := 0
	for _, n := range p.queries {
		rows, all = max(rows, int(n)), all+int(n)
	}
	if shares {
		rows = all
	}
	return rows * p.group
}

// kinds are those that the step has tiles of, or room for.
func (p *planner) kinds(s *backend.AttendShape) (found [Kinds]bool) {
	for _, n := range p.queries {
		if n > 0 {
			found[p.cache.KindOf(int(n)*p.group)] = true
		}
	}
	for i := range p.sharing.Groups {
		found[p.kindOf(&p.sharing.Groups[i])] = true
	}
	if p.fixed && Shares(s) {
		found[p.cache.largest()] = true
	}
	return found
}

// rowsOf is the rows of a sequence, 0 if they are of another kind.
func (p *planner) rowsOf(seq int, kind Kind) int {
	rows := int(p.queries[seq]) * p.group
	if p.cache.KindOf(rows) != kind {
		return 0
	}
	return rows
}

// keysOf is what rows [row, end) of a sequence see together, but for the keys of its groups.
func (p *planner) keysOf(seq, row, end int) Keys {
	keys := p.places.Of(int(p.sharing.first[seq]), int(p.contexts[seq]), int(p.queries[seq]), row/p.group, ceilDiv(end, p.group))
	if keys.Lo > 0 { // at the edges of a window leaves are whole, as kernels move them
		keys.Lo = max(keys.Lo/abi.LeafKeys*abi.LeafKeys, keys.First)
		keys.Sinks = min(roundUp(keys.Sinks, abi.LeafKeys), keys.Lo)
	}
	keys.Lo = max(keys.Lo, p.sharing.Members[seq].Begin)
	return keys
}

// split appends the items of a kind, longest first, so that the short ones fill
// the gaps at the end, and empty ones up to room. It returns their number.
func (p *planner) split(kind Kind, chunk, room int) uint32 {
	first, step := len(p.work), p.cache.tileRows(kind)
	for seq := range p.queries {
		rows := p.rowsOf(seq, kind)
		for row := 0; row < rows; row += step {
			p.tile(seq, row, min(row+step, rows), chunk)
		}
	}
	p.sharedItems(kind)
	p.sharing.sort(itemsOf(p.work[first:]))
	return p.pad(first, abi.ItemWords, room)
}

// sort puts long items first, and leaves those of one length in their order. Numbers sort
// faster than items.
func (sh *sharing) sort(items []abi.AttendItem) {
	sh.keys, sh.items = sh.keys[:0], append(sh.items[:0], items...)
	for i := range items {
		sh.keys = append(sh.keys, uint64(^(items[i].KeyEnd-items[i].Key))<<32|uint64(i))
	}
	sh.sortKeys()
	for i, key := range sh.keys {
		items[i] = sh.items[uint32(key)]
	}
}

// sortKeys sorts by the upper halves and leaves the order of equal ones, by the bytes in which some differ, the least
// significant one first: half of the instructions that slices.Sort takes for the items of 64 sequences.
func (sh *sharing) sortKeys() {
	const few = 64 // that are sorted sooner without counting 256 values
	if len(sh.keys) <= few {
		slices.Sort(sh.keys)
		return
	}
	differ := uint64(0)
	for _, key := range sh.keys {
		differ |= key ^ sh.keys[0]
	}
	sh.sorted = slices.Grow(sh.sorted[:0], len(sh.keys))[:len(sh.keys)]
	for shift := 32; shift < 64; shift += 8 {
		if byte(differ>>shift) == 0 {
			continue
		}
		var at [256]uint32 // where the next key with this byte goes
		for _, key := range sh.keys {
			at[byte(key>>shift)]++
		}
		first := uint32(0)
		for i, n := range at {
			at[i], first = first, first+n
		}
		for _, key := range sh.keys {
			i := byte(key >> shift)
			sh.sorted[at[i]] = key
			at[i]++
		}
		sh.keys, sh.sorted = sh.sorted, sh.keys
	}
}

// tile appends the items of rows [row, end) of a sequence. Rows that see no key
// have an item too, which writes zeros.
func (p *planner) tile(seq, row, end, chunk int) {
	keys, rows, m := p.keysOf(seq, row, end), end-row, &p.sharing.Members[seq]
	parts, size := p.partsOf(keys.Count(), rows, chunk)
	all := m.Parts + parts
	for part := range parts {
		last := keys.Hi
		if part < parts-1 {
			last = keys.At((part + 1) * size)
		}
		p.work = append(p.work, uint32(seq), uint32(row), uint32(rows), uint32(keys.At(part*size)), uint32(last),
			uint32(p.partialRows), uint32(m.Parts+part), uint32(all))
	}
	if all > 1 {
		m.Base = p.partialRows
		p.parts += all
		p.partialRows += all * rows
	}
}

// partsOf is into how many parts the keys of a tile are cut, and the size of all
// but the last.
func (p *planner) partsOf(keys, rows, chunk int) (parts, size int) {
	parts = min(ceilDiv(keys, chunk), keys/minKeys, maxParts)
	if parts < 2 || uint64(p.partialRows)+uint64(parts*rows) > math.MaxUint32 {
		return 1, keys
	}
	size = roundUp(ceilDiv(keys, parts), keyStep)
	return ceilDiv(keys, size), size
}

// merges appends an item for every tile that has several parts, and empty ones up to room.
// It returns their number.
func (p *planner) merges(room int) uint32 {
	first := len(p.work)
	for _, item := range itemsOf(p.work[abi.WorkHeader:]) {
		if item.Parts > 1 && item.Seq != abi.ManySeqs && item.Part == uint32(p.sharing.Members[item.Seq].Parts) {
			p.work = append(p.work, item.Seq, item.Row, item.Rows, item.Key, item.KeyEnd, item.Base, item.Part, item.Parts)
		}
	}
	return p.pad(first, abi.ItemWords, room)
}

// itemsOf is words as items.
func itemsOf(words []uint32) []abi.AttendItem {
	return unsafe.Slice((*abi.AttendItem)(unsafe.Pointer(unsafe.SliceData(words))), len(words)/abi.ItemWords)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(n, step int) int { return ceilDiv(n, step) * step }
