package host

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{&PagedKvCache[float32]{}, &BlockStore[float32]{}, &PagedLayers[float32]{}, &Dense[float32]{}, &PrefixKvCache[float32]{}, &CachedKvState[float32]{}},
		Free:  []string{"PrefixKvCache.Scoped"}, // a part of nothing
		Plain: []any{&ErrOversize{}, &ErrIndex{}},
	})
}
