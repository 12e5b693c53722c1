package host

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// CachedKvState is the keys and values of the beginning of a prompt, from a PrefixKvCache or made
// with NewCachedKvState. It shares its blocks with the cache and other states and never changes: it
// stays valid when the cache evicts them, and the garbage collector frees them with the last state.
// There is nothing to release. It is safe for concurrent use, and implements KvCacheAccess.
type CachedKvState[T Element] struct {
	shape     kvShape
	length    int
	blockSize int
	// blocks have blockSize tokens each, [layers, 2, tokens, kvDim]. The last one may
	// have fewer, or more than are part of the state.
	blocks [][]T
}

var _ KvCacheAccess[float32] = (*CachedKvState[float32])(nil)

// NewCachedKvState copies a state from keys and values, [tokens, dim] for each layer, with the same
// dim in all. ErrArgument when the lengths do not fit.
func NewCachedKvState[T Element](keys, values [][]T, tokens int) (*CachedKvState[T], error) {
	const op = "new state"
	if tokens < 1 || len(keys) == 0 || len(keys[0]) < tokens {
		return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("%d tokens of %d layers: need at least 1 of each, and an element for each token", tokens, len(keys))}
	}
	d, err := newDense(op, keys, values, len(keys[0])/tokens, tokens)
	if err != nil {
		return nil, err
	}
	if d.capacity() != tokens {
		return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("%d elements for %d tokens", len(keys[0]), tokens)}
	}
	return newState(op, d, tokens, DefaultPagedBlockSize, nil)
}

// newState copies the first tokens of a cache, in blocks of blockSize. known are
// blocks of them that need no copy.
func newState[T Element](op string, from KvCacheAccess[T], tokens, blockSize int, known [][]T) (*CachedKvState[T], error) {
	shape, err := shapeOf(op, from)
	if err != nil {
		return nil, err
	}
	s := &CachedKvState[T]{shape: shape, length: tokens, blockSize: blockSize}
	s.blocks = make([][]T, blocksFor(tokens, blockSize))
	for i := range s.blocks {
		first := i * blockSize
		end := first + min(blockSize, tokens-first)
		if i < len(known) && len(known[i]) == (end-first)*shape.layers*2*shape.kvDim {
			s.blocks[i] = known[i]
		} else if s.blocks[i], err = copyRows(op, from, shape, first, end); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Len is the number of tokens.
func (s *CachedKvState[T]) Len() int { return s.length }

// NumLayers is the number of layers.
func (s *CachedKvState[T]) NumLayers() int { return s.shape.layers }

// KVDim is the number of elements of a token's keys, and of its values, in one layer.
func (s *CachedKvState[T]) KVDim() int { return s.shape.kvDim }

// Rows are the keys and values of a layer's tokens from first to the end of a block; see
// KvCacheAccess. They are the state's own memory and must not be modified. ErrIndex when there is
// no such token, ErrArgument when there is no such layer.
func (s *CachedKvState[T]) Rows(layer, first int) (keys, values []T, err error) {
	switch {
	case layer < 0 || layer >= s.shape.layers:
		return nil, nil, errLayer("rows", layer, s.shape.layers)
	case first < 0 || first >= s.length:
		return nil, nil, ErrIndex{Index: first, Len: s.length}
	}
	block, at := s.blocks[first/s.blockSize], first%s.blockSize
	n := min(s.blockSize-at, s.length-first) * s.shape.kvDim
	plane := len(block) / (2 * s.shape.layers)
	from := 2*layer*plane + at*s.shape.kvDim
	return block[from : from+n : from+n], block[plane+from : plane+from+n : plane+from+n], nil
}

// Keys is a copy of a layer's keys, [Len, KVDim]. ErrArgument when there is no such layer.
func (s *CachedKvState[T]) Keys(layer int) ([]T, error) {
	return s.matrix(layer, func(keys, _ []T) []T { return keys })
}

// Values is a copy of a layer's values, [Len, KVDim]. ErrArgument when there is no such layer.
func (s *CachedKvState[T]) Values(layer int) ([]T, error) {
	return s.matrix(layer, func(_, values []T) []T { return values })
}

func (s *CachedKvState[T]) matrix(layer int, pick func(keys, values []T) []T) ([]T, error) {
	if layer < 0 || layer >= s.shape.layers {
		return nil, errLayer("state", layer, s.shape.layers)
	}
	data := make([]T, 0, s.length*s.shape.kvDim)
	for len(data) < cap(data) {
		keys, values, err := s.Rows(layer, len(data)/s.shape.kvDim)
		if err != nil {
			return nil, err
		}
		data = append(data, pick(keys, values)...)
	}
	return data, nil
}

func errLayer(op string, layer, layers int) error {
	return backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("layer %d: have %d", layer, layers)}
}
