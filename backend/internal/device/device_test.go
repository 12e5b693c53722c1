package device

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// Close waits for all streams before it destroys one, and gives back what was left.
func TestCloseEndsEverythingInOrder(t *testing.T) {
	g := open()
	g.stream(t, "a")
	g.stream(t, "b")
	g.event(t)
	g.alloc(t, 256, false)
	info, usable := g.Info()
	g.End()
	require.True(t, usable)
	require.Equal(t, backend.Info{Name: "test:0", Allocated: 40, Buffers: 1}, info)
	require.NoError(t, g.close())
	slices.Sort(g.log[:2]) // of a map
	slices.Sort(g.log[2:4])
	require.Equal(t, []string{"drain a", "drain b", "destroy a", "destroy b", "destroy event", "release 256", "kernels", "context"}, g.log)
	require.ErrorIs(t, g.close(), backend.ErrClosed)
	info, usable = g.Info()
	g.End()
	require.False(t, usable)
	require.Equal(t, backend.Info{Name: "test:0"}, info)
}

// Close goes on after an error and returns the first.
func TestCloseReportsTheFirstError(t *testing.T) {
	g := open()
	g.stream(t, "a")
	g.fail["drain a"], g.fail["context"] = refusal{errors.New("busy")}, errors.New("another")
	require.EqualError(t, g.close(), "test:0: close: refused: busy")
	require.Equal(t, []string{"drain a", "destroy a", "kernels", "context"}, g.log)
}

func TestAfterClose(t *testing.T) {
	g := open()
	s, e, b := g.stream(t, "a"), g.event(t), g.alloc(t, 256, false)
	require.NoError(t, g.close())
	for name, err := range map[string]error{
		"lock": g.Lock("alloc"), "use": g.Use("plan"), "buffer": g.BeginBuffer("handle", b), "fill": g.fill(s, b), "free": g.free(b),
		"sync": s.Sync(), "record": s.Record(e), "close stream": s.Close(), "done": second(e.Done()), "wait": e.Sync(), "close event": e.Close(),
		"transfer": second(g.Transfer("upload", s, "destination", b, 0, 4)),
	} {
		require.ErrorIs(t, err, backend.ErrClosed, name)
	}
	require.EqualError(t, g.Use("plan"), "test:0: plan: device "+backend.ErrClosed.Error())
}

// A device that nothing has opened is a closed one, and says which of the two it is.
func TestZeroDevice(t *testing.T) {
	s, e, b := &queue{}, &mark{}, &buf{}
	for name, call := range map[string]func(g *gpu) error{
		"lock": func(g *gpu) error { return g.Lock("alloc") }, "use": func(g *gpu) error { return g.Use("plan") },
		"buffer": func(g *gpu) error { return g.BeginBuffer("handle", b) }, "fill": func(g *gpu) error { return g.fill(s, b) },
		"free": func(g *gpu) error { return g.free(b) }, "sync": func(g *gpu) error { return g.Sync("sync", s) },
		"mark":         func(g *gpu) error { return second(g.BeginMark("record", s, e)) },
		"close stream": func(g *gpu) error { return g.CloseStream(s) }, "close event": func(g *gpu) error { return g.CloseEvent(e) },
		"transfer": func(g *gpu) error { return second(g.Transfer("upload", s, "destination", b, 0, 4)) },
		"capture":  func(g *gpu) error { return second(g.Capture(s, nil, nil)) }, "close": (*gpu).close,
	} {
		g := zero()
		require.ErrorIs(t, call(g), backend.ErrClosed, name)
		require.Empty(t, g.log, "%s: nothing of the driver", name)
		require.True(t, g.life.TryLock() && g.mu.TryLock(), "%s: nothing stays locked", name)
	}
	g := zero()
	require.EqualError(t, g.Use("plan"), "backend: plan: device closed: nothing has opened it")
	info, usable := g.Info()
	g.End()
	require.False(t, usable)
	require.Equal(t, backend.Info{}, info)
}

func second[T any](_ T, err error) error { return err }

// A loss is reported as the driver says it, once; then everything is ErrLost, and Close
// has nothing to report.
func TestLoss(t *testing.T) {
	g := open()
	s, e, b := g.stream(t, "a"), g.event(t), g.alloc(t, 256, false)
	require.NoError(t, g.Failed("fill", nil))
	other := errors.New("not the driver's")
	require.Equal(t, other, g.Failed("fill", other))
	require.EqualError(t, g.Failed("fill", refusal{other}), "test:0: fill: refused: not the driver's")
	require.False(t, g.Lost())

	g.fail["drain a"] = refusal{backend.ErrLost}
	err := s.Sync()
	require.ErrorIs(t, err, backend.ErrLost)
	require.ErrorAs(t, err, new(refusal))
	require.True(t, g.Lost())
	for name, err := range map[string]error{"lock": g.Lock("alloc"), "fill": g.fill(s, b), "sync": s.Sync(), "record": s.Record(e), "free": g.free(b), "done": second(e.Done())} {
		require.ErrorIs(t, err, backend.ErrLost, name)
		require.False(t, errors.As(err, new(refusal)), name)
	}
	require.NoError(t, g.close())
	require.Contains(t, g.log, "release 256")

	g = open()
	g.stream(t, "a")
	g.fail["drain a"] = refusal{backend.ErrLost}
	require.ErrorIs(t, g.close(), backend.ErrLost, "nobody has heard of it yet")
}

func TestWhoseIsIt(t *testing.T) {
	g, other := open(), open()
	s, e, b := g.stream(t, "a"), g.event(t), g.alloc(t, 256, false)
	theirs, theirEvent, theirBuffer := other.stream(t, "b"), other.event(t), other.alloc(t, 256, false)
	require.NoError(t, g.fill(s, b))
	require.NoError(t, s.Record(e))
	shape, foreign := error(backend.ErrArgument{}), backend.ErrOtherDevice
	for _, c := range []struct {
		err, want error
		text      string
	}{
		{g.fill(nil, b), shape, "stream: none given"},
		{g.fill((*queue)(nil), b), shape, "stream: none given"},
		{g.fill(theirs, b), foreign, "test:0: fill: stream "},
		{g.fill(backend.Stream(struct{ backend.Stream }{}), b), foreign, "test:0: fill: stream "},
		{g.fill(s, nil), shape, "destination: holds no buffer"},
		{g.fill(s, theirBuffer), foreign, "test:0: fill: destination "},
		{g.free(theirBuffer), foreign, "test:0: free: buffer "},
		{g.free(nil), shape, "buffer: holds no buffer"},
		{s.Record(nil), shape, "event: none given"},
		{s.Record((*mark)(nil)), shape, "event: none given"},
		{s.Record(theirEvent), foreign, "test:0: record: event "},
	} {
		require.ErrorIs(t, c.err, c.want)
		require.ErrorContains(t, c.err, c.text)
	}
	require.NoError(t, e.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, theirs.Record(e), backend.ErrOtherDevice)
	for _, err := range []error{e.Close(), second(e.Done()), e.Sync(), s.Close(), g.fill(s, b), s.Sync()} {
		require.ErrorIs(t, err, backend.ErrClosed)
	}
	require.EqualError(t, e.Sync(), "test:0: event sync: event "+backend.ErrClosed.Error())
	require.Equal(t, []string{"destroy event", "drain a", "destroy a"}, g.log)
	require.NoError(t, g.close())
	require.NoError(t, other.close())
}

func TestBuffers(t *testing.T) {
	g := open()
	var none *Buffer
	require.Zero(t, none.Len())
	require.Zero(t, none.Bytes())
	require.Equal(t, backend.Invalid, none.DType())
	g.stream(t, "a")
	b, imported, empty := g.alloc(t, 256, false), g.alloc(t, 512, true), g.alloc(t, 0, false)
	require.Equal(t, 10, b.Len())
	require.EqualValues(t, 40, b.Bytes())
	require.Equal(t, backend.F32, b.DType())
	require.Equal(t, []bool{true, false, false}, []bool{b.Owned(), imported.Owned(), empty.Owned()})
	info, _ := g.Info()
	g.End()
	require.EqualValues(t, 80, info.Allocated, "imported memory is the caller's")

	g.fail["outlive a"] = refusal{errors.New("busy")}
	require.EqualError(t, g.free(b), "test:0: free: refused: busy")
	require.NoError(t, g.BeginBuffer("handle", b), "it is still there")
	g.End()
	delete(g.fail, "outlive a")
	require.NoError(t, g.free(b))
	require.ErrorIs(t, g.free(b), backend.ErrFreed)
	require.ErrorIs(t, g.BeginBuffer("handle", b), backend.ErrFreed)
	require.NoError(t, g.free(imported))
	require.NoError(t, g.free(empty))
	require.Equal(t, []string{"outlive a", "outlive a"}, g.log, "only for memory that is given back")
	require.NoError(t, g.close())
}

// A buffer that is freed in the middle of a transfer ends it at the next piece.
func TestTransfer(t *testing.T) {
	g := open()
	s, b := g.stream(t, "a"), g.alloc(t, 256, false)
	tr, err := g.Transfer("upload", s, "destination", b, 3, 8)
	require.NoError(t, err)
	require.EqualValues(t, 268, tr.Place.At)
	require.NoError(t, tr.Begin())
	tr.End()
	require.NoError(t, g.free(b), "nothing is begun")
	require.ErrorIs(t, tr.Begin(), backend.ErrFreed)
	tr.Stream.Release()
	for _, c := range []struct{ off, bytes int }{{0, 3}, {9, 8}, {-1, 4}} {
		require.ErrorIs(t, second(g.Transfer("upload", s, "destination", g.alloc(t, 256, false), c.off, c.bytes)), backend.ErrArgument{})
	}
	require.NoError(t, g.close(), "nobody holds the stream")
}

// Nothing is freed under an operation, and nothing destroyed that the host waits for.
func TestEndsWaitForUsers(t *testing.T) {
	g := open()
	s, b, e := g.stream(t, "a"), g.alloc(t, 256, false), g.event(t)
	_, _, err := g.Begin("fill", s)
	require.NoError(t, err)
	freed := make(chan error)
	go func() { freed <- g.free(b) }()
	require.NoError(t, g.Owns("fill", "destination", b), "freed while in use")
	g.End()
	require.NoError(t, <-freed)

	s.busy = make(chan struct{})
	var wait sync.WaitGroup
	require.NoError(t, g.HoldEvent("event sync", e))
	wait.Go(func() { require.NoError(t, g.close()) })
	for g.Use("plan") == nil { // until Close has begun
		g.End()
	}
	require.Empty(t, g.log[1:], "waits for the stream")
	close(s.busy)
	for logged := 0; logged < 3; {
		g.mu.Lock()
		logged = len(g.log)
		g.mu.Unlock()
	}
	require.NotContains(t, g.log, "destroy event", "somebody waits for it")
	e.Release()
	wait.Wait()
	require.Equal(t, []string{"outlive a", "drain a", "destroy a", "destroy event", "kernels", "context"}, g.log)
}

// Users on all sides of a device that is closed finish or are told so.
func TestConcurrentUse(t *testing.T) {
	g := open()
	var wait sync.WaitGroup
	for range 4 {
		s, e := g.stream(t, "a"), g.event(t)
		wait.Go(func() {
			for {
				b := &buf{}
				err := g.Lock("alloc")
				if err == nil {
					g.AddBuffer(b)
					g.Unlock()
					err = errors.Join(g.fill(s, b), s.Record(e), e.Sync(), s.Sync(), g.free(b))
				}
				if err != nil {
					require.ErrorIs(t, err, backend.ErrClosed)
					return
				}
			}
		})
	}
	require.NoError(t, g.close())
	wait.Wait()
}

func TestChecksAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	g := open()
	s, b, e := g.stream(t, "a"), g.alloc(t, 256, false), g.event(t)
	for name, do := range map[string]func() error{
		"operation": func() error { return g.fill(s, b) },
		"record":    func() error { return s.Record(e) },
		"done":      func() error { return second(e.Done()) },
		"hold": func() error {
			err := g.Hold("sync", s)
			s.Release()
			return err
		},
		"transfer": func() error {
			tr, err := g.Transfer("upload", s, "destination", b, 0, 4)
			if err == nil {
				err = tr.Begin()
				tr.End()
				tr.Stream.Release()
			}
			return err
		},
	} {
		require.NoError(t, do(), name)
		require.Zero(t, testing.AllocsPerRun(10, func() { _ = do() }), "allocations of %s", name)
	}
	require.NoError(t, g.close())
}

// An operation is refused where its buffers are not the device's, then where they do
// not fit, then where its kernels do not launch.
func TestOperations(t *testing.T) {
	g, other := open(), open()
	s, b, theirs := g.stream(t, "a"), g.alloc(t, 256, false), other.alloc(t, 256, false)
	merge := backend.MergeParams[*buf]{Parts: 1, Tokens: 1, Heads: 1, Dim: 8, In: b, LSE: b, Out: backend.Dense(g.alloc(t, 512, false))}
	require.NoError(t, g.Merge(s, &merge))
	require.NoError(t, g.Fill(s, b, 0, 4, 1))
	require.NoError(t, g.Copy(s, b, 0, b, 5, 5))
	require.Equal(t, []string{"fkv_merge_f32_f32", "fkv_fill", "copy"}, g.log)
	merge.Tokens = 0
	require.NoError(t, g.Merge(s, &merge))
	require.Len(t, g.log, 3)

	merge.Tokens = 100
	require.ErrorIs(t, g.Merge(s, &merge), backend.ErrArgument{})
	merge.In = theirs
	require.ErrorIs(t, g.Merge(s, &merge), backend.ErrOtherDevice)
	require.ErrorIs(t, g.Copy(s, b, 0, theirs, 0, 1), backend.ErrOtherDevice)
	require.ErrorIs(t, g.Fill(s, b, 0, 11, 1), backend.ErrArgument{})
	for name, err := range map[string]error{
		"append": g.Append(s, &backend.AppendParams[*buf]{}), "attend": g.Attend(s, &backend.AttendParams[*buf]{}),
		"gather": g.Gather(s, &backend.GatherParams[*buf]{}), "copy blocks": g.CopyBlocks(s, &backend.CopyBlocksParams[*buf]{}),
		"move slots": g.MoveSlots(s, &backend.MoveSlotsParams[*buf]{}), "convert blocks": g.ConvertBlocks(s, &backend.ConvertBlocksParams[*buf]{}), "rotate": g.Rotate(s, &backend.RotateParams[*buf]{}),
	} {
		require.EqualError(t, err, "backend: "+name+": keys: holds no buffer")
	}
	require.Len(t, g.log, 3)

	g.fail["fkv_fill"] = refusal{errors.New("busy")}
	require.EqualError(t, g.Fill(s, b, 0, 4, 1), "test:0: fill: refused: busy")

	shape := backend.AttendShape{QHeads: 1, KVHeads: 1, KDim: 64, VDim: 64, BlockSize: 16, Format: launch.Formats[0], ContextLens: []uint32{1}, QueryLens: []uint32{1}}
	planned, err := g.Plan(shape, func(launch.Kernel) (int, error) { return 1, nil })
	require.NoError(t, err)
	require.Equal(t, 1, planned.Items)
	_, err = g.Plan(shape, func(launch.Kernel) (int, error) { return 0, refusal{errors.New("busy")} })
	require.EqualError(t, err, "test:0: plan attend: refused: busy")
	require.NoError(t, g.close())
	require.NoError(t, other.close())
}
