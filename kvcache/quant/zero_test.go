package quant

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{&CacheManager{}, &Layer{}},
		Plain: []any{&ErrNotHeld{}},
	})
}
