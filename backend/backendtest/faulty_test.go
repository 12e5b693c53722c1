package backendtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

var errTest = errors.New("as the test wants it")

// calls makes one call of each kind with operands that do not fit, but where a value comes
// of it. The kinds are in the order of Op's constants.
func calls(be device, s backend.Stream, e backend.Event, b *cpu.Buffer) map[Op]error {
	got := map[Op]error{
		OpImport:        second(be.Import(backend.HostHandle([]float32{1}), backend.F32, 1)),
		OpSubBuffer:     second(be.SubBuffer(b, 0, backend.F32, 1)),
		OpNewStream:     second(be.NewStream()),
		OpImportStream:  second(be.ImportStream(backend.Handle{})),
		OpNewEvent:      second(be.NewEvent()),
		OpAlloc:         second(be.Alloc(backend.F32, 1)),
		OpUpload:        be.Upload(s, b, 0, make([]byte, 4)),
		OpDownload:      be.Download(s, make([]byte, 4), b, 0),
		OpCopy:          be.Copy(s, b, 0, b, 0, 1),
		OpFill:          be.Fill(s, b, 0, 1, 0),
		OpAppend:        be.Append(s, appendP{}),
		OpPlanAttend:    second(be.PlanAttend(backend.AttendShape{})),
		OpAttend:        be.Attend(s, attendP{}),
		OpAttendScores:  be.AttendScores(s, massP{}),
		OpMerge:         be.Merge(s, mergeP{}),
		OpGather:        be.Gather(s, gatherP{}),
		OpClearScores:   be.ClearScores(s, clearP{}),
		OpCopyBlocks:    be.CopyBlocks(s, copyP{}),
		OpMoveSlots:     be.MoveSlots(s, moveP{}),
		OpConvertBlocks: be.ConvertBlocks(s, convertP{}),
		OpRotate:        be.Rotate(s, rotateP{}),
		OpSync:          s.Sync(),
		OpRecord:        s.Record(e),
		OpWait:          s.Wait(e),
		OpEventDone:     second(e.Done()),
		OpEventSync:     e.Sync(),
	}
	return got
}

func second[T any](_ T, err error) error { return err }

// faulty is a device that can fail, with a stream, an event that was recorded there, and
// a buffer.
func faulty(t *testing.T) (*Faulty[*cpu.Buffer], backend.Stream, backend.Event, *cpu.Buffer) {
	f := NewFaulty(device(openSmall(t)))
	s, err := f.NewStream()
	require.NoError(t, err)
	e, err := f.NewEvent()
	require.NoError(t, err)
	b, err := backend.AllocFrom(f, s, backend.F32, []float32{7})
	require.NoError(t, err)
	require.NoError(t, s.Record(e))
	return f, s, e, b
}

// Each kind of call can be refused alone, is told its stream, and has then done nothing.
func TestFaultyRefusesEachKind(t *testing.T) {
	f, s, e, b := faulty(t)
	asked := map[Op]int{}
	var streams []backend.Stream
	waits := []Op{OpDownload, OpSync, OpEventDone, OpEventSync}
	f.SetFault(func(c Call) error {
		require.Equal(t, c.Stream != nil && !slices.Contains(waits, c.Op), c.Op.Enqueues(), c.Op)
		if asked[c.Op]++; c.Stream != nil {
			streams = append(streams, c.Stream)
		}
		return nil
	})
	unhurt := calls(f, s, e, b)
	require.Len(t, asked, len(unhurt))
	for _, op := range operations {
		require.Contains(t, asked, op)
	}
	for _, to := range streams {
		require.Same(t, s, to)
	}
	require.Len(t, streams, len(unhurt)-7, "all but those of no stream")
	for op, err := range unhurt {
		require.Equal(t, 1, asked[op], op)
		require.NotErrorIs(t, err, errTest)
		before := f.Info()
		f.SetFault(After(0, errTest, op))
		for other, err := range calls(f, s, e, b) {
			require.Equal(t, op == other, errors.Is(err, errTest), "%s where %s is to fail: %v", other, op, err)
		}
		if op == OpAlloc || op == OpImport || op == OpSubBuffer {
			require.Equal(t, before.Buffers+2, f.Info().Buffers, "the others of the three")
		}
	}
	f.SetFault(nil)
	require.NoError(t, f.Close())
}

func TestNthAndAfter(t *testing.T) {
	f, s, _, b := faulty(t)
	fill := func() bool { return f.Fill(s, b, 0, 1, 1) == nil }
	f.SetFault(Nth(2, errTest, OpFill))
	require.Equal(t, []bool{true, false, true, true}, []bool{fill(), fill(), fill(), s.Sync() == nil})
	f.SetFault(Nth(2, errTest))
	require.Equal(t, []bool{true, false, true}, []bool{s.Sync() == nil, fill(), fill()})
	f.SetFault(After(1, errTest, OpCopy, OpFill))
	require.Equal(t, []bool{true, false, true, false}, []bool{fill(), fill(), s.Sync() == nil, fill()})
	f.SetFault(nil)
	require.True(t, fill())
	require.NoError(t, f.Close())
}

// A fault may look at the device that asks it.
func TestFaultUsesDevice(t *testing.T) {
	f, s, _, b := faulty(t)
	f.SetFault(func(c Call) error {
		if c.Op == OpFill {
			return s.Sync()
		}
		return nil
	})
	require.NoError(t, f.Fill(s, b, 0, 1, 1))
	require.NoError(t, f.Close())
}

// A lost device takes nothing more, and Close leaves nothing behind.
func TestFaultyLose(t *testing.T) {
	f, s, e, b := faulty(t)
	f.Lose()
	for op, err := range calls(f, s, e, b) {
		require.ErrorIs(t, err, backend.ErrLost, op)
	}
	require.ErrorIs(t, f.Free(b), backend.ErrLost)
	require.ErrorIs(t, second(f.Handle(b)), backend.ErrLost)
	require.ErrorIs(t, errors.Join(e.Close()), backend.ErrLost)
	require.ErrorIs(t, s.Close(), backend.ErrLost)
	require.NoError(t, f.Close())
	require.Zero(t, f.Info().Buffers)
	require.ErrorIs(t, f.Close(), backend.ErrClosed)
}

func TestFaultyMemory(t *testing.T) {
	f, _, _, b := faulty(t)
	f.SetMemory(100)
	require.Equal(t, int64(96), f.Info().FreeMemory)
	_, err := f.Alloc(backend.F32, 25)
	require.Equal(t, backend.ErrOutOfMemory{Op: "alloc", Bytes: 100, Max: 96}, err)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	c, err := f.Alloc(backend.F32, 24)
	require.NoError(t, err)
	f.SetMemory(4)
	require.Zero(t, f.Info().FreeMemory)
	require.ErrorIs(t, second(f.Alloc(backend.F32, 1)), backend.ErrOutOfMemory{Op: "alloc", Bytes: 4})
	require.NoError(t, errors.Join(f.Free(b), f.Free(c)))
	require.NoError(t, second(f.Alloc(backend.F32, 1)))
	f.SetMemory(-1)
	require.NoError(t, second(f.Alloc(backend.F32, 100)))
	require.NoError(t, f.Close())
}

// Around a late device a call fails where it is made; under one, where it runs.
func TestFaultyAndLate(t *testing.T) {
	for _, inside := range []bool{false, true} {
		f := NewFaulty(device(openSmall(t)))
		be := device(NewLate(device(f), LateOptions{}))
		if !inside {
			f = NewFaulty(device(NewLate(device(openSmall(t)), LateOptions{})))
			be = f
		}
		s, err := be.NewStream()
		require.NoError(t, err)
		b, err := be.Alloc(backend.F32, 1)
		require.NoError(t, err)
		f.SetFault(Nth(1, errTest, OpFill))
		at, later := be.Fill(s, b, 0, 1, 1), s.Sync()
		if inside {
			at, later = later, at
		}
		require.ErrorIs(t, at, errTest)
		require.NoError(t, later)
		require.NoError(t, be.Close())
	}
}
