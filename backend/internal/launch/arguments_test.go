package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Where kernels leave their limits a call ends with an error and not in a grid
// that is too large.
func TestArguments(t *testing.T) {
	a := arguments{op: "append"}
	require.EqualValues(t, 1<<32-1, a.count("tokens", 1<<32-1))
	require.EqualValues(t, MaxGridY, a.heads("KV heads", MaxGridY))
	require.Equal(t, Place{7, 32}, a.aligned("keys", Place{7, 32}, 48))
	require.NoError(t, a.err)
	a.count("tokens", 1<<32)
	require.ErrorIs(t, a.err, backend.ErrUnsupported{})
	a.aligned("keys", Place{At: 8}, 0) // the first error stays
	require.ErrorContains(t, a.err, "tokens")
	a = arguments{op: "append"}
	a.heads("KV heads", MaxGridY+1)
	require.ErrorIs(t, a.err, backend.ErrUnsupported{})
	for _, c := range [][2]int64{{8, 0}, {0, 8}, {16, 24}} {
		a = arguments{op: "append"}
		a.aligned("keys", Place{At: uint64(c[0])}, c[1])
		require.ErrorIs(t, a.err, backend.ErrArgument{}, "%v", c)
	}
}

func TestGrids(t *testing.T) {
	require.Equal(t, [3]uint32{1, 1, 1}, gridOf(1, 32, 1, 4))
	require.Equal(t, [3]uint32{1, 1, 1}, gridOf(32, 32, 4, 4))
	require.Equal(t, [3]uint32{2, 2, 1}, gridOf(33, 32, 5, 4))
	require.Equal(t, [3]uint32{1, 1, 1}, gridOf(0, 32, 0, 4))
	require.Equal(t, [3]uint32{maxGridX, MaxGridY, 1}, gridOf(1<<62, 1, 1<<40, 1))
	require.Equal(t, [3]uint32{1, 1, 1}, fillGridOf(1))
	require.Equal(t, [3]uint32{2, 1, 1}, fillGridOf(fillBytes+1))
	require.Equal(t, [3]uint32{fillGrid, 1, 1}, fillGridOf(1<<40))
	require.EqualValues(t, 8, unitRows(128), "two rows a warp")
	require.EqualValues(t, 4, unitRows(129))
}
