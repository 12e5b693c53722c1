//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// Host and device see the same bytes: what one has written the other reads after Sync,
// without a copy.
func TestHostBytes(t *testing.T) {
	be := open(t)
	require.True(t, be.Info().HostVisible)
	s := newStream(t, be)
	a, b := newBuffer(t, be, 1000, 3), newBuffer(t, be, 1000, 0)
	require.NoError(t, be.Copy(s, b, 0, a, 0, 1000))
	require.NoError(t, s.Sync())
	requireAll(t, 3, words(t, be, b))
	for round := range uint32(3) {
		seen := words(t, be, a)
		for i := range seen {
			seen[i] = 100 + round
		}
		require.NoError(t, be.Copy(s, b, 0, a, 0, 999))
		require.NoError(t, be.Fill(s, b, 999, 1, float64(100+round)))
		require.NoError(t, s.Sync())
		requireAll(t, 100+round, words(t, be, b))
	}
	empty, err := be.Alloc(backend.U32, 0)
	require.NoError(t, err)
	bytes, err := be.HostBytes(empty)
	require.NoError(t, err)
	require.Empty(t, bytes)
	require.NoError(t, be.Free(empty))
	require.ErrorIs(t, second(be.HostBytes(empty)), backend.ErrFreed)
	require.ErrorIs(t, second(be.HostBytes(nil)), backend.ErrArgument{})
}

// runnersMemory is memory that a model runner made, until the test's end.
func runnersMemory(t testing.TB, be *Backend, size int) mtl.Buffer {
	b, err := be.gpu.NewBuffer(size)
	require.NoError(t, err)
	t.Cleanup(b.Release)
	clear(bytesOf(b))
	return b
}

// An imported MTLBuffer is used from its offset on, by kernels, transfers and the host,
// and stays the runner's.
func TestImportWithOffset(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	memory := runnersMemory(t, be, 4096)
	h := backend.Handle{Addr: uintptr(memory), Offset: 256}
	b, err := be.Import(h, backend.U32, 512)
	require.NoError(t, err)
	again, err := be.Handle(b)
	require.NoError(t, err)
	require.Equal(t, h, again)
	require.NoError(t, be.Fill(s, b, 0, 500, 7))
	require.NoError(t, backend.Upload(be, s, b, 500, []uint32{7, 7}))
	require.NoError(t, s.Sync())
	for i := 502; i < 512; i++ {
		words(t, be, b)[i] = 7
	}
	got := make([]uint32, 512)
	require.NoError(t, backend.Download(be, s, got, b, 0))
	requireAll(t, 7, got)
	whole := wordsOf(memory)
	requireAll(t, 0, whole[:64])
	requireAll(t, 7, whole[64:576])
	requireAll(t, 0, whole[576:])

	for name, h := range map[string]backend.Handle{
		"too far": {Addr: h.Addr, Offset: 2052}, "negative": {Addr: h.Addr, Offset: -4}, "unaligned": {Addr: h.Addr, Offset: 2},
		"behind the end": {Addr: h.Addr, Offset: 1 << 62}, "nothing": {Offset: 4},
	} {
		require.ErrorIs(t, second(be.Import(h, backend.U32, 512)), backend.ErrArgument{}, name)
	}
	require.NoError(t, be.Free(b))
	require.Len(t, wordsOf(memory), 1024, "still there")
}

// Free forgets an import at once, and the work that was enqueued before keeps the memory
// that its owner lets go of.
func TestImportOutlivesItsOwner(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	memory, err := be.gpu.NewBuffer(4096)
	require.NoError(t, err)
	theirs, err := be.Import(backend.Handle{Addr: uintptr(memory)}, backend.U32, 1024)
	require.NoError(t, err)
	memory.Release()
	out := newBuffer(t, be, 1024, 0)
	require.NoError(t, be.Fill(s, theirs, 0, 1024, 5))
	require.NoError(t, be.Copy(s, out, 0, theirs, 0, 1024))
	require.NoError(t, be.Free(theirs))
	require.NoError(t, s.Sync())
	requireAll(t, 5, words(t, be, out))
}
