package host

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Dense is one sequence of a runner's own cache in tensors, which a PrefixKvCache reads and restores. It may be used by one
// goroutine at a time.
type Dense[T Element] struct {
	keys, values  [][]T
	kvDim, tokens int
}

var (
	_ KvCacheAccess[float32] = (*Dense[float32])(nil)
	_ KvCacheTarget[float32] = (*Dense[float32])(nil)
)

// NewDense returns a Dense over a sequence whose keys and values are [capacity, kvDim] in each layer, for kvDim = heads × dim:
// of a tensor [batch, seq, heads, dim] the part of one sequence. The memory stays the caller's and is not copied; the first tokens of its
// rows are in use. ErrArgument when lengths do not fit.
func NewDense[T Element](keys, values [][]T, kvDim, tokens int) (*Dense[T], error) {
	return newDense("dense", keys, values, kvDim, tokens)
}

func newDense[T Element](op string, keys, values [][]T, kvDim, tokens int) (*Dense[T], error) {
	switch {
	case kvDim < 1:
		return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("rows of %d elements: need at least 1", kvDim)}
	case len(keys) == 0 || len(keys) != len(values):
		return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("%d layers of keys and %d of values: need equally many, at least 1", len(keys), len(values))}
	}
	for layer := range keys {
		for _, have := range [...]int{len(keys[layer]), len(values[layer])} {
			if have != len(keys[0]) || have%kvDim != 0 {
				return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("layer %d: %d elements, need whole rows of %d, and %d elements in each layer", layer, have, kvDim, len(keys[0]))}
			}
		}
	}
	d := &Dense[T]{keys: slices.Clone(keys), values: slices.Clone(values), kvDim: kvDim}
	if err := d.SetLen(tokens); err != nil {
		return nil, err
	}
	return d, nil
}

// NumLayers is the number of layers.
func (d *Dense[T]) NumLayers() int { return len(d.keys) }

// KVDim is the number of elements of a token's keys, and of its values, in one layer.
func (d *Dense[T]) KVDim() int { return d.kvDim }

// Len is the number of tokens in use.
func (d *Dense[T]) Len() int { return d.tokens }

// SetLen says how many tokens are in use: a runner calls it after it has written rows. ErrArgument for a negative number,
// ErrCapacity for more than there are rows.
func (d *Dense[T]) SetLen(tokens int) error {
	if tokens < 0 {
		return backend.ErrArgument{Package: "host", Op: "dense", What: fmt.Sprintf("%d tokens: need at least 0", tokens)}
	}
	if rows := d.capacity(); tokens > rows {
		return backend.ErrCapacity{Package: "host", Have: tokens, Max: rows}
	}
	d.tokens = tokens
	return nil
}

// capacity is the rows that there are.
func (d *Dense[T]) capacity() int {
	if d.kvDim == 0 {
		return 0
	}
	return len(d.keys[0]) / d.kvDim
}

// Rows are all of a layer's keys and values from a token on; see KvCacheAccess. ErrIndex when there is no such token,
// ErrArgument when there is no such layer.
func (d *Dense[T]) Rows(layer, first int) (keys, values []T, err error) {
	switch {
	case layer < 0 || layer >= len(d.keys):
		return nil, nil, errLayer("rows", layer, len(d.keys))
	case first < 0 || first >= d.tokens:
		return nil, nil, ErrIndex{Index: first, Len: d.tokens}
	}
	from, to := first*d.kvDim, d.tokens*d.kvDim
	return d.keys[layer][from:to:to], d.values[layer][from:to:to], nil
}

// Load copies all tokens of s to the beginning of the rows. ErrCapacity, before anything is written, when there are fewer rows,
// ErrArgument when layers or dims differ.
func (d *Dense[T]) Load(s *CachedKvState[T]) error {
	if err := sameShape("load", s, d); err != nil {
		return err
	}
	if rows := d.capacity(); s.length > rows {
		return backend.ErrCapacity{Package: "host", Have: s.length, Max: rows}
	}
	for layer := range d.keys {
		for first := 0; first < s.length; {
			keys, values, err := s.Rows(layer, first)
			if err != nil {
				return err
			}
			at := first * d.kvDim
			copy(d.keys[layer][at:], keys)
			copy(d.values[layer][at:], values)
			first += len(keys) / d.kvDim
		}
	}
	d.tokens = s.length
	return nil
}
