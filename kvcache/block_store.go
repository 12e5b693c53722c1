package kvcache

import (
	"fmt"
	"math"
	"sync"
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
	data           []T

	mu    sync.Mutex
	alloc *block.BlockAllocator
}

// NewBlockStore allocates a store of so many blocks of blockSize tokens, a power of
// two, of dim elements each. ErrShape when a size is out of range or the memory
// would overflow or exceed 64 TiB. What it needs is allocated here, and never after.
func NewBlockStore[T float32 | float64](blocks, blockSize, dim int) (*BlockStore[T], error) {
	var zero T
	switch {
	case blockSize < 1 || blockSize&(blockSize-1) != 0:
		return nil, backend.ErrShape{Op: "block store", What: fmt.Sprintf("block size: have %d, need a power of two", blockSize)}
	case dim < 1:
		return nil, backend.ErrShape{Op: "block store", What: fmt.Sprintf("dim: have %d, need at least 1", dim)}
	}
	bytes, ok := backend.Mul(blocks, blockSize, dim, int(unsafe.Sizeof(zero)))
	if !ok || bytes > maxStoreBytes {
		return nil, backend.ErrShape{Op: "block store", What: fmt.Sprintf("%d blocks of %d tokens of %d elements are too large", blocks, blockSize, dim)}
	}
	alloc, err := block.New(blocks)
	if err != nil {
		return nil, backend.ErrShape{Op: "block store", What: err.Error()}
	}
	return &BlockStore[T]{blockSize: blockSize, dim: dim, alloc: alloc, data: make([]T, blocks*blockSize*dim)}, nil
}

// NewCache returns an empty cache of at most maxTokens tokens that takes its blocks
// from the store when it needs them. It may be larger than the store. Its block table,
// 8 bytes a block that it can use, is allocated here. ErrShape when maxTokens is
// negative.
func (s *BlockStore[T]) NewCache(maxTokens int) (*PagedKvCache[T], error) {
	if maxTokens < 0 {
		return nil, backend.ErrShape{Op: "paged cache", What: fmt.Sprintf("max tokens: have %d, need at least 0", maxTokens)}
	}
	return s.newCache(maxTokens), nil
}

func (s *BlockStore[T]) newCache(maxTokens int) *PagedKvCache[T] {
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
func (s *BlockStore[T]) Blocks() int { return s.alloc.Total() }

// BlocksInUse is the number of blocks that some cache holds, shared ones once.
func (s *BlockStore[T]) BlocksInUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Held()
}

// Peak is the largest BlocksInUse there ever was.
func (s *BlockStore[T]) Peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Peak()
}

// Check walks the books of the store and returns block.ErrCorrupt if they do not
// add up.
func (s *BlockStore[T]) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.Check()
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

// share adds an owner to each of bs.
func (s *BlockStore[T]) share(bs []block.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc.RetainN(bs)
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
const misused = "kvcache: PagedKvCache was copied, or used by two goroutines at once"

// give is release under the lock.
func (s *BlockStore[T]) give(bs []block.Block) {
	if err := s.alloc.ReleaseN(bs, 0); err != nil {
		panic(misused + ": " + err.Error())
	}
}

// rows is the memory of tokens from to to−1 of b, [to − from, dim].
func (s *BlockStore[T]) rows(b block.Block, from, to int) []T {
	first := int(b.ID) * s.blockSize
	return s.data[(first+from)*s.dim : (first+to)*s.dim : (first+to)*s.dim]
}
