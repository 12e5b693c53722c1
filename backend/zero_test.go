package backend_test

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no device made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made: []any{&backend.AnyBuffer{}},
		Plain: []any{new(backend.DType), new(backend.Code), new(backend.Scope), new(backend.Scale), &backend.Caps{}, &backend.RoPE{}, &backend.ErrUnsupported{}, &backend.ErrUnavailable{},
			&backend.ErrArgument{}, &backend.ErrNonFinite{}, &backend.ErrOutOfMemory{}, &backend.ErrCapture{},
			&backend.ErrCapacity{}, &backend.ErrConfig{},
			new(backend.Pairing), new(backend.RoPEScaling)},
	})
}
