//go:build linux && cgo && !nocuda

package cuda

import (
	"cmp"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

// neighbour is a runner that captures a stream of its own, through a library that it has opened by itself.
type neighbour struct {
	t   testing.TB
	ctx *driver.Context
	cu  driver.Stream
}

func newNeighbour(t testing.TB) *neighbour {
	lib, err := driver.Open(cmp.Or(standin.Path(), "libcuda.so.1"))
	require.NoError(t, err)
	ctx, err := lib.Retain(0)
	require.NoError(t, err)
	cu, err := ctx.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ctx.DestroyStream(cu))
		require.NoError(t, ctx.Release())
	})
	return &neighbour{t, ctx, cu}
}

// during captures while do runs, on the same thread or on another: the capture must be whole.
func (n *neighbour) during(name string, mode driver.CaptureMode, same bool, do func() error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(n.t, n.ctx.BeginCapture(n.cu, mode))
	failed := make(chan error, 1)
	if same {
		failed <- do()
	} else {
		go func() { failed <- do() }() // this goroutine has its thread for itself
	}
	err := <-failed
	g, broken := n.ctx.EndCapture(n.cu)
	require.NoError(n.t, err, name)
	require.NoError(n.t, broken, name)
	require.NoError(n.t, n.ctx.DestroyGraph(g))
}

// call is something that a program does with a backend.
type call struct {
	name string
	do   func() error
}

// life is all that a program does with a Backend, from Open to Close: each call is one that others
// follow.
func life(t testing.TB) []call {
	var be *Backend
	var s, other, imported backend.Stream
	var e backend.Event
	var b, sub, taken *Buffer
	var g backend.Graph
	var c *layer[*Buffer]
	var set backend.BlockSet
	var host backend.HostMemory
	var steps []call
	add := func(name string, do func() error) { steps = append(steps, call{name, do}) }
	add("open", func() (err error) { be, err = Open(0); return err })
	add("prepare", func() error { return prepare(be, decodeShape(16)) })
	add("new stream", func() (err error) { s, err = be.NewStream(); return err })
	add("second stream", func() (err error) { other, err = be.NewStream(); return err })
	add("import stream", func() (err error) {
		imported, err = be.ImportStream(backend.Handle{Addr: uintptr(s.(*stream).cu)})
		return err
	})
	add("new event", func() (err error) { e, err = be.NewEvent(); return err })
	add("alloc", func() (err error) { b, err = be.Alloc(backend.U32, 4096); return err })
	add("sub-buffer", func() (err error) { sub, err = be.SubBuffer(b, 256, backend.U32, 8); return err })
	add("import", func() (err error) {
		taken, err = be.Import(backend.Handle{Addr: uintptr(b.Place().At)}, backend.U32, 16)
		return err
	})
	add("upload", func() error { return be.Upload(s, b, 0, make([]byte, 16384)) })
	add("first kernel", func() error { return be.Fill(s, b, 0, 4096, 7) })
	add("copy", func() error { return be.Copy(s, b, 2048, b, 0, 1024) })
	add("copy that overlaps", func() error { return be.Copy(s, b, 1, b, 0, 1024) })
	add("record", func() error { return s.Record(e) })
	add("event done", func() error { _, err := e.Done(); return err })
	add("wait", func() error { return other.Wait(e) })
	add("info", func() error { be.Info(); return nil })
	add("event sync", func() error { return e.Sync() })
	add("sync", func() error { return s.Sync() })
	add("download", func() error { return be.Download(s, make([]byte, 16384), b, 0) })
	add("capture", func() (err error) {
		g, err = be.Capture(s, func() error { return be.Fill(s, b, 0, 4096, 8) })
		return err
	})
	add("launch graph", func() error { return g.Launch() })
	add("close graph", func() error { return g.Close() })
	add("plan attend", func() error {
		_, err := be.PlanAttend(decodeShape(2))
		return err
	})
	add("step", func() (err error) {
		c, err = makeLayer(be, decodeShape(2))
		return err
	})
	add("append and attend", func() error {
		return errors.Join(be.Append(c.s, c.append), be.Attend(c.s, c.attend), c.s.Sync())
	})
	add("convert", func() error { return quantizes(be, s) })
	add("block set", func() (err error) {
		set, err = be.NewBlockSet([]backend.BlockPlane[*Buffer]{{Buf: b, Each: 1024}})
		return err
	})
	add("host alloc", func() (err error) { host, err = be.HostAlloc(4096); return err })
	add("pack", func() error { return set.Pack(s, []uint32{2}, host, 0) })
	add("unpack", func() error { return set.Unpack(other, []uint32{1}, host, 0) })
	add("close host memory", func() error { return host.Close() })
	add("close block set", func() error { return set.Close() })
	add("free", func() error { return errors.Join(be.Free(taken), be.Free(sub), be.Free(b)) })
	add("alloc of what was freed", func() error {
		if c, ok := standin.Open(); ok {
			c.FailAlloc(1)
		}
		freed, err := be.Alloc(backend.U32, 4096)
		if be.memory.pool == 0 && errors.Is(err, backend.ErrOutOfMemory{}) {
			return nil
		}
		return errors.Join(err, be.Free(freed))
	})
	add("close event", func() error { return e.Close() })
	add("close streams", func() error { return errors.Join(imported.Close(), other.Close()) })
	add("close", func() error { return be.Close() })
	return steps
}

// quantizes appends a row that is stored as int8, for which a stream needs memory of the host.
func quantizes(be *Backend, s backend.Stream) error {
	const dim = 64
	var failed error
	alloc := func(dt backend.DType, n int) *Buffer {
		b, err := be.Alloc(dt, n)
		failed = errors.Join(failed, err)
		if err == nil {
			failed = errors.Join(failed, be.Upload(s, b, 0, make([]byte, b.Bytes())))
		}
		return b
	}
	plane := func() backend.Plane[*Buffer] {
		return backend.Plane[*Buffer]{Data: alloc(backend.Int8, dim), Dim: dim, Scales: backend.Some(alloc(backend.F32, 1))}
	}
	p := backend.AppendParams[*Buffer]{Tokens: 1, Slots: alloc(backend.I64, 1), K: backend.Dense(alloc(backend.F16, dim)), V: backend.Dense(alloc(backend.F16, dim)),
		Cache: backend.CacheView[*Buffer]{K: plane(), V: plane(), Blocks: 1, KVHeads: 1, BlockSize: 1}}
	if failed != nil {
		return failed
	}
	return errors.Join(be.Append(s, p), s.Sync())
}

// A runner that captures in the strictest modes keeps its graph whatever a backend in the same process
// does meanwhile, on other threads or on the runner's own.
func TestCapturesOfOthersStayWhole(t *testing.T) {
	require.NoError(t, openNow(t).Close())
	n := newNeighbour(t)
	for _, c := range []struct {
		name string
		mode driver.CaptureMode
		same bool
	}{{"global, another thread", driver.Global, false}, {"global, same thread", driver.Global, true}, {"thread local, same thread", driver.ThreadLocal, true}} {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range life(t) {
				n.during(step.name, c.mode, c.same, step.do)
			}
		})
	}
}

// So it does on a device that has no pools, whose memory comes from other calls of the driver.
func TestCapturesOfOthersStayWholeWithoutPools(t *testing.T) {
	control(t)
	require.Contains(t, gputest.Child(t, "^TestCapturesOfOthersStayWhole$", "FERRUM_SIMT_POOLS=0"), "--- PASS: TestCapturesOfOthersStayWhole")
}

// So it does where its stream waits for the default stream, which somebody has imported: work there would
// end the capture, and is refused.
func TestDefaultStreamBesideACapture(t *testing.T) {
	c := control(t)
	be := open(t)
	n := newNeighbour(t)
	require.True(t, c.JoinDefault(uintptr(n.cu)))
	s, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	e, err := be.NewEvent()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	set, err := be.NewBlockSet([]backend.BlockPlane[*Buffer]{{Buf: b, Each: 16}})
	require.NoError(t, err)
	host, err := be.HostAlloc(64)
	require.NoError(t, err)
	for name, do := range map[string]func() error{
		"pack":               func() error { return set.Pack(s, []uint32{1}, host, 0) },
		"unpack":             func() error { return set.Unpack(s, []uint32{1}, host, 0) },
		"fill":               func() error { return be.Fill(s, b, 0, 64, 7) },
		"copy":               func() error { return be.Copy(s, b, 32, b, 0, 32) },
		"copy that overlaps": func() error { return be.Copy(s, b, 1, b, 0, 32) },
		"upload":             func() error { return be.Upload(s, b, 0, make([]byte, 256)) },
		"download":           func() error { return be.Download(s, make([]byte, 256), b, 0) },
		"record":             func() error { return s.Record(e) },
		"wait":               func() error { return s.Wait(e) },
		"sync":               func() error { return s.Sync() },
		"free":               func() error { return be.Free(b) },
		"quantize":           func() error { return quantizes(be, s) },
	} {
		t.Run(name, func(t *testing.T) {
			n.during(name, driver.Relaxed, false, func() error {
				err := do()
				require.ErrorIs(t, err, backend.ErrCapture{})
				require.ErrorContains(t, err, "use one of NewStream")
				return nil
			})
		})
	}
	require.NoError(t, be.Fill(s, b, 0, 64, 7))
	require.NoError(t, s.Sync())
	require.NoError(t, host.Close())
	require.NoError(t, set.Close())
}

// A buffer's release waits on the device alone: nobody is interrupted for it.
func TestFreeInterruptsNobody(t *testing.T) {
	c := control(t)
	be := open(t)
	if be.memory.pool == 0 {
		t.Skip("without pools the host waits")
	}
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	require.NoError(t, be.Fill(s, b, 0, 64, 7))
	before := c.Counts().Interrupts
	require.NoError(t, be.Free(b))
	require.Equal(t, before, c.Counts().Interrupts)
	require.NoError(t, s.Sync())
	require.Greater(t, c.Counts().Interrupts, before, "a wait of the host")
}

// No wait of the host burns a thread, however it is asked for.
func TestWaitsDoNotSpin(t *testing.T) {
	c := control(t)
	before := c.Counts().Spins
	for _, step := range life(t) {
		require.NoError(t, step.do(), step.name)
		require.Equal(t, before, c.Counts().Spins, step.name)
	}
}
