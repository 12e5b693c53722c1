package host

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// maxStoreBytes is more than any machine has; Go cannot address what is far beyond.
const maxStoreBytes = min(math.MaxInt, 1<<46)

// BlockStore is host memory [blocks, block size, dim] that several PagedKvCaches
// share. It is safe for concurrent use: its caches may belong to different
// goroutines.
//
// A block with one owner is written by that owner without a lock; a block with
// several is never written. A second owner comes only by way of the first
// one's Clone, and who was one of several asks under the lock whether he is the
// only one now. So no write meets a read.
type BlockStore[T float32 | float64] struct {
	blockSize, dim int
	slabBlocks     int                   // blocks of one slab
	slabs          atomic.Pointer[[][]T] // [slab][blocks × block size × dim]; replaced, never changed

	mu     sync.Mutex
	alloc  *block.BlockAllocator
	caches int  // that were not released
	grows  bool // a store of NewPagedKvCache: room for each of its caches
}

// NewBlockStore allocates a store of so many blocks of blockSize tokens, a power of
// two, of dim elements each. ErrShape when a size is out of range or the memory
// would overflow or exceed 64 TiB. Its memory is allocated here, and never after.
func NewBlockStore[T float32 | float64](blocks, blockSize, dim int) (*BlockStore[T], error) {
	var zero T
	switch {
	case blockSize < 1 || blockSize&(blockSize-1) != 0:
		return nil, backend.ErrShape{Package: "host", Op: "block store", What: fmt.Sprintf("block size: have %d, need a power of two", blockSize)}
	case dim < 1:
		return nil, backend.ErrShape{Package: "host", Op: "block store", What: fmt.Sprintf("dim: have %d, need at least 1", dim)}
	}
	bytes, ok := backend.Mul(blocks, blockSize, dim, int(unsafe.Sizeof(zero)))
	if !ok || bytes > maxStoreBytes {
		return nil, backend.ErrShape{Package: "host", Op: "block store", What: fmt.Sprintf("%d blocks of %d tokens of %d elements are too large", blocks, blockSize, dim)}
	}
	alloc, err := block.New(blocks)
	if err != nil {
		return nil, backend.ErrShape{Package: "host", Op: "block store", What: err.Error()}
	}
	s := &BlockStore[T]{blockSize: blockSize, dim: dim, slabBlocks: blocks, alloc: alloc}
	s.addSlab()
	return s, nil
}

// addSlab gives the store slabBlocks blocks' memory more. Others may be reading the
// list of slabs, so it is replaced by a longer one.
func (s *BlockStore[T]) addSlab() {
	var slabs [][]T
	if old := s.slabs.Load(); old != nil {
		slabs = append(slabs, *old...)
	}
	slabs = append(slabs, make([]T, s.slabBlocks*s.blockSize*s.dim))
	s.slabs.Store(&slabs)
}

// NewCache returns an empty cache of at most maxTokens tokens that takes its blocks
// from the store when it needs them. It may be larger than the store. Its block table,
// 8 bytes a block that it can use, is allocated here. ErrShape when maxTokens is
// negative.
func (s *BlockStore[T]) NewCache(maxTokens int) (*PagedKvCache[T], error) {
	if maxTokens < 0 {
		return nil, backend.ErrShape{Package: "host", Op: "paged cache", What: fmt.Sprintf("max tokens: have %d, need at least 0", maxTokens)}
	}
	if s.alloc == nil {
		return nil, errNoStore("paged cache")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newCache(maxTokens), nil
}

// newCache is NewCache under the lock.
func (s *BlockStore[T]) newCache(maxTokens int) *PagedKvCache[T] {
	s.caches++
	blocks := min(blocksFor(maxTokens, s.blockSize), s.alloc.Total())
	return &PagedKvCache[T]{
		store: s, maxTokens: maxTokens, maxBlocks: blocks,
		table: make([]block.Block, 0, blocks+1), // one more while a shared block is replaced
	}
}

// blocksFor is the number of blocks that hold so many tokens.
func blocksFor(tokens, blockSize int) int {
	n := tokens / blockSize // rounding up by adding first would overflow
	if tokens%blockSize != 0 {
		n++
	}
	return n
}

// BlockSize is the number of tokens a block holds.
func (s *BlockStore[T]) BlockSize() int { return s.blockSize }

// Dim is the number of elements of a token.
func (s *BlockStore[T]) Dim() int { return s.dim }

// Blocks is the number of blocks, in use or not.
func (s *BlockStore[T]) Blocks() int {
	if s.alloc == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Total()
}

// BlocksInUse is the number of blocks that some cache holds, shared ones once.
func (s *BlockStore[T]) BlocksInUse() int {
	if s.alloc == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Held()
}

// Peak is the largest BlocksInUse there ever was.
func (s *BlockStore[T]) Peak() int {
	if s.alloc == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Peak()
}

// Check walks the books of the store and returns block.ErrCorrupt if they do not
// add up.
func (s *BlockStore[T]) Check() error {
	if s.alloc == nil {
		return errNoStore("check")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Check()
}

// errNoStore is an error of a store that has no memory.
func errNoStore(op string) error {
	return fmt.Errorf("host: %s: a store that was not made by NewBlockStore: %w", op, backend.ErrClosed)
}

// extend appends n blocks to table. Where shared is not 0, the table's last block
// is replaced by a copy of its first shared tokens if others own it, too.
// On error nothing has changed.
//
// The copy is made under the lock: the first of two owners to write copies, the
// second finds himself alone, and never are both blocks and the original held.
func (s *BlockStore[T]) extend(table []block.Block, n, shared int) ([]block.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(table) - 1
	if shared > 0 {
		switch refs, err := s.alloc.Refs(table[last]); {
		case err != nil || refs == 0:
			panic(misused)
		case refs == 1:
			shared = 0
		default:
			n++
		}
	}
	table, err := s.alloc.AllocateN(table, n)
	if err != nil || shared == 0 {
		return table, err
	}
	old, fresh := table[last], table[len(table)-1]
	copy(s.rows(fresh, 0, shared), s.rows(old, 0, shared))
	s.give(table[last : last+1])
	table[last] = fresh
	return table[:len(table)-1], nil
}

// clone is a new cache that owns the same blocks. A store that grows makes room
// for it to fill up on its own.
func (s *BlockStore[T]) clone(c *PagedKvCache[T]) (*PagedKvCache[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grows && s.alloc.Total() < (s.caches+1)*s.slabBlocks {
		if err := s.alloc.Grow(s.slabBlocks); err != nil {
			return nil, err
		}
		s.addSlab()
	}
	if err := s.alloc.RetainN(c.table); err != nil {
		return nil, err
	}
	clone := s.newCache(c.maxTokens)
	clone.table = append(clone.table, c.table...)
	clone.length = c.length
	return clone, nil
}

// leave ends a cache that holds no blocks any more.
func (s *BlockStore[T]) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches--
}

// release takes an owner from each of bs.
func (s *BlockStore[T]) release(bs []block.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.give(bs)
}

// misused is what is said when a cache does not own its blocks. It cannot happen
// unless the cache was copied as a struct or used by two goroutines at once, and
// then its memory may already be somebody else's.
const misused = "host: PagedKvCache was copied, or used by two goroutines at once"

// give is release under the lock.
func (s *BlockStore[T]) give(bs []block.Block) {
	if err := s.alloc.ReleaseN(bs, 0); err != nil {
		panic(misused + ": " + err.Error())
	}
}

// rows is the memory of tokens from to to−1 of b, [to − from, dim].
func (s *BlockStore[T]) rows(b block.Block, from, to int) []T {
	slab, first := (*s.slabs.Load())[int(b.ID)/s.slabBlocks], int(b.ID)%s.slabBlocks*s.blockSize
	return slab[(first+from)*s.dim : (first+to)*s.dim : (first+to)*s.dim]
}
