package quant

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// A codec without a number of bits is no codec, and no panic.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{Plain: []any{&Affine{}, new(Word)}})
}
