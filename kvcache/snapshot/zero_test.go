package snapshot

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{&Writer{}, &Reader{}},
		Free:  []string{"Writer.Bytes", "Reader.Bytes"},
		Plain: []any{&ErrCorrupt{}, &ErrMismatch{}, &Plane{}, &Strip{}, &Run{}, new(Kind), new(Role)},
	})
}
