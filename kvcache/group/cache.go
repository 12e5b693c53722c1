package group

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Part is layers that have a list of blocks in common, and what they need.
type Part struct {
	Rule
	Each int // blocks in an entry of the tree; of a State one
	// Group is what events call the part's group. Parts of one group are told together: Stored when an entry has the blocks of
	// all of them, Removed when it has no longer. 0: they are not told, as those of Full parts, which are where their
	// entry is.
	Group int
}

// Config configures a Cache.
type Config struct {
	Tree prefix.Config // BlockSize is the tokens of an entry: Each times Block of every part
	// Entries is the most entries of the tree.
	Entries int // not asked for where those are blocks
	Parts   []Part
	// Every is the retention of blocks that leave a window or chunk while their sequence goes on: those that
	// are read at every Every-th border of entries stay findable; 1: all, 0: none. What a sequence has at its
	// end stays in any case.
	Every int
	// Share is the part of the allocator's blocks, in percent, that may be cached blocks of windows and states
	// when blocks are needed for something else. 0: those go first; 100: as long as others can go.
	Share int
}

// Cache is what a prefix tree has of the blocks of several parts. An entry of the tree, which the tree takes for a
// block, is a place on a path of tokens; with it are, for each part, the blocks that hold these tokens, or, of a part
// that does not need them, none. Entries have owners, as in a tree of blocks, and blocks have their own:
//
//   - An owner of an entry owns the entries before it, and those of the blocks of Full parts that are with them.
//   - A block that is with an entry and has no owner is cached. Those of Full parts leave with their entry;
//     one of a window, a chunk or a state may be evicted alone, and be put there again by a sequence that computes it anew.
//
// A path is a hit up to where every part has what it needs: see Match.
//
// Where there is one part, which is Full, and an entry has one block of it, the entry is that block, and the two have the same
// owners.
//
// Methods must be called under the lock that guards the allocator, but for Peek.
type Cache struct {
	tree  *prefix.Tree
	ids   *block.BlockAllocator // entries; nil: those are blocks
	pages *block.BlockAllocator // blocks
	how   layout                // entries are blocks, or have rows of them; nil: see Tree
	parts []Part
	begin []int // of each part, in an entry's row
	width int   // of a row
	full  int   // blocks of Full parts in an entry
	every int
	most  int // cached blocks that can go alone, before others go

	table  []block.Block  // [entries, width]: the blocks with an entry
	names  []block.Block  // [entries]: what an entry is called
	short  map[uint32]int // tokens of entries that are not full and have a state
	places []place        // by block: where it is
	counts []int          // of each part: blocks that are with entries
	old    links          // cached blocks that can go alone, the least recently released first
	leases []lease
	path   []block.Block // scratch
	runs   [1]Run        // likewise, of the only part
	wrote  []block.Block // by the last Insert
}

// New returns a cache over the blocks of an allocator that has no entries.
func New(pages *block.BlockAllocator, cfg Config) (*Cache, error) {
	if pages == nil {
		return nil, prefix.ErrArgument{Op: "new", Why: "the allocator is nil"}
	}
	for i, p := range cfg.Parts {
		if int(p.Kind) >= len(kind.Table) || p.keeps().Rows() && (p.Block < 1 || p.lacks()) {
			return nil, prefix.ErrArgument{Op: "new", Why: fmt.Sprintf("part %d: its rule is %+v", i, p.Rule)}
		}
		if p.keeps() != kind.Nothing && p.Each < 1 || p.keeps() == kind.State && p.Each > 1 {
			return nil, prefix.ErrArgument{Op: "new", Why: fmt.Sprintf("part %d: %d blocks in an entry, need 1 or more, and 1 for states", i, p.Each)}
		}
	}
	if cfg.plain() {
		c := &Cache{pages: pages, parts: cfg.Parts, full: 1, width: 1, every: cfg.Every}
		var err error
		c.how = plain{c}
		c.tree, err = prefix.New(pages, cfg.Tree)
		return c, err
	}
	return newRows(pages, cfg)
}

// newRows returns a cache whose entries have rows of blocks.
func newRows(pages *block.BlockAllocator, cfg Config) (*Cache, error) {
	if cfg.Tree.MaxOffloaded != 0 {
		return nil, prefix.ErrArgument{Op: "new", Why: "entries with blocks of several parts are not offloaded"}
	}
	ids, err := block.New(cfg.Entries)
	if err != nil {
		return nil, err
	}
	c := &Cache{ids: ids, pages: pages, parts: cfg.Parts, every: cfg.Every, most: pages.Total() * cfg.Share / 100,
		places: make([]place, pages.Total()), short: map[uint32]int{}}
	c.how = rows{c}
	for _, p := range cfg.Parts {
		if p.Each > math.MaxInt32 {
			return nil, prefix.ErrArgument{Op: "new", Why: fmt.Sprintf("%d blocks of a part in an entry are too many", p.Each)}
		}
		c.begin = append(c.begin, c.width)
		c.width += p.Each
		if p.keeps() == kind.All {
			c.full += p.Each
		}
	}
	if c.width < 0 || c.width > math.MaxInt32/cfg.Entries {
		return nil, prefix.ErrArgument{Op: "new", Why: fmt.Sprintf("%d entries of %d blocks are too many", cfg.Entries, c.width)}
	}
	c.counts = make([]int, len(c.parts))
	c.table, c.names = make([]block.Block, cfg.Entries*c.width), make([]block.Block, cfg.Entries)
	cfg.Tree.Left = c.left
	c.tree, err = prefix.New(ids, cfg.Tree)
	return c, err
}

// layout is how blocks are with the tree's entries. There are two: plain, and rows.
type layout interface {
	evict(n int, r prefix.Root) bool
	evictAny(n int) bool
	forget(b block.Block) bool
	pin(r prefix.Root, q prefix.Query, d time.Duration) (*prefix.Lease, error)
	leased(visit func(block.Block))
	leasedEntries(visit func(block.Block))
	check() error
	insert(path, old []block.Block, p prefix.Path, tokens []uint32, held func(part, i int) *block.Block) (n int, _, _ []block.Block, err error)
	take(r prefix.Root, q prefix.Query, k prefix.RetentionHint, found prefix.Match) (Found, error)
	hand(path []block.Block, n int) (Found, error)
	hold(blocks []block.Block) ([]block.Block, error)
	keep(path []block.Block, n int) (entries, blocks []block.Block, err error)
	retain(b block.Block) error
	release(bs []block.Block) error
	drop(part, i int, b block.Block, m RestorePoints)
	at(entry block.Block, part, i int) block.Block
	pathOf(path, blocks []block.Block) []block.Block
	with(part int) int
	has(b block.Block) (known, end bool)
}

// rows is a cache whose entries have a row of blocks each.
type rows struct{ *Cache }

func (c *Cache) layout() layout {
	if c.how == nil { // New did not make it
		return rows{c}
	}
	return c.how
}

// Tree finds entries. A caller that changes it directly has to know what is with them. That of a cache that New did not make is
// empty, like its allocators.
func (c *Cache) Tree() *prefix.Tree { return cmp.Or(c.tree, &noTree) }

// Entries is the allocator of entries that are not blocks.
func (c *Cache) Entries() *block.BlockAllocator { return cmp.Or(c.ids, &noBlocks) }

func (c *Cache) blocks() *block.BlockAllocator { return cmp.Or(c.pages, &noBlocks) }

var (
	noTree   prefix.Tree
	noBlocks block.BlockAllocator
)

// row is the blocks of a part that are with an entry, none if the entry is not the cache's.
func (c *Cache) row(entry block.Block, part int) []block.Block {
	if part < 0 || part >= len(c.parts) || uint(entry.ID) >= uint(len(c.names)) {
		return nil
	}
	at := int(entry.ID)*c.width + c.begin[part]
	return c.table[at:][:c.parts[part].Each]
}

// Block is block i of a part that is with an entry of the tree, the zero Block if none is.
func (c *Cache) Block(entry block.Block, part, i int) block.Block {
	return c.layout().at(entry, part, i)
}

func (c rows) at(entry block.Block, part, i int) block.Block {
	if row := c.row(entry, part); uint(i) < uint(len(row)) {
		return row[i]
	}
	return block.Block{}
}

// PathOf is the entries of a sequence that owns those of a path and has such blocks of the first part.
func (c *Cache) PathOf(path, blocks []block.Block) []block.Block {
	return c.layout().pathOf(path, blocks)
}

func (rows) pathOf(path, _ []block.Block) []block.Block { return path }

// in is block i of a part along a path, or none.
func (c *Cache) in(path []block.Block, part, i int) block.Block {
	each := c.parts[part].Each
	if i < 0 || i/each >= len(path) {
		return block.Block{}
	}
	return c.Block(path[i/each], part, i%each)
}

// placed reports whether a block is with an entry.
func (c *Cache) placed(b block.Block) bool {
	return uint(b.ID) < uint(len(c.places)) && c.places[b.ID].at != 0
}

// With is the number of a part's blocks that are with entries; of no cache none are.
func (c *Cache) With(part int) int {
	if c == nil || part < 0 || part >= len(c.parts) {
		return 0
	}
	return c.layout().with(part)
}

func (c rows) with(part int) int { return c.counts[part] }

// Has reports whether a block is with an entry, and whether that is the end of a path without an owner.
func (c *Cache) Has(b block.Block) (known, end bool) { return c.layout().has(b) }

func (c rows) has(b block.Block) (known, end bool) {
	if !c.placed(b) || c.table[c.places[b.ID].at-1] != b {
		return false, false
	}
	e := c.entry(b)
	_, leaf := c.Tree().Has(e)
	owners, err := c.Entries().Refs(e)
	return true, leaf && err == nil && owners == 0
}

// entry is where a block is.
func (c *Cache) entry(b block.Block) block.Block {
	return c.names[int(c.places[b.ID].at-1)/c.width]
}

// attach puts a block with an entry.
func (c *Cache) attach(entry block.Block, part, i int, b block.Block) {
	at := int(entry.ID)*c.width + c.begin[part] + i
	c.table[at], c.places[b.ID].at, c.names[entry.ID] = b, uint32(at+1), entry
	c.counts[part]++
	if g := c.parts[part].Group; g > 0 && c.complete(entry, g) {
		c.Tree().Tell(prefix.Stored, entry, g)
	}
}

// complete reports whether an entry has the blocks of all parts of a group.
func (c *Cache) complete(entry block.Block, g int) bool {
	for part := range c.parts {
		if c.parts[part].Group == g && slices.Contains(c.row(entry, part), block.Block{}) {
			return false
		}
	}
	return true
}

// detach takes a block away from its entry, which stays. Without an owner it is free from here on.
func (c *Cache) detach(b block.Block) {
	entry := c.entry(b)
	if g := c.parts[c.part(c.places[b.ID].at)].Group; g > 0 && c.complete(entry, g) {
		c.Tree().Tell(prefix.Removed, entry, g)
	}
	c.remove(b)
}

// remove is detach without a word.
func (c *Cache) remove(b block.Block) {
	c.old.remove(c.places, b.ID)
	p := &c.places[b.ID]
	c.counts[c.part(p.at)]--
	c.table[p.at-1] = block.Block{}
	p.at = 0
	if refs, err := c.blocks().Refs(b); err == nil && refs == 0 {
		_ = c.blocks().Discard(b) // it is cached: it was with an entry
	}
}

// left receives entries that left the tree: what is with them is of no use.
func (c *Cache) left(entry block.Block) {
	delete(c.short, entry.ID)
	row := c.table[int(entry.ID)*c.width:][:c.width]
	for i := len(row) - 1; i >= 0; i-- {
		if row[i] != (block.Block{}) {
			c.remove(row[i]) // the event of the entry says it all
		}
	}
}

// part is whose a place in the rows is.
func (c *Cache) part(at uint32) int {
	i := int(at-1) % c.width
	part := len(c.begin) - 1
	for c.begin[part] > i {
		part--
	}
	return part
}

// alone reports whether a block at a place in the rows can go without its entry.
func (c *Cache) alone(at uint32) bool { return c.parts[c.part(at)].keeps() != kind.All }

// Events describes the groups that are told and are with entries now, as Subscribe describes the entries.
func (c *Cache) Events() (all []prefix.Event) {
	for id, e := range c.names {
		if known, _ := c.Tree().Has(e); !known || e.ID != uint32(id) {
			continue
		}
		told := 0 // parts of a group follow each other
		for _, p := range c.parts {
			if p.Group > told && c.complete(e, p.Group) {
				all = append(all, c.Tree().Describe(e, p.Group))
			}
			told = max(told, p.Group)
		}
	}
	return all
}
