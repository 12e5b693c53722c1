package host

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/memory"
)

// maxStoreBytes is the most memory of a store: the machine's, if known.
var maxStoreBytes = int(min(math.MaxInt, cmp.Or(hostmemory.Physical(), 1<<46)))

// blockBytes bounds the bookkeeping of a block.
const blockBytes = 32

// BlockStore is host memory [blocks, block size, dim] that several PagedKvCaches
// share. It is safe for concurrent use: its caches may belong to different
// goroutines.
type BlockStore[T Element] struct {
	memory         *memory.Memory[T] // its codes are the rows
	blockSize, dim int
	caches         atomic.Int64 // that were not released
	// roomy is the blocks that the store has for each of its caches, one of
	// NewPagedKvCache; 0: the store does not grow.
	roomy int
}

// NewBlockStore allocates a store of blocks of blockSize tokens, a power of two, with dim elements
// for each token. ErrArgument when a size is out of range or the memory would exceed the machine's. All its
// memory is allocated here.
func NewBlockStore[T Element](blocks, blockSize, dim int) (*BlockStore[T], error) {
	switch {
	case blockSize < 1 || blockSize&(blockSize-1) != 0:
		return nil, backend.ErrArgument{Package: "host", Op: "block store", What: fmt.Sprintf("block size: have %d, need a power of two", blockSize)}
	case dim < 1:
		return nil, backend.ErrArgument{Package: "host", Op: "block store", What: fmt.Sprintf("dim: have %d, need at least 1", dim)}
	}
	bytes, ok := backend.Mul(blocks, blockSize, dim, elementBytes[T]())
	if !ok || bytes > maxStoreBytes || blocks > (maxStoreBytes-bytes)/blockBytes {
		return nil, backend.ErrArgument{Package: "host", Op: "block store", What: fmt.Sprintf("%d blocks of %d tokens of %d elements are too large", blocks, blockSize, dim)}
	}
	m, err := memory.New[T](memory.Format{Codes: dim}, blocks, blockSize)
	if err != nil {
		return nil, backend.ErrArgument{Package: "host", Op: "block store", What: err.Error()}
	}
	return &BlockStore[T]{memory: m, blockSize: blockSize, dim: dim}, nil
}

// NewCache returns an empty cache of at most maxTokens tokens that takes its blocks from the store
// when it needs them. maxTokens may be more than the store has room for. The cache's block table, 8
// bytes for each block that it can use, is allocated here. ErrArgument when maxTokens is negative.
func (s *BlockStore[T]) NewCache(maxTokens int) (*PagedKvCache[T], error) {
	if maxTokens < 0 {
		return nil, backend.ErrArgument{Package: "host", Op: "paged cache", What: fmt.Sprintf("max tokens: have %d, need at least 0", maxTokens)}
	}
	if s.memory == nil {
		return nil, errNoStore("paged cache")
	}
	s.caches.Add(1)
	return s.newCache(maxTokens, min(blocksFor(maxTokens, s.blockSize), s.memory.Blocks())), nil
}

// newCache is an empty cache that is counted, and can use that many blocks.
func (s *BlockStore[T]) newCache(maxTokens, blocks int) *PagedKvCache[T] {
	return &PagedKvCache[T]{
		store: s, maxTokens: maxTokens, maxBlocks: blocks,
		table: make([]block.Block, 0, blocks+1), // one more while a shared block is replaced
	}
}

// blocksFor is the number of blocks that hold that many tokens.
func blocksFor(tokens, blockSize int) int {
	n := tokens / blockSize // rounding up by adding first would overflow
	if tokens%blockSize != 0 {
		n++
	}
	return n
}

// BlockSize is the number of tokens a block holds.
func (s *BlockStore[T]) BlockSize() int { return s.blockSize }

// Dim is the number of elements for each token.
func (s *BlockStore[T]) Dim() int { return s.dim }

// Blocks is the number of blocks, in use or not.
func (s *BlockStore[T]) Blocks() int {
	if s.memory == nil {
		return 0
	}
	return s.memory.Blocks()
}

// BlocksInUse is the number of blocks that caches hold; shared ones count once.
func (s *BlockStore[T]) BlocksInUse() int {
	if s.memory == nil {
		return 0
	}
	return s.memory.Held()
}

// Peak is the highest BlocksInUse so far.
func (s *BlockStore[T]) Peak() int {
	if s.memory == nil {
		return 0
	}
	return s.memory.Peak()
}

// Check verifies the store and returns block.ErrCorrupt with the first contradiction.
func (s *BlockStore[T]) Check() error {
	if s.memory == nil {
		return errNoStore("check")
	}
	return s.memory.Check()
}

// errNoStore is an error of a store that has no memory.
func errNoStore(op string) error {
	return fmt.Errorf("host: %s: a store that was not made by NewBlockStore: %w", op, backend.ErrClosed)
}

// misused is what is said when a cache does not own its blocks. It cannot happen
// unless the cache was copied as a struct or used by two goroutines at once, and
// then its memory may already be somebody else's.
const misused = "host: PagedKvCache was copied, or used by two goroutines at once"

// extend appends n blocks to table, the blocks of a cache. Where shared is not 0, the last
// one before them is the cache's alone then, at least its first shared tokens. On error
// nothing has changed.
func (s *BlockStore[T]) extend(table []block.Block, n, shared int) ([]block.Block, error) {
	table, err := s.memory.Extend(table, n, shared)
	if err != nil && !errors.Is(err, block.ErrOutOfBlocks{}) {
		panic(misused)
	}
	return table, err
}

// release takes an owner from each of bs.
func (s *BlockStore[T]) release(bs []block.Block) {
	if err := s.memory.Release(bs); err != nil {
		panic(misused + ": " + err.Error())
	}
}

// clone is a new cache that owns the same blocks. A store that grows makes room
// for it to fill up on its own: the count comes first, so that of two clones at once
// each makes room for both.
func (s *BlockStore[T]) clone(c *PagedKvCache[T]) (*PagedKvCache[T], error) {
	caches, err := s.caches.Add(1), error(nil)
	if s.roomy > 0 {
		err = s.memory.Grow(int(caches) * s.roomy)
	}
	if err == nil {
		err = s.memory.Retain(c.table)
	}
	if err != nil {
		s.caches.Add(-1)
		return nil, err
	}
	clone := s.newCache(c.maxTokens, c.maxBlocks)
	clone.table = append(clone.table, c.table...)
	clone.length = c.length
	return clone, nil
}
