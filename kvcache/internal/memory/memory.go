// Package memory is blocks of host memory for tokens as a codec stores them: what the BlockStore
// of package host and the CacheManager of package quant have in common. Who owns a block, who may
// write to it and when its memory is there is decided here alone. Of the codec it knows the sizes:
// its users convert, or, with plain rows, have nothing to convert.
package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Memory is blocks of tokens that are stored as codes of type E. It is safe for concurrent use,
// and must not be copied.
//
// A block with one owner is read and written by that owner without a lock; a block with several
// is never written. A second owner comes only by way of the first one, see Retain, and an owner
// that was one of several asks under the lock whether it is the only one now, see Extend. So no
// write meets a read.
type Memory[E any] struct {
	format     Format
	tokens     int // of a block
	blockCodes int // tokens × format.Codes
	onDemand   bool

	// Memory is allocated in slabs of slabBlocks blocks, [block, token]. On demand a slab is one
	// block, and empty while that has no owner. The list is replaced when it gets longer, for
	// others may be reading it.
	slabBlocks uint32 // the division of a number by it is on the way to every token
	slabs      atomic.Pointer[[]Rows[E]]

	mu    sync.Mutex
	alloc *block.BlockAllocator
}

// New allocates so many blocks of tokens. Only Grow allocates after that. The error is
// block.ErrRange; that all blocks together can be addressed is the caller's to know.
func New[E any](format Format, blocks, tokens int) (*Memory[E], error) {
	m, err := newMemory[E](format, blocks, tokens)
	if err == nil {
		m.slabBlocks = uint32(blocks)
		m.addSlab()
	}
	return m, err
}

// NewOnDemand returns a memory that allocates a block when Extend hands it out and drops it with
// its last owner. It never lacks blocks.
func NewOnDemand[E any](format Format, tokens int) (*Memory[E], error) {
	m, err := newMemory[E](format, 1, tokens)
	if err == nil {
		m.slabBlocks, m.onDemand = 1, true
		m.slabs.Store(&[]Rows[E]{{}})
	}
	return m, err
}

func newMemory[E any](format Format, blocks, tokens int) (*Memory[E], error) {
	alloc, err := block.New(blocks)
	if err != nil {
		return nil, err
	}
	return &Memory[E]{format: format, tokens: tokens, blockCodes: tokens * format.Codes, alloc: alloc}, nil
}

// Room is memory for so many tokens that belongs to no block.
func (m *Memory[E]) Room(tokens int) Rows[E] {
	r := Rows[E]{Codes: make([]E, tokens*m.format.Codes)}
	if m.format.Words > 0 {
		r.Words = make([]uint32, tokens*m.format.Words)
	}
	return r
}

// Codes is the codes of tokens from to to−1 of b, which the caller owns. It is valid until the
// owner gives b back.
func (m *Memory[E]) Codes(b block.Block, from, to int) []E {
	slab, at := uint32(0), b.ID
	if at >= m.slabBlocks {
		slab, at = at/m.slabBlocks, at%m.slabBlocks
	}
	codes, n, first := (*m.slabs.Load())[slab].Codes, m.format.Codes, int(at)*m.blockCodes
	return codes[first+from*n : first+to*n : first+to*n]
}

// Run is how many blocks from the first of table on lie one after another: Codes of the first has the tokens of all.
func (m *Memory[E]) Run(table []block.Block) int {
	n := 1
	for n < len(table) && table[n].ID == table[n-1].ID+1 && table[n].ID%m.slabBlocks != 0 {
		n++
	}
	return min(n, len(table))
}

// Rows is Codes with the words beside them.
func (m *Memory[E]) Rows(b block.Block, from, to int) Rows[E] {
	slab, first := b.ID/m.slabBlocks, int(b.ID%m.slabBlocks)*m.tokens
	words, n := (*m.slabs.Load())[slab].Words, m.format.Words
	return Rows[E]{m.Codes(b, from, to), words[(first+from)*n : (first+to)*n : (first+to)*n]}
}

// Blocks is the number of blocks, with an owner or not.
func (m *Memory[E]) Blocks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alloc.Total()
}

// Held is the number of blocks that have owners.
func (m *Memory[E]) Held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alloc.Held()
}

// Peak is the largest Held there ever was.
func (m *Memory[E]) Peak() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alloc.Peak()
}

// Check walks the books and returns block.ErrCorrupt if they do not add up: blocks and their
// owners, and the memory that is there for them.
func (m *Memory[E]) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alloc.Check(); err != nil {
		return err
	}
	slabs, filled := *m.slabs.Load(), 0
	for i, s := range slabs {
		tokens := int(m.slabBlocks) * m.tokens
		switch {
		case len(s.Codes) == tokens*m.format.Codes && len(s.Words) == tokens*m.format.Words:
			filled++
		case !m.onDemand || s.Codes != nil || s.Words != nil:
			return fmt.Errorf("%w: slab %d has %d codes and %d words", block.ErrCorrupt, i, len(s.Codes), len(s.Words))
		}
	}
	if len(slabs)*int(m.slabBlocks) != m.alloc.Total() || m.onDemand && filled != m.alloc.Held() {
		return fmt.Errorf("%w: %d slabs of %d blocks, %d with memory, for %d blocks of which %d have owners",
			block.ErrCorrupt, len(slabs), m.slabBlocks, filled, m.alloc.Total(), m.alloc.Held())
	}
	return nil
}
