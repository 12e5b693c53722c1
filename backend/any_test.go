package backend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

func openErased(t *testing.T) (backend.Backend[backend.AnyBuffer], *cpu.Backend, backend.Stream) {
	typed, err := cpu.Open(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, typed.Close()) })
	be := backend.Erase(typed)
	s, err := be.NewStream()
	require.NoError(t, err)
	return be, typed, s
}

// otherBuffer is the buffer of another kind of device.
type otherBuffer struct{}

func (otherBuffer) Len() int             { return 4 }
func (otherBuffer) DType() backend.DType { return backend.F32 }
func (otherBuffer) Bytes() int64         { return 16 }

func TestErasedBuffers(t *testing.T) {
	be, typed, s := openErased(t)
	b, err := backend.AllocFrom(be, s, backend.F32, []float32{1, 2, 3})
	require.NoError(t, err)
	require.Equal(t, 3, b.Len())
	require.Equal(t, backend.F32, b.DType())
	require.EqualValues(t, 12, b.Bytes())

	own, ok := backend.Unwrap[*cpu.Buffer](b)
	require.True(t, ok)
	require.Equal(t, b, backend.Wrap(own))
	_, ok = backend.Unwrap[otherBuffer](b)
	require.False(t, ok)
	back, ok := backend.Typed[*cpu.Buffer](be)
	require.True(t, ok)
	require.Same(t, typed, back)
	_, ok = backend.Typed[otherBuffer](be)
	require.False(t, ok)

	_, err = be.Alloc(backend.F32, -1)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.Equal(t, 1, be.Info().Buffers)
	require.NoError(t, be.Free(b))
	require.ErrorIs(t, be.Free(b), backend.ErrFreed)

	var none backend.AnyBuffer
	require.Zero(t, none.Len())
	require.Zero(t, none.Bytes())
	require.Equal(t, backend.Invalid, none.DType())
}

// An ability is found through the erased form, where a type assertion misses it.
func TestErasedAbilities(t *testing.T) {
	be, _, s := openErased(t)
	b, err := backend.AllocFrom(be, s, backend.U32, []uint32{7})
	require.NoError(t, err)
	_, seen := be.(backend.HostAccess[backend.AnyBuffer])
	require.False(t, seen)
	access, ok := backend.HostAccessOf(be)
	require.True(t, ok)
	mem, err := access.HostBytes(b)
	require.NoError(t, err)
	mem[0] = 9
	got := make([]uint32, 1)
	require.NoError(t, backend.Download(be, s, got, b, 0))
	require.Equal(t, []uint32{9}, got)
	_, err = access.HostBytes(backend.Wrap(otherBuffer{}))
	require.ErrorIs(t, err, backend.ErrOtherDevice)
	_, err = access.HostBytes(backend.AnyBuffer{})
	require.ErrorIs(t, err, backend.ErrArgument{})
}

// Calls with a buffer report one of another kind of device and one that holds no buffer.
func TestErasedCalls(t *testing.T) {
	be, _, s := openErased(t)
	good, err := be.Alloc(backend.F32, 4)
	require.NoError(t, err)
	type any = backend.AnyBuffer
	for name, call := range map[string]func(bad any) error{
		"free":      be.Free,
		"handle":    func(bad any) error { _, err := be.Handle(bad); return err },
		"upload":    func(bad any) error { return be.Upload(s, bad, 0, make([]byte, 4)) },
		"download":  func(bad any) error { return be.Download(s, make([]byte, 4), bad, 0) },
		"copy to":   func(bad any) error { return be.Copy(s, bad, 0, good, 0, 1) },
		"copy from": func(bad any) error { return be.Copy(s, good, 0, bad, 0, 1) },
		"fill":      func(bad any) error { return be.Fill(s, bad, 0, 1, 0) },
	} {
		require.ErrorIs(t, call(backend.Wrap(otherBuffer{})), backend.ErrOtherDevice, name)
		require.ErrorIs(t, call(any{}), backend.ErrArgument{}, name)
		require.ErrorContains(t, call(any{}), "holds no buffer", name)
	}
	require.NoError(t, be.Free(good))
}

func cacheOf(b backend.AnyBuffer) backend.CacheView[backend.AnyBuffer] {
	plane := backend.Plane[backend.AnyBuffer]{Data: b, Dim: 1}
	return backend.CacheView[backend.AnyBuffer]{K: plane, V: plane, Blocks: 1, KVHeads: 1, BlockSize: 4}
}

func appendOf(b backend.AnyBuffer) backend.AppendParams[backend.AnyBuffer] {
	return backend.AppendParams[backend.AnyBuffer]{Cache: cacheOf(b), Tokens: 1, K: backend.Dense(b), V: backend.Dense(b), Slots: b}
}

func attendOf(b backend.AnyBuffer) backend.AttendParams[backend.AnyBuffer] {
	return backend.AttendParams[backend.AnyBuffer]{Cache: cacheOf(b), Q: backend.Dense(b), QHeads: 1, Scale: 1,
		Batch: backend.Ragged[backend.AnyBuffer]{Seqs: 1, Tokens: 1, ContextLens: b}, Out: backend.Outputs[backend.AnyBuffer]{Rows: backend.Dense(b)}}
}

// The erased form passes every field on: the same calls give what the typed form
// gives, and allocate nothing on the way.
func TestErasedStep(t *testing.T) {
	be, _, s := openErased(t)
	alloc := func(dt backend.DType, n int) backend.AnyBuffer {
		b, err := be.Alloc(dt, n)
		require.NoError(t, err)
		require.NoError(t, be.Fill(s, b, 0, n, 1))
		return b
	}
	cache := cacheOf(alloc(backend.F32, 4))
	slots := alloc(backend.I64, 1)
	lens := alloc(backend.U32, 1)
	require.NoError(t, be.Fill(s, lens, 0, 1, 2))
	appended := backend.AppendParams[backend.AnyBuffer]{Cache: cache, Tokens: 1, K: backend.Dense(alloc(backend.F32, 1)),
		V: backend.Dense(alloc(backend.F32, 1)), Slots: slots}
	attended := attendOf(alloc(backend.F32, 1))
	attended.Cache, attended.Batch.ContextLens = cache, lens
	attended.Out.Rows = backend.Dense(alloc(backend.F32, 1))
	shape := backend.AttendShape{QHeads: 1, KVHeads: 1, KDim: 1, VDim: 1, BlockSize: 4, ContextLens: []uint32{2}, QueryLens: []uint32{1},
		Format: backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}}
	plan, err := be.PlanAttend(shape)
	require.NoError(t, err)
	work, err := backend.AllocFrom(be, s, backend.U32, plan.Work)
	require.NoError(t, err)
	attended.Plan, attended.Work = plan, backend.Some(work)
	step := func() error {
		if err := be.Append(s, appended); err != nil {
			return err
		}
		return be.Attend(s, attended)
	}
	require.NoError(t, step())
	got := make([]float32, 1)
	require.NoError(t, backend.Download(be, s, got, attended.Out.Rows.Buf, 0))
	require.Equal(t, []float32{1}, got)
	if !race.Enabled {
		require.Zero(t, testing.AllocsPerRun(20, func() { _ = step() }))
	}
}
