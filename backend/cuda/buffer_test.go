//go:build linux && cgo && !nocuda

package cuda

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func second[T any](_ T, err error) error { return err }

// What is more than the device's memory is refused before the driver is asked, by the device's name.
func TestAllocErrors(t *testing.T) {
	be := open(t)
	err := second(be.Alloc(backend.Int8, math.MaxInt))
	require.ErrorContains(t, err, "cuda:0: ")
	var full backend.ErrOutOfMemory
	require.ErrorAs(t, err, &full)
	require.Equal(t, backend.ErrOutOfMemory{Op: "alloc", Bytes: math.MaxInt, Max: be.Info().TotalMemory}, full)
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
