package backendtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

var (
	_ backend.Backend[*cpu.Buffer] = (*Late[*cpu.Buffer])(nil)
	_ backend.Backend[*cpu.Buffer] = (*Faulty[*cpu.Buffer])(nil)
)

func openSmall(t testing.TB) *cpu.Backend {
	be, err := cpu.Open(cpu.Options{Threads: 2})
	require.NoError(t, err)
	return be
}

// A device that runs late, and one that could fail and does not, keep the contract. They
// allocate on the host; and values that cannot be quantized are reported late and not written,
// because the CPU under them looks before it writes.
func TestLateAndFaultyConform(t *testing.T) {
	testsize.Long(t)
	open := func(t testing.TB) device {
		return NewFaulty(device(NewLate(device(openSmall(t)), LateOptions{Seed: 1})))
	}
	runChecks(t, open, Options{Grid: NoGrid, MaxWork: 20000}, func(room, check string) bool {
		notFinite := strings.HasPrefix(check, "keys of ") || strings.HasPrefix(check, "values of ") || strings.HasPrefix(check, "a value of ") ||
			strings.Contains(check, " in the rest ")
		return room != "allocations" && !notFinite
	})
}

// late is a late device with two streams and an event.
func late(t *testing.T, o LateOptions) (*Late[*cpu.Buffer], [2]backend.Stream, backend.Event) {
	d := NewLate(device(openSmall(t)), o)
	var s [2]backend.Stream
	for i := range s {
		var err error
		s[i], err = d.NewStream()
		require.NoError(t, err)
	}
	e, err := d.NewEvent()
	require.NoError(t, err)
	return d, s, e
}

// copied fills a buffer on one stream, and copies it on another one, which waits for the
// first or not.
func copied(t *testing.T, seed uint64, wait bool) float32 {
	d, s, e := late(t, LateOptions{Seed: seed})
	b, err := backend.AllocFrom(d, s[0], backend.F32, []float32{1, 0})
	require.NoError(t, errors.Join(err, s[0].Sync()))
	require.NoError(t, d.Fill(s[0], b, 0, 1, 2))
	if wait {
		require.NoError(t, errors.Join(s[0].Record(e), s[1].Wait(e)))
	}
	require.NoError(t, d.Copy(s[1], b, 1, b, 0, 1))
	got := make([]float32, 1)
	require.NoError(t, backend.Download(d, s[1], got, b, 1))
	require.NoError(t, errors.Join(d.Close()))
	return got[0]
}

// What the caller may use again at once, the memory of a plan's work, is kept.
func TestLateKeepsPlans(t *testing.T) {
	var ran []uint32
	under := newBroken(openSmall(t))
	under.attend = func(_ backend.Stream, p attendP) error {
		ran = p.Plan.Work
		return nil
	}
	d := NewLate[*cpu.Buffer](under, LateOptions{})
	s, err := d.NewStream()
	require.NoError(t, err)
	b, err := backend.AllocFrom(d, s, backend.F32, make([]float32, 4))
	require.NoError(t, err)
	words, err := backend.AllocFrom(d, s, backend.U32, make([]uint32, 4))
	require.NoError(t, err)
	keys, err := backend.AllocFrom(d, s, backend.F32, make([]float32, 4))
	require.NoError(t, err)
	plane := backend.Plane[*cpu.Buffer]{Data: keys, Dim: 1}
	p := attendP{Cache: backend.CacheView[*cpu.Buffer]{K: plane, V: plane, Blocks: 1, KVHeads: 1, BlockSize: 4}, QHeads: 1, Scale: 1,
		Q: backend.Dense(b), Out: backend.Outputs[*cpu.Buffer]{Rows: backend.Rows[*cpu.Buffer]{Buf: b, Offset: 1}},
		Batch: backend.Ragged[*cpu.Buffer]{Seqs: 1, Tokens: 1, ContextLens: words}, Work: backend.Some(words),
		Plan: backend.AttendPlan{Items: 1, Work: []uint32{7, 8}}}
	require.NoError(t, d.Attend(s, p))
	p.Plan.Work[0] = 9
	require.NoError(t, s.Sync())
	require.Equal(t, []uint32{7, 8}, ran)
	require.NoError(t, d.Close())
}

// A wait that is missing shows with some seeds and not with others; with it every
// seed gives what was meant. A seed does the same each time.
func TestLateShowsMissingWaits(t *testing.T) {
	got := map[float32]int{}
	for seed := range uint64(20) {
		require.Equal(t, float32(2), copied(t, seed, true), "seed %d", seed)
		x := copied(t, seed, false)
		require.Equal(t, x, copied(t, seed, false), "seed %d", seed)
		got[x]++
	}
	require.Len(t, got, 2)
	require.Positive(t, got[1])
	require.Positive(t, got[2])
}

// Nothing runs before somebody waits, and held streams only for those that wait for them.
func TestLateRunsWhereSomebodyWaits(t *testing.T) {
	for seed := range uint64(10) {
		d, s, e := late(t, LateOptions{Seed: seed, OnlyWaits: true})
		var ran []string
		work := func(name string) {
			which := map[byte]backend.Stream{'a': s[0], 'b': s[1]}[name[0]]
			require.NoError(t, d.Enqueue(which, func(backend.Stream) error { ran = append(ran, name); return nil }))
		}
		require.NoError(t, d.Hold(s[0], true))
		work("a1")
		require.NoError(t, s[0].Record(e))
		work("a2")
		done, err := e.Done()
		require.NoError(t, err)
		require.False(t, done)
		work("b1")
		require.NoError(t, s[1].Wait(e))
		work("b2")
		require.Empty(t, ran)
		require.NoError(t, s[1].Sync())
		require.Equal(t, []string{"b1", "a1", "b2"}, ran, "seed %d", seed)
		done, err = e.Done()
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, errors.Join(d.Drain(), e.Close(), d.Close()))
		require.Equal(t, []string{"b1", "a1", "b2", "a2"}, ran)
	}
}

// An event is reached some time, also if nobody waits.
func TestLateMakesProgress(t *testing.T) {
	d, s, e := late(t, LateOptions{Seed: 3})
	const work = 3
	for range work {
		require.NoError(t, d.Enqueue(s[0], func(backend.Stream) error { return nil }))
	}
	require.NoError(t, s[0].Record(e))
	asked := 0
	for done := false; !done; asked++ {
		var err error
		done, err = e.Done()
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, asked, work)
	require.NoError(t, d.Close())
}

// What fails while it runs is an error of its own stream's next Sync, once.
func TestLateErrors(t *testing.T) {
	d, s, _ := late(t, LateOptions{})
	first, second := errors.New("first"), errors.New("second")
	for _, err := range []error{first, second} {
		require.NoError(t, d.Enqueue(s[0], func(backend.Stream) error { return err }))
	}
	require.NoError(t, s[1].Sync())
	err := s[0].Sync()
	require.ErrorIs(t, err, first)
	require.NotErrorIs(t, err, second)
	require.NoError(t, s[0].Sync())
	require.ErrorIs(t, d.Hold(nil, true), backend.ErrOtherDevice)
	require.NoError(t, d.Close())
}

// A buffer goes back to the device under it when the work that may use it has run.
func TestLateFree(t *testing.T) {
	d, s, _ := late(t, LateOptions{OnlyWaits: true})
	b, err := d.Alloc(backend.F32, 1)
	require.NoError(t, err)
	require.NoError(t, d.Fill(s[0], b, 0, 1, 1))
	require.NoError(t, d.Free(b))
	require.Zero(t, d.Info().Buffers)
	require.Equal(t, 1, d.Backend.Info().Buffers)
	require.ErrorIs(t, d.Fill(s[1], b, 0, 1, 1), backend.ErrFreed)
	require.ErrorIs(t, d.Free(b), backend.ErrFreed)
	require.NoError(t, s[0].Sync())
	require.Zero(t, d.Backend.Info().Buffers)
	require.NoError(t, d.Close())
}
