package gputest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

const tokenDim = 64

// newToken is an append of a token of one head to a cache of int8 that has room for no
// other. The same row is its key and its value, which the caller fills, and the slot. The
// caller frees the buffers, with an error too.
func newToken[B backend.Buffer](be backend.Backend[B]) (p backend.AppendParams[B], buffers []B, err error) {
	alloc := func(dt backend.DType, n int) (b B) {
		if err != nil {
			return b
		}
		if b, err = be.Alloc(dt, n); err == nil {
			buffers = append(buffers, b)
		}
		return b
	}
	plane := func() backend.Plane[B] {
		return backend.Plane[B]{Data: alloc(backend.Int8, tokenDim), Dim: tokenDim, Scales: backend.Some(alloc(backend.F32, 1))}
	}
	row := backend.Dense(alloc(backend.F16, tokenDim))
	p = backend.AppendParams[B]{Tokens: 1, K: row, V: row, Slots: alloc(backend.I64, 1),
		Cache: backend.CacheView[B]{K: plane(), V: plane(), Blocks: 1, KVHeads: 1, BlockSize: 1}}
	return p, buffers, err
}

// What cannot be quantized is reported once, by the next Sync of the stream that was to do
// it, ours or imported.
func testNonFinite[B launch.Buffer](t *testing.T, d *Device[B]) {
	be, caller := d.open(t), d.open(t)
	runner := newStream(t, caller)
	token, buffers, err := newToken(be)
	require.NoError(t, err)
	defer func() {
		for _, b := range buffers {
			require.NoError(t, be.Free(b))
		}
	}()
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	own, err := be.NewStream()
	require.NoError(t, err)
	imported, err := be.ImportStream(runner.Handle())
	require.NoError(t, err)
	common, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	other := newStream(t, be)
	write := func(s backend.Stream, v float64) {
		require.NoError(t, be.Fill(s, token.K.Buf, 0, tokenDim, 1))
		require.NoError(t, be.Fill(s, token.K.Buf, 7, 1, v))
		require.NoError(t, be.Append(s, token))
	}
	require.NoError(t, be.Fill(other, token.Slots, 0, 1, 0))
	require.NoError(t, other.Sync())
	for _, s := range []backend.Stream{own, imported, common} {
		write(s, 2)
		require.NoError(t, s.Sync())
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			write(s, v)
			require.NoError(t, s.Record(e))
			require.NoError(t, e.Sync(), "an event has no work of its own")
			write(other, 2)
			require.NoError(t, other.Sync())
			write(s, 2)
			require.ErrorIs(t, s.Sync(), backend.ErrNonFinite{})
			require.NoError(t, s.Sync())
		}
		token.Saturate = true
		write(s, math.NaN())
		token.Saturate = false
		require.NoError(t, s.Sync())

		wide := backend.CacheView[B]{K: backend.Plane[B]{Data: token.K.Buf, Dim: tokenDim}, V: backend.Plane[B]{Data: token.K.Buf, Dim: tokenDim},
			Blocks: 1, KVHeads: 1, BlockSize: 1}
		convert := backend.ConvertBlocksParams[B]{From: wide, To: token.Cache, Pairs: bufferOf(t, be, s, backend.U32, []uint32{0, 0}), N: 1}
		require.NoError(t, be.Fill(s, token.K.Buf, 0, 1, math.NaN()))
		require.NoError(t, be.ConvertBlocks(s, convert))
		err := s.Sync()
		require.ErrorIs(t, err, backend.ErrNonFinite{})
		require.ErrorContains(t, err, "a key (and a value)")

		write(s, math.NaN())
		require.NoError(t, s.Close(), "nobody has asked Sync")
	}
}
