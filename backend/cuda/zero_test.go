//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What Open and Alloc did not make returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{Made: []any{&Backend{}, &Buffer{}}})
}
