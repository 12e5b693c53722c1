//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// An untracked buffer is ordered by events alone, ours by this library, and what they forget ends the process.
func TestUntrackedImport(t *testing.T) {
	be := open(t)
	const n = 64
	id := metalsimt.UntrackedBuffer(be.gpu.ID, 4*n)
	a, b := newStream(t, be), newStream(t, be)
	x, err := be.Import(backend.Handle{Addr: id, Untracked: true}, backend.U32, n)
	require.NoError(t, err)
	part, err := be.SubBuffer(x, 16, backend.U32, 8)
	require.NoError(t, err)
	for _, of := range []*Buffer{x, part} {
		h, err := be.Handle(of)
		require.NoError(t, err)
		require.True(t, h.Untracked)
	}
	y, err := be.Alloc(backend.U32, 1)
	require.NoError(t, err)
	event, err := be.NewEvent()
	require.NoError(t, err)
	pass := func(from, to backend.Stream) {
		require.NoError(t, from.Record(event))
		require.NoError(t, to.Wait(event))
	}
	require.NoError(t, be.Fill(a, x, 0, n, 1))
	for range 3 * batch { // several command buffers of one stream
		require.NoError(t, be.Copy(a, x, 0, x, n/2, n/2))
	}
	pass(a, b)
	require.NoError(t, be.Fill(b, part, 0, 8, 7))
	pass(b, a)
	require.NoError(t, be.Fill(a, x, 8, 4, 3))
	require.NoError(t, be.Fill(b, y, 0, 1, 1))
	pass(b, a) // between two uses that would be one command buffer's
	require.NoError(t, be.Fill(a, x, 8, 4, 9))
	pass(a, b)
	require.NoError(t, be.Fill(b, x, 0, 1, 5))
	pass(b, a)
	runner, err := be.ImportStream(a.Handle()) // the runner's queue, of which each operation is a command buffer
	require.NoError(t, err)
	pass(a, runner)
	require.NoError(t, be.Fill(runner, x, 1, 1, 6))
	require.NoError(t, be.Fill(runner, x, 2, 1, 8))
	pass(runner, b)
	got := make([]uint32, n)
	require.NoError(t, backend.Download(be, b, got, x, 0))
	require.Equal(t, []uint32{5, 6, 8, 1, 7, 7, 7, 7, 9, 9, 9, 9, 1}, got[:13])
	require.NoError(t, runner.Close())
	require.NoError(t, event.Close())
	require.NoError(t, be.Free(y))
	require.NoError(t, be.Free(x))
	mtl.Buffer(id).Release()
}

// A runner's command buffer comes after our work by a signal of its own on its queue, after Wait there, and a wait
// for that; and our work comes after it by Record there. Without either the process ends.
func TestUntrackedImportOnTheRunnersQueue(t *testing.T) {
	inAnyOrder(func() {
		be := open(t)
		const n = 64
		id := metalsimt.UntrackedBuffer(be.gpu.ID, 4*n)
		x, err := be.Import(backend.Handle{Addr: id, Untracked: true}, backend.U32, n)
		require.NoError(t, err)
		y := newBuffer(t, be, n, 0)
		theirs, err := be.gpu.NewQueue()
		require.NoError(t, err)
		theirs.Order() // each command buffer signals an event of the runner's, and begins with a wait for the one before
		r := newRunner(t, be, theirs)
		own, e := newStream(t, be), newEvent(t, be)
		s, err := be.ImportStream(backend.Handle{Addr: theirs.ID()})
		require.NoError(t, err)
		for i := range uint32(20) {
			require.NoError(t, be.Fill(own, x, 0, n, float64(i+1)))
			require.NoError(t, own.Record(e))
			require.NoError(t, s.Wait(e))
			require.NoError(t, theirs.Open())
			mark, err := theirs.Commit()
			require.NoError(t, err)
			mark.Release()
			r.run(y, x, 4*n)
			require.NoError(t, s.Record(e))
			require.NoError(t, s.Wait(e))
			require.NoError(t, be.Fill(s, x, 0, n, 0)) // on the runner's queue, and then on ours
			require.NoError(t, s.Record(e))
			require.NoError(t, own.Wait(e))
			if i%4 == 0 {
				require.NoError(t, own.Sync())
				requireAll(t, i+1, words(t, be, y))
			}
		}
		require.NoError(t, own.Sync())
		require.NoError(t, s.Close())
		theirs.Close()
		require.NoError(t, be.Free(x))
		mtl.Buffer(id).Release()
	})
}

// The command buffer that is open at the first untracked import waits, too, for those before it and for what they
// waited for.
func TestUntrackedImportBesideOpenWork(t *testing.T) {
	be := open(t)
	const n = 64
	id := metalsimt.UntrackedBuffer(be.gpu.ID, 4*n)
	s, y, e := newStream(t, be), newBuffer(t, be, n, 0), newEvent(t, be)
	require.NoError(t, be.Fill(s, y, 0, n, 3))
	require.NoError(t, s.Record(e)) // commits
	require.NoError(t, be.Fill(s, y, 0, n, 5))
	x, err := be.Import(backend.Handle{Addr: id, Untracked: true}, backend.U32, n)
	require.NoError(t, err)
	before := metalsimt.Calls("encodeWaitForEvent:value:")
	for range 2 {
		require.NoError(t, be.Copy(s, x, 0, y, 0, n))
		require.Equal(t, before+1, metalsimt.Calls("encodeWaitForEvent:value:"))
	}
	require.NoError(t, s.Sync())
	requireAll(t, 5, words(t, be, x))
	require.NoError(t, be.Free(x))
	mtl.Buffer(id).Release()
}
