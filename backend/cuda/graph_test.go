//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
)

// native is a runner's own stream, on a thread that does not change.
type native struct {
	be *Backend
	cu driver.Stream
	s  backend.Stream // the stream as the Backend sees it
}

func newNative(t *testing.T, be *Backend) *native {
	runtime.LockOSThread()
	cu, err := be.ctx.NewStream()
	require.NoError(t, err)
	s, err := be.ImportStream(backend.Handle{Addr: uintptr(cu)})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, be.ctx.DestroyStream(cu))
		runtime.UnlockOSThread()
	})
	return &native{be, cu, s}
}

// repeat ends the capture and launches what came of it n times.
func (n *native) repeat(t *testing.T, times int) {
	g, err := n.be.ctx.EndCapture(n.cu)
	require.NoError(t, err)
	e, err := n.be.ctx.Instantiate(g)
	require.NoError(t, err)
	require.NoError(t, n.be.ctx.DestroyGraph(g))
	for range times {
		require.NoError(t, n.be.ctx.LaunchGraph(e, n.cu))
	}
	require.NoError(t, n.be.ctx.Sync(n.cu))
	require.NoError(t, n.be.ctx.DestroyExec(e))
}

// A step that enqueues on a stream which its owner captures becomes part of his graph,
// in the strictest mode, and also where it is the first that uses its kernels and the
// first that quantizes.
func TestStepWithinACaptureOfTheOwner(t *testing.T) {
	be := open(t)
	n := newNative(t, be)
	own, err := be.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	const dim, heads = 64, 2
	alloc := func(dt backend.DType, size int, v float64) *Buffer {
		b, err := be.Alloc(dt, size)
		require.NoError(t, err)
		require.NoError(t, be.Upload(own, b, 0, make([]byte, b.Bytes())))
		if v != 0 {
			require.NoError(t, be.Fill(own, b, 0, size, v))
		}
		t.Cleanup(func() { require.NoError(t, be.Free(b)) })
		return b
	}
	plane := func() backend.Plane[*Buffer] {
		return backend.Plane[*Buffer]{Data: alloc(backend.Int8, heads*dim, 0), Dim: dim, Scales: backend.Some(alloc(backend.F32, heads, 0))}
	}
	cache := backend.CacheView[*Buffer]{K: plane(), V: plane(), Blocks: 1, KVHeads: heads, BlockSize: 1}
	row, out := backend.Dense(alloc(backend.F16, heads*dim, 2)), backend.Dense(alloc(backend.F16, heads*dim, 0))
	shape := backend.AttendShape{QHeads: heads, KVHeads: heads, KDim: dim, VDim: dim, BlockSize: 1,
		Format: backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int8}, ContextLens: []uint32{1}, QueryLens: []uint32{1}}
	append := backend.AppendParams[*Buffer]{Cache: cache, Tokens: 1, K: row, V: row, Slots: alloc(backend.I64, 1, 0)}
	attend := backend.AttendParams[*Buffer]{Cache: cache, Q: row, QHeads: heads, Scale: 1, Out: backend.Outputs[*Buffer]{Rows: out},
		Batch: backend.Ragged[*Buffer]{Seqs: 1, Tokens: 1, ContextLens: alloc(backend.U32, 1, 1)}}
	work := alloc(backend.U32, 64, 0)
	require.NoError(t, own.Sync())

	require.NoError(t, be.ctx.BeginCapture(n.cu, driver.Global))
	loaded := len(be.modules.loaded)
	plan, err := be.PlanAttend(shape)
	require.NoError(t, err)
	require.Greater(t, len(be.modules.loaded), loaded)
	attend.Plan, attend.Work = plan, backend.Some(work)
	require.NoError(t, be.Append(n.s, append))
	require.NoError(t, be.Attend(n.s, attend))
	require.NotNil(t, n.s.(*stream).status, "made within the capture")
	require.NoError(t, backend.Upload(be, own, work, 0, plan.Work), "another stream")
	require.NoError(t, own.Sync())
	n.repeat(t, 2)
	got := make([]uint16, heads*dim)
	require.NoError(t, backend.Download(be, own, got, out.Buf, 0))
	require.InDelta(t, 0x4000, got[dim+3], 1, "2, as f16")
}

// While the owner of a stream captures it, calls that would harm his graph are refused
// before they reach the driver, and his capture goes on.
func TestRefusedInACaptureOfTheOwner(t *testing.T) {
	be := open(t)
	n := newNative(t, be)
	b, err := be.Alloc(backend.U32, 3)
	require.NoError(t, err)
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	earlier, err := be.Capture(n.s, func() error { return be.Fill(n.s, b, 0, 3, 0) })
	require.NoError(t, err, "of ours")
	require.NoError(t, earlier.Launch())
	require.NoError(t, n.s.Sync())
	require.NoError(t, be.ctx.BeginCapture(n.cu, driver.Global))
	require.NoError(t, be.Fill(n.s, b, 0, 1, 7))
	for name, err := range map[string]error{
		"upload": be.Upload(n.s, b, 0, make([]byte, 4)), "download": be.Download(n.s, make([]byte, 4), b, 0),
		"overlap": be.Copy(n.s, b, 1, b, 0, 2), "sync": n.s.Sync(), "record": n.s.Record(e), "wait": n.s.Wait(e), "close": n.s.Close(), "free": be.Free(b),
		"capture": second(be.Capture(n.s, func() error { return nil })), "launch": earlier.Launch(), "close graph": earlier.Close(),
	} {
		require.ErrorIs(t, err, backend.ErrCapture{}, name)
	}
	more, err := be.Alloc(backend.U32, 100)
	require.NoError(t, err, "of no stream")
	n.repeat(t, 1)
	require.NoError(t, earlier.Close())
	got := make([]uint32, 3)
	require.NoError(t, backend.Download(be, n.s, got, b, 0))
	require.Equal(t, []uint32{7, 0, 0}, got)
	require.NoError(t, be.Free(b))
	require.NoError(t, be.Free(more))
}

// What a runner enqueues on the stream by itself is in the graph as well.
func TestCaptureOfTheRunnersOwnWork(t *testing.T) {
	be := open(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 2)
	require.NoError(t, err)
	p, cu := driver.Ptr(b.Place().At), driver.Stream(s.Handle().Addr)
	g, err := be.Capture(s, func() error {
		return errors.Join(be.Fill(s, b, 0, 1, 7), be.ctx.Copy(p+4, p, 4, cu), be.Fill(s, b, 0, 1, 8))
	})
	require.NoError(t, err)
	require.NoError(t, g.Launch())
	got := make([]uint32, 2)
	require.NoError(t, backend.Download(be, s, got, b, 0))
	require.Equal(t, []uint32{8, 7}, got)
	require.NoError(t, s.Close())
	require.NoError(t, be.Free(b))
}

// A runner that calls the driver behind the capture's back may break it: that is an
// error of Capture, and the stream is whole.
func TestBrokenCapture(t *testing.T) {
	be := open(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	cu := s.(*stream).cu
	g, err := be.Capture(s, func() error {
		require.ErrorIs(t, be.ctx.Sync(cu), backend.ErrCapture{})
		return nil
	})
	require.ErrorIs(t, err, backend.ErrCapture{})
	require.ErrorContains(t, err, "cuda:0: capture: cuStreamEndCapture: ")
	require.Nil(t, g)
	require.NoError(t, s.Sync())
	require.NoError(t, s.Close())
}

// The default streams cannot be captured.
func TestCaptureOfTheDefaultStream(t *testing.T) {
	be := open(t)
	for _, h := range []backend.Handle{{}, {Addr: legacy}} {
		s, err := be.ImportStream(h)
		require.NoError(t, err)
		require.ErrorIs(t, second(be.Capture(s, func() error { return nil })), backend.ErrUnsupported{})
		require.NoError(t, s.Sync())
		require.NoError(t, s.Close())
	}
}
