package host

import (
	"fmt"
	"iter"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// DefaultPagedBlockSize is the number of tokens in a block of a PagedKvCache that
// was given no other.
const DefaultPagedBlockSize = 16

// PagedKvCache is a list of vectors in host memory, in blocks of 16 tokens that are taken from a
// BlockStore when they are needed. It is for programs that compute attention themselves, and for
// any other list of vectors that grows at its end and is forked. Appending allocates no memory.
//
// The zero value is a released cache. A cache may be used by one goroutine at a time, its clones by
// others at the same time. It must not be copied: use Clone. Releasing blocks through a copy panics
// when the original has released them.
type PagedKvCache[T Element] struct {
	store     *BlockStore[T]
	table     []block.Block // the blocks of tokens 0, block size, 2 × block size …
	length    int
	maxTokens int
	maxBlocks int
	// exclusive: nobody else owns the last block. It is never wrongly true; false
	// means that the store has to be asked before the next write.
	exclusive bool
	released  bool
}

// Tensor is a matrix [Rows, Cols], row after row.
type Tensor[T Element] struct {
	Data       []T
	Rows, Cols int
}

// PagedOption is an option of NewPagedKvCache.
type PagedOption func(*pagedOptions)

type pagedOptions struct{ blockSize int }

// PagedBlockSize sets the number of tokens of a block, a power of two.
func PagedBlockSize(tokens int) PagedOption {
	return func(o *pagedOptions) { o.blockSize = tokens }
}

// NewPagedKvCache returns an empty cache of at most maxTokens vectors of dim elements, with a store
// of its own that has room for all of them. With 0 tokens it is always full. The memory is
// allocated here. ErrArgument when a number is out of range or the memory would overflow.
//
// Clones share that store, which grows so that each clone can become full, too; a released clone's
// room is used by the next one. Use BlockStore.NewCache for caches within a fixed amount of memory.
func NewPagedKvCache[T Element](maxTokens, dim int, opts ...PagedOption) (*PagedKvCache[T], error) {
	o := pagedOptions{blockSize: DefaultPagedBlockSize}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	blocks := 1 // a store has at least one
	if maxTokens > 0 && o.blockSize > 0 {
		blocks = blocksFor(maxTokens, o.blockSize)
	}
	store, err := NewBlockStore[T](blocks, o.blockSize, dim)
	if err != nil {
		return nil, err
	}
	store.roomy = blocks
	return store.NewCache(maxTokens)
}

// Len is the number of tokens.
func (c *PagedKvCache[T]) Len() int { return c.length }

// IsEmpty reports whether Len is 0.
func (c *PagedKvCache[T]) IsEmpty() bool { return c.length == 0 }

// MaxTokens is the most tokens the cache accepts.
func (c *PagedKvCache[T]) MaxTokens() int { return c.maxTokens }

// Dim is the number of elements of a token.
func (c *PagedKvCache[T]) Dim() int {
	if c.store == nil {
		return 0
	}
	return c.store.dim
}

// NumBlocks is the most blocks that the cache can use: those for MaxTokens, but at most its store.
func (c *PagedKvCache[T]) NumBlocks() int { return c.maxBlocks }

// BlocksInUse is the number of blocks the cache holds, shared ones included.
func (c *PagedKvCache[T]) BlocksInUse() int { return len(c.table) }

// String is one line of sizes.
func (c *PagedKvCache[T]) String() string {
	return fmt.Sprintf("PagedKvCache(len=%d, max=%d, dim=%d, blocks=%d/%d)", c.length, c.maxTokens, c.Dim(), c.BlocksInUse(), c.maxBlocks)
}

// Append adds a copy of token, [dim]. ErrArgument when it has another length, ErrCapacity when the
// cache is full, ErrOutOfBlocks when its store is full, ErrClosed after Release; the cache is then
// as it was.
func (c *PagedKvCache[T]) Append(token []T) error {
	if len(token) != c.Dim() {
		return backend.ErrArgument{Package: "host", Op: "append", What: fmt.Sprintf("token: %d elements, need %d", len(token), c.Dim())}
	}
	return c.extend(token, 1)
}

// AppendTensor adds a copy of every row of t, [n, dim], or with an error none. Errors are those of
// Append.
func (c *PagedKvCache[T]) AppendTensor(t Tensor[T]) error {
	if n, ok := backend.Mul(t.Rows, t.Cols); !ok || t.Cols != c.Dim() || n != len(t.Data) {
		return backend.ErrArgument{Package: "host", Op: "append tensor", What: fmt.Sprintf("tensor: [%d, %d] in %d elements, need [n, %d]", t.Rows, t.Cols, len(t.Data), c.Dim())}
	}
	return c.extend(t.Data, t.Rows)
}

func (c *PagedKvCache[T]) extend(data []T, tokens int) error {
	switch {
	case c.released || c.store == nil:
		return fmt.Errorf("host: paged cache: %w", backend.ErrClosed)
	case tokens > c.maxTokens-c.length:
		return backend.ErrCapacity{Package: "host", Have: c.length + tokens, Max: c.maxTokens}
	case tokens == 0:
		return nil
	}
	bs := c.store.blockSize
	n := blocksFor(c.length+tokens, bs) - len(c.table)
	shared := 0 // tokens that lie where somebody else may own the memory behind them
	if !c.exclusive {
		shared = c.length % bs
	}
	if n > 0 || shared > 0 {
		table, err := c.store.extend(c.table, n, shared)
		if err != nil {
			return fmt.Errorf("host: append: %w", err)
		}
		c.table, c.exclusive = table, true
	}
	for tokens > 0 {
		b, at := c.length/bs, c.length%bs
		fit := min(tokens, bs-at)
		copy(c.store.memory.Codes(c.table[b], at, at+fit), data)
		data = data[fit*c.Dim():]
		tokens -= fit
		c.length += fit
	}
	return nil
}

// Token is token i, [dim], in the cache's own memory: it must not be modified, and is valid until
// the cache is changed. ErrIndex when there is no such token.
func (c *PagedKvCache[T]) Token(i int) ([]T, error) {
	if i < 0 || i >= c.length {
		return nil, ErrIndex{Index: i, Len: c.length}
	}
	b, at := i/c.store.blockSize, i%c.store.blockSize
	return c.store.memory.Codes(c.table[b], at, at+1), nil
}

// GetToken is a copy of token i, [dim]. ErrIndex when there is no such token.
func (c *PagedKvCache[T]) GetToken(i int) ([]T, error) {
	view, err := c.Token(i)
	return append([]T(nil), view...), err
}

// Blocks iterates over the cache block by block without a copy: the number of the block's first
// token, and its tokens [n, dim], which must not be modified. They are valid until the cache is
// changed; it must not be changed in the loop.
func (c *PagedKvCache[T]) Blocks() iter.Seq2[int, []T] {
	return func(yield func(int, []T) bool) {
		if c.length == 0 {
			return
		}
		bs := c.store.blockSize
		for i, b := range c.table {
			if !yield(i*bs, c.store.memory.Codes(b, 0, min(bs, c.length-i*bs))) {
				return
			}
		}
	}
}

// AsTensor is a copy of all tokens, [len, dim].
func (c *PagedKvCache[T]) AsTensor() Tensor[T] {
	t := Tensor[T]{Data: []T{}, Rows: c.length, Cols: c.Dim()}
	if c.length == 0 {
		return t
	}
	// One append of all rows does not clear memory that it fills, which takes as long as half of the copy.
	if m := c.store.memory; m.Run(c.table) == len(c.table) {
		t.Data = append(t.Data, m.Codes(c.table[0], 0, c.length)...)
		return t
	}
	t.Data = make([]T, 0, c.length*c.Dim())
	for _, rows := range c.Blocks() {
		t.Data = append(t.Data, rows...)
	}
	return t
}

// Clone returns a cache with the same tokens, in the same blocks. The first of the two to append
// copies the last block when it is not full. ErrClosed after Release.
func (c *PagedKvCache[T]) Clone() (*PagedKvCache[T], error) {
	if c.released || c.store == nil {
		return nil, fmt.Errorf("host: paged cache: %w", backend.ErrClosed)
	}
	clone, err := c.store.clone(c)
	if err == nil {
		c.exclusive = false
	}
	return clone, err
}

// Truncate keeps the first n tokens and gives back blocks that are empty then. ErrIndex when n is
// negative or above Len.
func (c *PagedKvCache[T]) Truncate(n int) error {
	if n < 0 || n > c.length {
		return ErrIndex{Index: n, Len: c.length}
	}
	if n == c.length {
		return nil
	}
	keep := blocksFor(n, c.store.blockSize)
	if keep < len(c.table) {
		c.store.release(c.table[keep:])
		c.table = c.table[:keep]
		c.exclusive = false
	}
	c.length = n
	return nil
}

// Clear drops every token and gives all blocks back. The cache can be used again.
func (c *PagedKvCache[T]) Clear() {
	if len(c.table) > 0 {
		c.store.release(c.table)
	}
	c.table, c.length, c.exclusive = c.table[:0], 0, false
}

// Release gives all blocks back: the cache stays empty, and Append and Clone are ErrClosed. The
// blocks of a cache that is dropped without Release are lost to the other caches of its store.
// Releasing twice does nothing.
func (c *PagedKvCache[T]) Release() {
	if c.released || c.store == nil {
		return
	}
	c.Clear()
	c.released = true
	c.store.caches.Add(-1)
}
