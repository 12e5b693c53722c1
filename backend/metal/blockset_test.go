//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// Planes whose memory is private to the GPU are packed and unpacked beside others, behind the work of the stream, on one of ours
// and on a shared queue.
func TestBlockSetOfPrivatePlanes(t *testing.T) {
	be := open(t)
	const blocks, each = 3, 1000
	id := metalsimt.PrivateBuffer(be.gpu.ID, 4*blocks*each)
	hidden, err := be.Import(backend.Handle{Addr: id}, backend.U32, blocks*each)
	require.NoError(t, err)
	mtl.Buffer(id).Release()
	seen, err := be.Alloc(backend.U32, blocks*each)
	require.NoError(t, err)
	set, err := backend.NewBlockSet(be, []backend.BlockPlane[*Buffer]{{Buf: hidden, Each: each}, {Buf: seen, Each: each}, {Buf: hidden, Each: each}})
	require.NoError(t, err)
	host, err := backend.HostAlloc(be, 2*set.BlockBytes())
	require.NoError(t, err)
	require.False(t, host.Pinned(), "the host copies")
	shared, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	of := func(words ...uint32) (out []byte) {
		for _, w := range words {
			out = append(out, bytes.Repeat(backend.BytesOf([]uint32{w}), each)...)
		}
		return out
	}
	for _, s := range []backend.Stream{newStream(t, be), shared} {
		for i := range uint32(blocks) {
			require.NoError(t, be.Fill(s, hidden, int(i)*each, each, float64(10+i)))
			require.NoError(t, be.Fill(s, seen, int(i)*each, each, float64(20+i)))
		}
		require.NoError(t, set.Pack(s, []uint32{2, 0}, host, 0))
		require.Equal(t, of(12, 22, 12, 10, 20, 10), host.Bytes())
		copy(host.Bytes(), of(1, 2, 1))
		require.NoError(t, be.Fill(s, seen, 0, blocks*each, 5))
		require.NoError(t, set.Unpack(s, []uint32{1}, host, 0))
		clear(host.Bytes())
		got := make([]byte, 4*blocks*each)
		require.NoError(t, be.Download(s, got, hidden, 0))
		require.Equal(t, of(10, 1, 12), got)
		require.NoError(t, be.Download(s, got, seen, 0))
		require.Equal(t, of(5, 2, 5), got)
	}
	require.NoError(t, set.Close())
	require.NoError(t, host.Close())
}

// Behind work that failed nothing is copied.
func TestBlockSetBehindAFailure(t *testing.T) {
	for _, unpack := range []bool{false, true} {
		be := openNow(t)
		s, err := be.NewStream()
		require.NoError(t, err)
		b, err := be.Alloc(backend.U32, 16)
		require.NoError(t, err)
		set, err := backend.NewBlockSet(be, []backend.BlockPlane[*Buffer]{{Buf: b, Each: 4}})
		require.NoError(t, err)
		host, err := backend.HostAlloc(be, set.BlockBytes())
		require.NoError(t, err)
		require.NoError(t, be.Fill(s, b, 0, 16, 7))
		require.NoError(t, s.Sync())
		metalsimt.FailCommands(1, metalsimt.Internal)
		require.NoError(t, be.Fill(s, b, 0, 4, 8))
		before := bytes.Clone(b.host[16:])
		if unpack {
			require.ErrorIs(t, set.Unpack(s, []uint32{1}, host, 0), backend.ErrLost)
		} else {
			require.ErrorIs(t, set.Pack(s, []uint32{1}, host, 0), backend.ErrLost)
		}
		require.Equal(t, before, b.host[16:])
		require.Equal(t, make([]byte, 16), host.Bytes())
		require.NoError(t, set.Close())
		require.NoError(t, be.Close())
		require.Equal(t, make([]byte, 16), host.Bytes(), "memory of the host outlives the device")
		require.NoError(t, host.Close())
	}
}
