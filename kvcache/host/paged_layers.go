package host

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// PagedLayers is one sequence of a model in host memory: for every layer a PagedKvCache of keys and
// one of values, to which the runner appends. A PrefixKvCache stores it and restores to it. It may
// be used by one goroutine at a time.
type PagedLayers[T Element] struct{ keys, values []*PagedKvCache[T] }

var (
	_ KvCacheAccess[float32] = (*PagedLayers[float32])(nil)
	_ KvCacheTarget[float32] = (*PagedLayers[float32])(nil)
)

// NewPagedLayers joins caches, which the caller still owns. ErrArgument unless there are as many
// caches of keys as of values, at least one of each, all different and of the same dim.
func NewPagedLayers[T Element](keys, values []*PagedKvCache[T]) (*PagedLayers[T], error) {
	if len(keys) == 0 || len(keys) != len(values) {
		return nil, backend.ErrArgument{Package: "host", Op: "paged layers", What: fmt.Sprintf("%d caches of keys and %d of values: need equally many, at least 1", len(keys), len(values))}
	}
	seen := map[*PagedKvCache[T]]bool{}
	for _, c := range slices.Concat(keys, values) {
		if c == nil || c.Dim() == 0 || c.Dim() != keys[0].Dim() || seen[c] {
			return nil, backend.ErrArgument{Package: "host", Op: "paged layers", What: "a cache is nil, a zero value, given twice or of another dim than the first"}
		}
		seen[c] = true
	}
	return &PagedLayers[T]{slices.Clone(keys), slices.Clone(values)}, nil
}

// NumLayers is the number of layers.
func (p *PagedLayers[T]) NumLayers() int { return len(p.keys) }

// KVDim is the number of elements of a token's keys, and of its values, in one layer.
func (p *PagedLayers[T]) KVDim() int {
	if len(p.keys) == 0 {
		return 0
	}
	return p.keys[0].Dim()
}

// Len is the number of tokens that all caches have. A token that only some layers have, within a
// step, does not count.
func (p *PagedLayers[T]) Len() int {
	if len(p.keys) == 0 {
		return 0
	}
	n := p.keys[0].Len()
	for layer := range p.keys {
		n = min(n, p.keys[layer].Len(), p.values[layer].Len())
	}
	return n
}

// Rows are the keys and values of a layer's tokens from first to the end of a block; see
// KvCacheAccess. They are the caches' own memory, valid until those are changed. ErrIndex when
// there is no such token, ErrArgument when there is no such layer.
func (p *PagedLayers[T]) Rows(layer, first int) (keys, values []T, err error) {
	if layer < 0 || layer >= len(p.keys) {
		return nil, nil, errLayer("rows", layer, len(p.keys))
	}
	if n := p.Len(); first < 0 || first >= n {
		return nil, nil, ErrIndex{Index: first, Len: n}
	}
	keys, values = p.keys[layer].blockFrom(first), p.values[layer].blockFrom(first)
	n := min(len(keys), len(values)) // a layer may be ahead, or have other blocks
	return keys[:n], values[:n], nil
}

// blockFrom is the tokens from i on that lie in one block.
func (c *PagedKvCache[T]) blockFrom(i int) []T {
	bs := c.store.blockSize
	return c.store.memory.Codes(c.table[i/bs], i%bs, min(bs, c.length-i/bs*bs))
}

// Load replaces the content of all caches by the tokens of s. With an error of a cache
// (ErrCapacity, ErrOutOfBlocks, ErrClosed) they are as they were; so the old blocks are held until
// the new ones are filled. ErrArgument when layers or dims differ.
func (p *PagedLayers[T]) Load(s *CachedKvState[T]) error {
	if err := sameShape("load", s, p); err != nil {
		return err
	}
	all := slices.Concat(p.keys, p.values)
	before := make([]*PagedKvCache[T], 0, len(all)) // what they had; nil: nothing
	var err error
	for i, c := range all {
		var old *PagedKvCache[T]
		if !c.IsEmpty() { // a clone may make its store grow
			if old, err = c.Clone(); err != nil {
				break
			}
		}
		before = append(before, old)
		c.Clear()
		if err = s.appendTo(c, i%len(p.keys), i >= len(p.keys)); err != nil {
			break
		}
	}
	for i, old := range before {
		c := all[i]
		if err != nil {
			c.Clear()
		}
		if old == nil {
			continue
		}
		if err != nil {
			c.table, old.table = old.table, c.table
			c.length, old.length = old.length, 0
		}
		old.Release()
	}
	return err
}

// appendTo appends a layer's keys or values to a cache.
func (s *CachedKvState[T]) appendTo(c *PagedKvCache[T], layer int, values bool) error {
	for first := 0; first < s.length; {
		rows, v, err := s.Rows(layer, first)
		if err != nil {
			return err
		}
		if values {
			rows = v
		}
		t := Tensor[T]{Data: rows, Rows: len(rows) / s.shape.kvDim, Cols: s.shape.kvDim}
		if err := c.AppendTensor(t); err != nil {
			return err
		}
		first += t.Rows
	}
	return nil
}
