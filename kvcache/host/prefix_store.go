package host

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// prefixStore is what a PrefixKvCache and its scopes have in common. The tree finds
// and evicts blocks, which are numbers of the allocator; slots have their content.
//
// A block is written once, before it gets here, and evicting drops the reference to
// it, so that content is read outside of the lock and by whoever still has it. No block
// has an owner between two calls. So this is no BlockStore, whose blocks are written in place and
// given back.
type prefixStore[T Element] struct {
	cfg PrefixCacheConfig // filled in

	mu      sync.Mutex
	alloc   *block.BlockAllocator
	tree    *prefix.Tree
	slots   []prefixSlot[T] // by block number
	shape   kvShape         // of what was stored first
	entries int             // ends of paths
	bytes   int64           // of content
	path    []block.Block

	hits, misses uint64
}

// prefixSlot is a block of the tree.
type prefixSlot[T Element] struct {
	data     []T    // see CachedKvState; nil: not in the tree
	parent   uint32 // the block before it, noBlock for the first
	children uint32 // blocks after it: 0 is the end of an entry
}

const (
	noBlock    = math.MaxUint32
	allocBytes = 16 // of a block of the allocator: see block.New
	slotBytes  = int(unsafe.Sizeof(prefixSlot[float32]{})) + allocBytes + prefix.EntryBytes
)

// reset makes the store empty.
func (s *prefixStore[T]) reset() error {
	alloc, err := block.New(1)
	if err != nil {
		return err
	}
	tree, err := prefix.New(alloc, prefix.Config{BlockSize: s.cfg.BlockSize, Policy: prefix.LRU})
	if err != nil {
		return err
	}
	s.alloc, s.tree, s.slots, s.entries, s.bytes = alloc, tree, nil, 0, 0
	return nil
}

// usage is the bytes that count for MaxBytes.
func (s *prefixStore[T]) usage() int64 {
	t := s.tree.Stats()
	return s.bytes + int64(len(s.slots)*slotBytes+t.Blocks*s.blockBytes()+t.Nodes*prefix.NodeBytes+t.Roots*prefix.RootBytes)
}

// blockBytes is what a block of the tree takes besides its content: tokens and number.
func (s *prefixStore[T]) blockBytes() int {
	return 4*s.cfg.BlockSize + int(unsafe.Sizeof(block.Block{}))
}

// fits refuses a prompt of another shape, and one that would be too large alone.
func (s *prefixStore[T]) fits(tokens []uint32, shape kvShape) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check(tokens, shape)
}

func (s *prefixStore[T]) check(tokens []uint32, shape kvShape) error {
	if s.shape != (kvShape{}) && s.shape != shape {
		return backend.ErrArgument{Package: "host", Op: "store", What: fmt.Sprintf("%v in a cache of %v: one cache serves one model", shape, s.shape)}
	}
	data, ok := shape.bytes(len(tokens), elementBytes[T]())
	books, fits := backend.Mul(blocksFor(len(tokens), s.cfg.BlockSize), slotBytes+s.blockBytes()+prefix.NodeBytes)
	books += prefix.RootBytes
	need := int64(math.MaxInt64)
	if ok && fits && int64(data) <= need-int64(books) {
		need = int64(data) + int64(books)
	}
	if need > s.cfg.MaxBytes || need == math.MaxInt64 { // which stands for an overflow
		return ErrOversize{Need: need, Max: s.cfg.MaxBytes}
	}
	return nil
}

// lookup is PrefixKvCache.Lookup; nil is a miss.
func (s *prefixStore[T]) lookup(root prefix.Root, tokens []uint32) *CachedKvState[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := prefix.Query{Tokens: tokens}
	if m := s.tree.Match(root, q); m.Tokens >= s.cfg.MinPrefixLen && s.take(root, q, m) == nil {
		state := &CachedKvState[T]{shape: s.shape, length: m.Tokens, blockSize: s.cfg.BlockSize, blocks: s.contents(s.path)}
		if s.tree.Release(s.path) == nil {
			s.hits++
			return state
		}
	}
	s.misses++
	return nil
}

// known is the full blocks that the tree has of a prompt which fits.
func (s *prefixStore[T]) known(root prefix.Root, tokens []uint32, shape kvShape) ([][]T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(tokens, shape); err != nil {
		return nil, err
	}
	var m prefix.Match
	s.path, m = s.tree.Lookup(s.path[:0], root, prefix.Query{Tokens: tokens})
	return s.contents(s.path[:m.Blocks]), nil
}

func (s *prefixStore[T]) contents(path []block.Block) [][]T {
	blocks := make([][]T, len(path))
	for i, b := range path {
		blocks[i] = s.slots[b.ID].data
	}
	return blocks
}

// take makes s.path the blocks of a match, owned: no eviction can touch them until
// they are released, which is when they count as used.
func (s *prefixStore[T]) take(root prefix.Root, q prefix.Query, m prefix.Match) (err error) {
	s.path, _, err = s.tree.Take(s.path[:0], root, q, prefix.RetentionHint{}, m)
	return err
}

// insert stores a prompt, whose state has blocks of the store's size and no tokens more.
func (s *prefixStore[T]) insert(root prefix.Root, tokens []uint32, state *CachedKvState[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(tokens, state.shape); err != nil {
		return err
	}
	err := s.put(root, tokens, state)
	if err == nil && s.usage() > s.cfg.MaxBytes {
		// Nothing else is left: the tables are as long as when there were more blocks.
		if err = s.reset(); err == nil {
			err = s.put(root, tokens, state)
		}
	}
	if err == nil {
		s.shape = state.shape
	}
	return err
}

// put inserts what the tree lacks of a prompt and evicts others until it fits.
func (s *prefixStore[T]) put(root prefix.Root, tokens []uint32, state *CachedKvState[T]) error {
	q := prefix.Query{Tokens: tokens}
	found, m := s.tree.Lookup(s.path[:0], root, q)
	s.path = found
	var tail block.Block // it may be the end of an entry that this one begins with
	if m.Tokens < len(tokens) {
		if m.Tail > 0 {
			tail = found[m.Blocks]
		}
		q.Tokens = tokens[:m.Blocks*s.cfg.BlockSize]
		m = s.tree.Match(root, q)
	}
	if err := s.take(root, q, m); err != nil {
		return err
	}
	if m.Tokens < len(tokens) {
		if err := s.extend(root, tokens, state); err != nil {
			return errors.Join(err, s.tree.Release(s.path))
		}
		if known, _ := s.tree.Has(tail); !known && tail != (block.Block{}) {
			s.leave(tail.ID)
		}
	}
	for (s.entries > s.cfg.MaxEntries || s.usage() > s.cfg.MaxBytes) && s.tree.Evict(1, root) {
		b, err := s.alloc.Allocate() // the last one that became free: it is the one evicted
		if err != nil {
			return errors.Join(err, s.tree.Release(s.path))
		}
		s.leave(b.ID)
		if err := s.alloc.Release(b, false); err != nil {
			return errors.Join(err, s.tree.Release(s.path))
		}
	}
	return s.tree.Release(s.path)
}

// extend appends new blocks to s.path, which is the part of a prompt that the tree
// has, and inserts them.
func (s *prefixStore[T]) extend(root prefix.Root, tokens []uint32, state *CachedKvState[T]) error {
	have := len(s.path)
	n := len(state.blocks) - have
	if short := n - s.alloc.Free(); short > 0 {
		// A quarter more than there are: what a table takes to grow is spread.
		if err := s.alloc.Grow(max(short, len(s.slots)/4)); err != nil {
			return err
		}
	}
	if more := s.alloc.Total() - len(s.slots); more > 0 {
		s.slots = append(s.slots, make([]prefixSlot[T], more)...)
	}
	path, err := s.alloc.AllocateN(s.path, n)
	if err != nil {
		return err
	}
	s.path = path
	p := prefix.Path{Root: root}
	parent := uint32(noBlock)
	if have > 0 {
		p.Parent = path[have-1]
		parent = p.Parent.ID
	}
	switch in, old, err := s.tree.Insert(nil, p, tokens[have*s.cfg.BlockSize:], path[have:]); {
	case err != nil:
		return err
	case in < n || len(old) > 0: // nobody else can have stored them, or have an owner's part in them
		return fmt.Errorf("host: prefix store: %w", prefix.ErrCorrupt)
	}
	for i := have; i < len(path); i++ {
		s.enter(path[i].ID, parent, state.blocks[i])
		parent = path[i].ID
	}
	return nil
}

// enter notes a block that the tree got, and leave one at the end of an entry that
// it lost.
func (s *prefixStore[T]) enter(id, parent uint32, data []T) {
	s.slots[id] = prefixSlot[T]{data: data, parent: parent}
	s.bytes += int64(elementBytes[T]() * len(data))
	if parent == noBlock {
		s.entries++
		return
	}
	up := &s.slots[parent]
	if up.children > 0 { // else the entry that ended there goes on
		s.entries++
	}
	up.children++
}

func (s *prefixStore[T]) leave(id uint32) {
	slot := s.slots[id]
	s.slots[id] = prefixSlot[T]{}
	s.bytes -= int64(elementBytes[T]() * len(slot.data))
	if slot.parent == noBlock {
		s.entries--
		return
	}
	up := &s.slots[slot.parent]
	up.children--
	if up.children > 0 { // else the entry ends there now
		s.entries--
	}
}
