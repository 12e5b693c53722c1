package host

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// KvCacheAccess reads one sequence of a runner's own cache in host memory: keys and values of every
// layer, a row of KVDim elements for each token.
type KvCacheAccess[T Element] interface {
	NumLayers() int
	KVDim() int // elements of a token's keys, and of its values, in one layer
	Len() int   // tokens that all layers have

	// Rows are the keys and values, [n, KVDim] each, of a layer's tokens from first on: as many as
	// lie together in memory, at least one. A contiguous cache returns all the rest, a paged one
	// the rest of a block, so that nothing has to be copied. The caller reads them before its next
	// call and does not modify them.
	Rows(layer, first int) (keys, values []T, err error)
}

// KvCacheTarget is a runner's own cache that a CachedKvState can be restored to.
type KvCacheTarget[T Element] interface {
	NumLayers() int
	KVDim() int
	Len() int

	// Load replaces the content of the cache by all tokens of s or, with an error, changes nothing.
	// It may retain s, which never changes.
	Load(s *CachedKvState[T]) error
}

// kvShape is what caches must have in common to exchange rows.
type kvShape struct{ layers, kvDim int }

func (s kvShape) String() string { return fmt.Sprintf("%d layers of %d elements", s.layers, s.kvDim) }

// bytes is the keys and values of that many tokens; false: it overflows.
func (s kvShape) bytes(tokens, element int) (int, bool) {
	return backend.Mul(tokens, s.layers, s.kvDim, 2*element)
}

// shapeOf asks a cache for its shape. ErrArgument for none that can be.
func shapeOf(op string, c interface {
	NumLayers() int
	KVDim() int
}) (kvShape, error) {
	if c == nil {
		return kvShape{}, backend.ErrArgument{Package: "host", Op: op, What: "the cache is nil"}
	}
	s := kvShape{c.NumLayers(), c.KVDim()}
	if s.layers < 1 || s.kvDim < 1 {
		return s, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("the cache has %v, need at least 1 of 1", s)}
	}
	return s, nil
}

// sameShape is ErrArgument unless a state fits a cache.
func sameShape[T Element](op string, s *CachedKvState[T], target KvCacheTarget[T]) error {
	have, err := shapeOf(op, target)
	switch {
	case err != nil:
		return err
	case s == nil:
		return backend.ErrArgument{Package: "host", Op: op, What: "the state is nil"}
	case s.shape != have:
		return backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf("the state has %v, the cache has %v", s.shape, have)}
	}
	return nil
}

// copyRows makes one block of a cache's tokens first to end−1: see CachedKvState.
func copyRows[T Element](op string, from KvCacheAccess[T], s kvShape, first, end int) ([]T, error) {
	plane := (end - first) * s.kvDim
	data := make([]T, s.layers*2*plane)
	for layer, rest := 0, data; layer < s.layers; layer, rest = layer+1, rest[2*plane:] {
		for done := 0; done < plane; {
			keys, values, err := from.Rows(layer, first+done/s.kvDim)
			if err != nil {
				return nil, fmt.Errorf("host: %s: layer %d: %w", op, layer, err)
			}
			if len(keys) != len(values) || len(keys) == 0 || len(keys)%s.kvDim != 0 {
				return nil, backend.ErrArgument{Package: "host", Op: op, What: fmt.Sprintf(
					"layer %d has %d elements of keys and %d of values from token %d on: need rows of %d, equally many and at least one",
					layer, len(keys), len(values), first+done/s.kvDim, s.kvDim)}
			}
			n := copy(rest[done:plane], keys)
			copy(rest[plane+done:2*plane], values[:n])
			done += n
		}
	}
	return data, nil
}
