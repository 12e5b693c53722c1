package evict

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// Nothing here needs a constructor.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Plain: []any{&SlidingWindow{}, &PyramidKV{}, &SnapKV{}, &H2O{}, &Recency{}, &ErrPolicy{}},
	})
}
