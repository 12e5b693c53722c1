//go:build linux && cgo && !nocuda

package cuda

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func second[T any](_ T, err error) error { return err }

// The driver's words are in what Alloc says.
func TestAllocErrors(t *testing.T) {
	be := open(t)
	require.ErrorContains(t, second(be.Alloc(backend.Int8, math.MaxInt)), "cuda:0: alloc: 9223372036854775807 bytes of ")
}

// An address is all that a handle of device memory has, and it must be one.
func TestImports(t *testing.T) {
	be := open(t)
	b, err := be.Alloc(backend.F32, 8)
	require.NoError(t, err)
	h, err := be.Handle(b)
	require.NoError(t, err)
	for name, h := range map[string]backend.Handle{
		"an offset":        {Addr: h.Addr, Offset: 4},
		"no device memory": {Addr: 4096},
	} {
		require.ErrorIs(t, second(be.Import(h, backend.F32, 1)), backend.ErrArgument{}, name)
	}
}
