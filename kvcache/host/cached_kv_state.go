package host

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// CachedKvState is the keys and values of the beginning of a prompt, from a PrefixKvCache or made
// with NewCachedKvState. It shares its blocks with the cache and other states and never changes: it
// stays valid when the cache evicts them, and the garbage collector frees them with the last state.
// There is nothing to release. It is safe for concurrent use, and implements KvCacheAccess.
type CachedKvState struct {
	shape     kvShape
	length    int
	blockSize int
	// blocks have blockSize tokens each, [layers, 2, tokens, kvDim]. The last one may
	// have fewer, or more than are part of the state.
	blocks [][]float32
}

var _ KvCacheAccess = (*CachedKvState)(nil)

// NewCachedKvState copies a state from keys and values, [tokens, dim] for each layer, with the same
// dim in all. ErrArgument when the lengths do not fit.
func NewCachedKvState(keys, values [][]float32, tokens int) (*CachedKvState, error) {
	const op = "new state"
	switch {
	case tokens < 1:
		return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("%d tokens: need at least 1", tokens)}
	case len(keys) == 0 || len(keys) != len(values):
		return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("%d layers of keys and %d of values: need equally many, at least 1", len(keys), len(values))}
	}
	m := matrices{keys: keys, values: values, kvDim: len(keys[0]) / tokens}
	for layer := range keys {
		for _, have := range [...]int{len(keys[layer]), len(values[layer])} {
			if have == 0 || have != m.kvDim*tokens {
				return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("layer %d: %d elements for %d tokens of %d", layer, have, tokens, m.kvDim)}
			}
		}
	}
	return newState(op, m, tokens, DefaultPagedBlockSize, nil)
}

// newState copies the first tokens of a cache, in blocks of blockSize. known are
// blocks of them that need no copy.
func newState(op string, from KvCacheAccess, tokens, blockSize int, known [][]float32) (*CachedKvState, error) {
	shape, err := shapeOf(op, from)
	if err != nil {
		return nil, err
	}
	s := &CachedKvState{shape: shape, length: tokens, blockSize: blockSize}
	s.blocks = make([][]float32, blocksFor(tokens, blockSize))
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
func (s *CachedKvState) Len() int { return s.length }

// NumLayers is the number of layers.
func (s *CachedKvState) NumLayers() int { return s.shape.layers }

// KVDim is the number of elements of a token's keys, and of its values, in one layer.
func (s *CachedKvState) KVDim() int { return s.shape.kvDim }

// Rows are the keys and values of a layer's tokens from first to the end of a block; see
// KvCacheAccess. They are the state's own memory and must not be modified. ErrIndex when there is
// no such token, ErrArgument when there is no such layer.
func (s *CachedKvState) Rows(layer, first int) (keys, values []float32, err error) {
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
func (s *CachedKvState) Keys(layer int) ([]float32, error) {
	return s.matrix(layer, func(keys, _ []float32) []float32 { return keys })
}

// Values is a copy of a layer's values, [Len, KVDim]. ErrArgument when there is no such layer.
func (s *CachedKvState) Values(layer int) ([]float32, error) {
	return s.matrix(layer, func(_, values []float32) []float32 { return values })
}

func (s *CachedKvState) matrix(layer int, pick func(keys, values []float32) []float32) ([]float32, error) {
	if layer < 0 || layer >= s.shape.layers {
		return nil, errLayer("state", layer, s.shape.layers)
	}
	data := make([]float32, 0, s.length*s.shape.kvDim)
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

// matrices are keys and values, [tokens, dim] for each layer, as a KvCacheAccess.
type matrices struct {
	keys, values [][]float32
	kvDim        int
}

func (m matrices) NumLayers() int { return len(m.keys) }
func (m matrices) KVDim() int     { return m.kvDim }
func (m matrices) Len() int       { return len(m.keys[0]) / m.kvDim }

func (m matrices) Rows(layer, first int) (keys, values []float32, err error) {
	return m.keys[layer][first*m.kvDim:], m.values[layer][first*m.kvDim:], nil
}
