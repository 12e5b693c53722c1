//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// A caller's stream may be one that no Backend made, or a default one; the default stream
// of each thread is nobody's.
func TestImportStream(t *testing.T) {
	be := open(t)
	runner, err := be.ctx.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, be.ctx.DestroyStream(runner)) }()
	b, err := be.Alloc(backend.U32, 1)
	require.NoError(t, err)
	for i, h := range []backend.Handle{{Addr: uintptr(runner)}, {}, {Addr: 1}} {
		imported, err := be.ImportStream(h)
		require.NoError(t, err)
		require.Equal(t, h, imported.Handle())
		got := make([]uint32, 1)
		require.NoError(t, be.Fill(imported, b, 0, 1, float64(i+1)))
		require.NoError(t, backend.Download(be, imported, got, b, 0))
		require.EqualValues(t, i+1, got[0])
		require.NoError(t, imported.Close())
	}
	require.NoError(t, be.ctx.Sync(runner), "still there")
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Addr: perThread})), backend.ErrUnsupported{})
	require.NoError(t, be.Free(b))
}

// A merge is spread over a warp for each 128 elements of a row, and over a block where there are many parts.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		seqs, tokens, qHeads, kvHeads, dim uint32
		parts                              int64
		want                               uint32
	}{
		{64, 64, 32, 8, 128, 3, 1},  // decode: the four rows of an item are a block's
		{64, 64, 64, 8, 128, 8, 2},  // eight rows
		{1, 1, 32, 8, 128, 9, 4},    // a block for each of them
		{1, 512, 32, 8, 128, 2, 16}, // tiles of 64 rows
		{1, 512, 32, 8, 128, 9, 64}, // of many parts
		{8, 8, 16, 1, 512, 8, 16},   // four times 128 elements
		{3, 3, 8, 8, 64, 1, 1},      // one row
		{0, 0, 0, 0, 0, 0, 1},       // nothing, which is not launched
		{2, 3, 12, 4, 192, 100, 12}, // two tokens of three heads, in two pieces
	} {
		args := abi.AttendArgs{Seqs: c.seqs, Tokens: c.tokens, QHeads: c.qHeads, KVHeads: c.kvHeads, VDim: c.dim,
			PartialRows: c.parts * int64(c.tokens) * int64(c.qHeads)}
		require.Equal(t, c.want, spread(&args), "%+v", c)
	}
}
