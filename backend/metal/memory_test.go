//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// refused is an allocation that does not fit: it says what would, and takes nothing.
func refused(t testing.TB, be *Backend, size int64) backend.ErrOutOfMemory {
	t.Helper()
	made := metalsimt.Calls("newBufferWithLength:options:")
	_, err := be.Alloc(backend.Int8, int(size))
	var full backend.ErrOutOfMemory
	require.True(t, errors.As(err, &full), "%v", err)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.ErrorContains(t, err, "metal:0: "+full.Error())
	require.Equal(t, backend.ErrOutOfMemory{Op: "alloc", Bytes: size, Max: full.Max}, full)
	require.Less(t, full.Max, size)
	require.Equal(t, made, metalsimt.Calls("newBufferWithLength:options:"), "Metal would give it")
	return full
}

// What is above the largest buffer, or above what the working set has left, is refused,
// and what can be had can be had.
func TestAllocKeepsToTheWorkingSet(t *testing.T) {
	be := open(t)
	largest, all := be.Caps().MaxBuffer, be.Info().TotalMemory
	require.Less(t, largest, all)
	require.Equal(t, largest, refused(t, be, largest+1).Max)
	require.Equal(t, largest, refused(t, be, all+1).Max)
	start := be.Info().FreeMemory
	require.Less(t, all-start, int64(page))
	var buffers []*Buffer
	for left := start; left > 0; left = be.Info().FreeMemory {
		want := largest
		if left < largest {
			want = refused(t, be, left+1).Max
			require.Equal(t, left, want)
		}
		b, err := be.Alloc(backend.Int8, int(want))
		require.NoError(t, err)
		buffers = append(buffers, b)
		require.Equal(t, left-pages(want), be.Info().FreeMemory)
		require.LessOrEqual(t, be.gpu.Allocated(), all)
	}
	require.Zero(t, refused(t, be, 1).Max)
	for _, b := range buffers {
		require.NoError(t, be.Free(b))
	}
	require.Equal(t, start, be.Info().FreeMemory)
}

// pages is the memory of a buffer of some bytes.
func pages(size int64) int64 { return (size + page - 1) / page * page }

// Freed memory goes back to the system: at once when nothing uses it, else when the
// command buffers that do are over, for which Alloc waits if it must and not otherwise.
func TestFreedMemoryReturns(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	bytes, held := be.gpu.Allocated, metalsimt.Count().Bytes
	start, size := bytes(), be.Caps().MaxBuffer/page*page
	b, err := be.Alloc(backend.Int8, int(size))
	require.NoError(t, err)
	require.Equal(t, start+size, bytes())
	require.NoError(t, be.Free(b))
	require.Equal(t, start, bytes(), "nobody used it")
	require.Equal(t, held, metalsimt.Count().Bytes)

	for i := range 4 { // twice what there is
		b, err := be.Alloc(backend.Int8, int(size))
		require.NoError(t, err)
		require.NoError(t, be.Fill(s, b, 0, 64, 1))
		require.NoError(t, be.Free(b))
		require.GreaterOrEqual(t, bytes(), start+size, "a command buffer has it")
		commits := metalsimt.Count().Commits
		small, err := be.Alloc(backend.Int8, 64)
		require.NoError(t, err)
		require.True(t, i > 0 || commits == metalsimt.Count().Commits, "there is room, and so no reason to wait")
		require.NoError(t, be.Free(small))
	}
	require.NoError(t, s.Sync())
	require.Equal(t, start, bytes())
	require.Equal(t, held, metalsimt.Count().Bytes)
}

// What others in the process have on the device counts, another Backend or a runner.
func TestOthersMemoryCounts(t *testing.T) {
	be, other := open(t), open(t)
	size, start := be.Caps().MaxBuffer/page*page, be.Info().FreeMemory
	memory, err := be.gpu.NewBuffer(int(size))
	require.NoError(t, err)
	b, err := other.Alloc(backend.Int8, int(size)/2)
	require.NoError(t, err)
	left := start - size - pages(size/2)
	require.Equal(t, left, be.Info().FreeMemory)
	require.Zero(t, be.Info().Allocated)
	require.Equal(t, left, refused(t, be, left+1).Max)
	require.NoError(t, other.Free(b))
	memory.Release()
	require.Equal(t, start, be.Info().FreeMemory)
}

// Memory that is private to the GPU is imported, and used by kernels and transfers; the
// host has no view of it.
func TestPrivateStorage(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	const n = 3 << 18 // three pieces of a transfer
	id := metalsimt.PrivateBuffer(be.gpu.ID, 4*n)
	b, err := be.Import(backend.Handle{Addr: id}, backend.U32, n)
	require.NoError(t, err)
	require.ErrorIs(t, second(be.HostBytes(b)), backend.ErrUnsupported{})
	data, got := make([]uint32, n), make([]uint32, n)
	for i := range data {
		data[i] = uint32(i * i)
	}
	require.NoError(t, be.Upload(s, b, 1, nil))
	require.NoError(t, be.Download(s, nil, b, 1))
	require.NoError(t, backend.Upload(be, s, b, 0, data))
	require.NoError(t, backend.Download(be, s, got, b, 0))
	require.Equal(t, data, got)
	require.NoError(t, be.Copy(s, b, 0, b, 1, n-1))
	require.NoError(t, backend.Download(be, s, got[:n-1], b, 0))
	require.Equal(t, data[1:], got[:n-1])
	require.NoError(t, be.Free(b))
	mtl.Buffer(id).Release()

	other, err := Open(1)
	require.NoError(t, err)
	id = metalsimt.UntrackedBuffer(be.gpu.ID, 64)
	require.ErrorIs(t, second(be.Import(backend.Handle{Addr: id}, backend.U32, 16)), backend.ErrUnsupported{})
	mtl.Buffer(id).Release()
	queue, err := be.gpu.NewQueue()
	require.NoError(t, err)
	require.ErrorIs(t, second(be.Import(backend.Handle{Addr: queue.ID()}, backend.U32, 16)), backend.ErrArgument{}, "a queue")
	queue.Close()
	id = metalsimt.PrivateBuffer(be.gpu.ID, 64)
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Addr: id})), backend.ErrArgument{}, "a buffer")
	mtl.Buffer(id).Release()
	id = metalsimt.PrivateBuffer(other.gpu.ID, 64)
	require.ErrorIs(t, second(be.Import(backend.Handle{Addr: id}, backend.U32, 1)), backend.ErrOtherDevice)
	mtl.Buffer(id).Release()
	require.NoError(t, other.Close())
}

// However many ask at once, freed memory is counted once: what is free never exceeds the
// working set, falls below what Alloc gives, or stays wrong when all is quiet.
func TestInfoFromSeveralGoroutines(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	start := be.Info().FreeMemory
	for range 300 {
		b, err := be.Alloc(backend.U32, 1)
		require.NoError(t, err)
		require.NoError(t, be.Fill(s, b, 0, 1, 1))
		require.NoError(t, be.Free(b))
		require.NoError(t, s.Sync())
		var asking sync.WaitGroup
		all := make(chan struct{})
		for range 8 {
			asking.Go(func() {
				<-all
				if be.Info().FreeMemory > start {
					t.Error("more is free than there was")
				}
			})
		}
		close(all)
		asking.Wait()
		require.Zero(t, be.late.Load())
		require.Equal(t, start, be.Info().FreeMemory)
	}
}
