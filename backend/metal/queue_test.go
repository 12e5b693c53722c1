//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// runner enqueues on a queue by itself, as a model runner does that knows nothing of us.
type runner struct {
	t     testing.TB
	queue *mtl.Queue
	copy  *kernel
}

func newRunner(t testing.TB, be *Backend, queue *mtl.Queue) *runner {
	k, err := be.modules.find(&launch.Call{Kernel: launch.Kernel{Op: launch.OpCopy}})
	require.NoError(t, err)
	return &runner{t, queue, k}
}

// run copies bytes within its own command buffer.
func (r *runner) run(dst, src *Buffer, size int) {
	var calls launch.Calls
	launch.Copy(&calls, dst.Place(), src.Place(), size)
	c := &calls.List()[0]
	l := &mtl.Launch{Pipeline: r.copy.pipeline.ID, Grid: c.Grid, Threads: r.copy.threads, Count: uint32(len(c.Buffers()))}
	for i, b := range c.Buffers() {
		l.Buffers[i], l.Offsets[i] = b.Memory, b.At
	}
	l.Size = uint32(copy(l.Args[:], c.Args()))
	require.NoError(r.t, r.queue.Launch(l))
	mark, err := r.queue.Commit()
	require.NoError(r.t, err)
	mark.Release()
}

// On a queue that is shared with a runner, ours or the runner's, each of our operations
// lies between the runner's command buffers where it was called.
func TestOrderOnASharedQueue(t *testing.T) {
	inAnyOrder(func() {
		be := open(t)
		theirs, err := be.gpu.NewQueue()
		require.NoError(t, err)
		imported, err := be.ImportStream(backend.Handle{Addr: theirs.ID()})
		require.NoError(t, err)
		testOrder(t, be, imported, newRunner(t, be, theirs))
		require.Equal(t, theirs.ID(), imported.Handle().Addr)
		require.NoError(t, imported.Close())
		theirs.Close()

		own := newStream(t, be)
		b := newBuffer(t, be, 1, 0)
		require.NoError(t, be.Fill(own, b, 0, 1, 9), "before the queue is shared")
		theirs, err = be.gpu.ImportQueue(own.Handle().Addr)
		require.NoError(t, err)
		testOrder(t, be, own, newRunner(t, be, theirs))
		requireAll(t, 9, words(t, be, b))
		theirs.Close()
	})
}

// testOrder hands values to the runner and takes them back, each time the next.
func testOrder(t testing.TB, be *Backend, s backend.Stream, r *runner) {
	const rounds, n = 20, 64
	a, b, log := newBuffer(t, be, n, 0), newBuffer(t, be, n, 0), newBuffer(t, be, rounds, 0)
	for i := range rounds {
		require.NoError(t, be.Fill(s, a, 0, n, float64(i)))
		r.run(b, a, 4*n)
		require.NoError(t, be.Copy(s, log, i, b, n-1, 1))
	}
	require.NoError(t, s.Sync())
	for i, v := range words(t, be, log) {
		require.EqualValues(t, i, v)
	}
}

// An import of nothing is the queue of all imports of nothing.
func TestCommonQueue(t *testing.T) {
	be := open(t)
	a, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	b, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	x := newBuffer(t, be, 8, 0)
	for i := range 10 { // in the order of the calls, without an event
		require.NoError(t, be.Fill(a, x, 0, 8, float64(i)))
		require.NoError(t, be.Fill(b, x, 4, 4, float64(i+100)))
	}
	require.NoError(t, b.Sync())
	require.Equal(t, []uint32{9, 9, 9, 9, 109, 109, 109, 109}, words(t, be, x))
	require.NotZero(t, a.Handle().Addr)
	require.Equal(t, a.Handle(), b.Handle())
	require.NoError(t, a.Close())
	require.NoError(t, b.Sync(), "it stays for the other")
	require.NoError(t, b.Close())
}

// Transfers, marks and waits on a shared queue lie between the runner's command buffers, too.
func TestTransfersOnASharedQueue(t *testing.T) {
	inAnyOrder(func() {
		be := open(t)
		theirs, err := be.gpu.NewQueue()
		require.NoError(t, err)
		s, err := be.ImportStream(backend.Handle{Addr: theirs.ID()})
		require.NoError(t, err)
		other, e := newStream(t, be), newEvent(t, be)
		r := newRunner(t, be, theirs)
		const n = 64
		a, b, c, got := newBuffer(t, be, n, 0), newBuffer(t, be, n, 0), newBuffer(t, be, n, 0), make([]uint32, n)
		for i := range uint32(20) {
			values := slices.Repeat([]uint32{i + 1}, n)
			require.NoError(t, backend.Upload(be, s, a, 0, values))
			r.run(b, a, 4*n)
			require.NoError(t, backend.Upload(be, s, a, 0, make([]uint32, n)))
			r.run(c, b, 4*n)
			require.NoError(t, backend.Download(be, s, got, c, 0))
			require.Equal(t, values, got)

			r.run(b, a, 4*n)
			require.NoError(t, s.Record(e))
			require.NoError(t, other.Wait(e))
			require.NoError(t, be.Copy(other, c, 0, b, 0, n))
			require.NoError(t, be.Fill(other, a, 0, n, float64(i+1)))
			require.NoError(t, other.Record(e))
			require.NoError(t, s.Wait(e))
			r.run(b, a, 4*n)
			require.NoError(t, s.Sync())
			require.Equal(t, values, words(t, be, b))
			requireAll(t, 0, words(t, be, c))
		}
		require.NoError(t, s.Close())
		theirs.Close()
	})
}
