package kvcache

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// Calls out of order and bad operands are errors by type, and change nothing.
func TestStepMisuse(t *testing.T) {
	r := cpuRig(t, small(Paged))
	other := cpuRig(t, small(Paged))
	a := r.open()
	one := []uint32{1}
	k := r.vector(r.s, make([]float32, 64))
	tiny := r.vector(r.s, make([]float32, 3))
	ints, err := r.be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	half, err := r.be.Alloc(backend.F16, 64)
	require.NoError(t, err)
	_, err = NewPool[*cpu.Buffer](nil, small(Paged))
	require.ErrorIs(t, err, backend.ErrShape{})

	require.ErrorIs(t, r.step.Append(0, k, k), ErrStep{})
	require.ErrorIs(t, r.step.Attend(0, k, k), ErrStep{})
	require.ErrorIs(t, r.step.Commit(), ErrStep{})
	require.ErrorIs(t, r.step.Plan(r.s), ErrStep{}, "no sequences")
	_, err = r.step.Index()
	require.ErrorIs(t, err, ErrStep{})
	require.ErrorIs(t, r.step.Add(nil, one), backend.ErrShape{})
	require.ErrorIs(t, r.step.Add(other.open(), one), ErrForeign)
	require.ErrorIs(t, r.step.Add(a, nil), backend.ErrShape{})
	require.ErrorIs(t, r.step.Add(a, make([]uint32, 41)), ErrCapacity{Have: 41, Max: 40})
	require.NoError(t, r.step.Add(a, one))
	require.ErrorIs(t, r.step.Add(a, one), ErrBusy)
	second := r.pool.NewBatch()
	require.ErrorIs(t, second.Add(a, one), ErrBusy)
	require.ErrorIs(t, a.Release(), ErrBusy)
	require.ErrorIs(t, r.step.Plan(nil), backend.ErrShape{})
	foreign, err := other.be.NewStream()
	require.NoError(t, err)
	require.ErrorIs(t, r.step.Plan(foreign), backend.ErrForeign)
	require.Zero(t, r.stats().Held)
	require.NoError(t, r.step.Plan(r.s))
	require.ErrorIs(t, r.step.Plan(r.s), ErrStep{})
	require.ErrorIs(t, r.step.Append(2, k, k), backend.ErrShape{})
	require.ErrorIs(t, r.step.Append(-1, k, k), backend.ErrShape{})
	require.ErrorIs(t, r.step.Append(0, tiny, k), backend.ErrShape{})
	require.ErrorIs(t, r.step.Append(0, k, ints), backend.ErrShape{})
	require.ErrorIs(t, r.step.Append(0, nil, nil), backend.ErrShape{})
	require.ErrorIs(t, r.step.Attend(0, nil, nil), backend.ErrShape{})
	require.ErrorIs(t, r.step.AppendRotated(0, half, k, k), backend.ErrShape{}, "not of Config.Act")
	require.ErrorIs(t, r.step.Append(0, half, half), backend.ErrShape{})
	require.ErrorIs(t, r.step.Attend(0, half, half), backend.ErrShape{})
	require.NoError(t, r.step.Append(0, k, k))
	require.ErrorIs(t, r.step.Commit(), ErrStep{}, "layer 1 has no keys and values")
	require.ErrorIs(t, r.step.Attend(0, k, tiny), backend.ErrShape{})
	require.ErrorIs(t, r.step.Attend(0, ints, k), backend.ErrShape{})
	require.ErrorIs(t, r.step.AttendTo(0, backend.Dense(k), backend.Outputs[*cpu.Buffer]{Rows: backend.Dense(k), Mass: backend.Some(k)}), backend.ErrShape{}, "mass was not planned")
	alien, err := other.be.Alloc(backend.F32, 64)
	require.NoError(t, err)
	require.ErrorIs(t, r.step.Append(0, alien, k), backend.ErrForeign)
	r.write(r.s, feed[*cpu.Buffer]{a, one})
	require.NoError(t, r.step.Commit())
	require.ErrorIs(t, r.step.Commit(), ErrStep{})
	require.ErrorIs(t, r.step.Add(a, one), ErrStep{})
	r.expect(r.s, a, tokens(1))

	_, _, err = r.pool.Open(context.Background(), make([]uint32, 41))
	require.ErrorIs(t, err, ErrCapacity{})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = r.pool.Open(gone, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.pool.Layer(9)
	require.ErrorIs(t, err, backend.ErrShape{})
	require.ErrorIs(t, r.pool.Reserve(Reservation[*cpu.Buffer]{a, 41}), ErrCapacity{})
	require.ErrorIs(t, r.pool.Reserve(Reservation[*cpu.Buffer]{nil, 4}), ErrForeign)
	require.ErrorIs(t, r.pool.Reserve(Reservation[*cpu.Buffer]{a, -1}), backend.ErrShape{})
	var noContext context.Context
	_, _, err = r.pool.Open(noContext, nil)
	require.ErrorIs(t, err, backend.ErrShape{})

	require.NoError(t, errors.Join(r.be.Free(k), r.be.Free(tiny), r.be.Free(ints), r.be.Free(half), second.Close()))
	require.NoError(t, r.pool.Close())
	require.ErrorIs(t, r.pool.Close(), ErrClosed)
	require.ErrorIs(t, a.Truncate(0), ErrClosed)
	require.ErrorIs(t, a.Release(), ErrClosed)
	require.ErrorIs(t, r.step.Reset(), ErrClosed)
	require.ErrorIs(t, r.step.Append(0, k, k), ErrClosed)
	require.ErrorIs(t, r.pool.NewBatch().Add(a, one), ErrClosed)
	_, _, err = r.pool.Open(context.Background(), nil)
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, r.be.Info().Buffers)
	require.NoError(t, errors.Join(other.be.Free(alien), other.pool.Close(), other.be.Close(), r.be.Close()))
}

// Reservations are for all sequences or for none, and others cannot take them.
func TestReserve(t *testing.T) {
	cfg := small(Paged)
	cfg.Blocks = 5
	r := cpuRig(t, cfg)
	a, b, c := r.open(), r.open(), r.open()
	err := r.pool.Reserve(Reservation[*cpu.Buffer]{a, 12}, Reservation[*cpu.Buffer]{b, 12})
	require.ErrorIs(t, err, ErrOutOfBlocks{})
	require.Zero(t, r.stats().Reserved)
	require.NoError(t, r.pool.Reserve(Reservation[*cpu.Buffer]{a, 12}, Reservation[*cpu.Buffer]{b, 1}, Reservation[*cpu.Buffer]{a, 5}))
	require.Equal(t, 4, r.stats().Reserved)
	require.ErrorIs(t, r.feed(feed[*cpu.Buffer]{c, sequence(1, 5)}), ErrOutOfBlocks{})
	require.NoError(t, r.feed(feed[*cpu.Buffer]{c, sequence(1, 4)}))
	require.NoError(t, r.feed(feed[*cpu.Buffer]{a, sequence(1, 12)}, feed[*cpu.Buffer]{b, sequence(1, 1)}))
	require.Zero(t, r.stats().Reserved)
	require.NoError(t, a.Release())
	require.NoError(t, r.pool.Reserve(Reservation[*cpu.Buffer]{b, 12}))
	require.NoError(t, b.Release(), "the rest of a reservation ends with the sequence")
	require.Zero(t, r.stats().Reserved)
	require.NoError(t, c.Release())
	r.close()
}

// A warm decode step allocates nothing on the Go heap: typed and erased, with and
// without RoPE in the library.
func TestWarmStepAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, layout := range []Layout{Contiguous, Paged} {
		be := openCPU(t)
		t.Run(layout.String()+"/typed", func(t *testing.T) { warmStep[*cpu.Buffer](t, be, layout) })
		t.Run(layout.String()+"/erased", func(t *testing.T) { warmStep(t, backend.Erase[*cpu.Buffer](be), layout) })
		require.NoError(t, be.Close())
	}
}

func warmStep[B backend.Buffer](t *testing.T, be backend.Backend[B], layout Layout) {
	cfg := small(layout)
	cfg.Capacity = 4096
	r := newRig(t, be, cfg)
	seqs := []*Sequence[B]{r.open(), r.open(), r.open()}
	q, k := r.vector(r.s, make([]float32, 3*16)), r.vector(r.s, make([]float32, 3*8))
	v, out := r.vector(r.s, make([]float32, 3*12)), r.vector(r.s, make([]float32, 3*24))
	token := []uint32{7}
	step := func() {
		err := r.step.Reset()
		for _, s := range seqs {
			err = firstOf(err, r.step.Add(s, token))
		}
		err = firstOf(err, r.step.Plan(r.s))
		for l := range cfg.Layers {
			err = firstOf(err, r.step.AppendRotated(l, q, k, v))
			err = firstOf(err, r.step.Attend(l, q, out))
		}
		if err = firstOf(err, r.step.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	for range 350 { // the index vectors reach the size of the steps measured
		step()
	}
	require.Zero(t, testing.AllocsPerRun(300, step))
	for _, s := range seqs {
		require.NoError(t, s.Release())
	}
	require.NoError(t, errors.Join(be.Free(q), be.Free(k), be.Free(v), be.Free(out), r.step.Close(), r.pool.Check(), r.pool.Close(), r.s.Close()))
	require.Zero(t, be.Info().Buffers)
}

// Users of one pool, each with a stream, a batch and sequences of its own, do not
// disturb each other.
func TestConcurrentUsers(t *testing.T) {
	cfg := small(Paged)
	cfg.Blocks = 64
	be := openCPU(t)
	pool, err := NewPool[*cpu.Buffer](be, cfg)
	require.NoError(t, err)
	trunk := &rig[*cpu.Buffer]{t: t, be: be, pool: pool, step: pool.NewBatch()}
	trunk.s, err = be.NewStream()
	require.NoError(t, err)
	root := trunk.open()
	require.NoError(t, trunk.feed(feed[*cpu.Buffer]{root, sequence(1, 6)}))
	var users sync.WaitGroup
	for u := range 4 {
		child, err := root.Fork()
		require.NoError(t, err)
		users.Go(func() {
			s, err := be.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			r := &rig[*cpu.Buffer]{t: t, be: be, s: s, pool: pool, step: pool.NewBatch()}
			want := tokens(sequence(1, 6)...)
			for i := range 30 {
				ids := sequence(1000*(u+1)+10*i, 3)
				if err := r.feed(feed[*cpu.Buffer]{child, ids}); err != nil {
					t.Errorf("user %d: %v", u, err)
					return
				}
				want = append(want[:len(want):len(want)], tokens(ids...)...)
				if len(want) > 30 {
					want = want[:5]
					if err := child.Truncate(5); err != nil {
						t.Error(err)
					}
				}
				r.expect(s, child, want)
				if _, err := pool.Stats(); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(child.Release(), r.step.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	users.Wait()
	trunk.expect(trunk.s, root, tokens(sequence(1, 6)...))
	require.NoError(t, root.Release())
	trunk.close()
}

// Closing a pool under its users ends their steps with ErrClosed and nothing else.
func TestCloseUnderUsers(t *testing.T) {
	for range 20 {
		be := openCPU(t)
		pool, err := NewPool[*cpu.Buffer](be, small(Paged))
		require.NoError(t, err)
		var users, working sync.WaitGroup
		for range 3 {
			s, err := be.NewStream()
			require.NoError(t, err)
			r := &rig[*cpu.Buffer]{t: t, be: be, s: s, pool: pool, step: pool.NewBatch()}
			seq := r.open()
			x, out := r.vector(s, make([]float32, 64)), r.vector(s, make([]float32, 64))
			working.Add(1)
			users.Go(func() {
				started := sync.OnceFunc(working.Done)
				defer started()
				for {
					err := r.step.Reset()
					err = firstOf(err, seq.Truncate(0))
					err = firstOf(err, r.step.Add(seq, []uint32{1}))
					err = firstOf(err, r.step.Plan(s))
					err = firstOf(err, r.step.Append(0, x, x))
					err = firstOf(err, r.step.Append(1, x, x))
					err = firstOf(err, r.step.Attend(0, x, out))
					err = firstOf(err, r.step.Commit())
					started()
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		working.Wait()
		require.NoError(t, pool.Close())
		users.Wait()
		require.Equal(t, 6, be.Info().Buffers, "the users' own")
		_, err = pool.Layer(0)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, be.Close())
	}
}

// A fused projection [tokens, q+k+v] gives, without a copy, what dense buffers give.
func TestFusedRows(t *testing.T) {
	cfg := small(Paged)
	r := cpuRig(t, cfg)
	const n, q, k, v = 5, 4 * 4, 2 * 4, 2 * 6
	const wide = q + k + v
	ids := sequence(1, n)
	var fused, dq []float32
	dk, dv := rows(ids, 0, 2, 4, false), rows(ids, 0, 2, 6, true)
	for i := range n {
		row := rows(ids[i:i+1], 1, 4, 4, false)
		dq = append(dq, row...)
		fused = append(append(append(fused, row...), dk[i*k:(i+1)*k]...), dv[i*v:(i+1)*v]...)
	}
	attend := func(seq *Sequence[*cpu.Buffer], q, k, v backend.Rows[*cpu.Buffer], out *cpu.Buffer) []float32 {
		require.NoError(t, r.plan(r.s, feed[*cpu.Buffer]{seq, ids}))
		require.NoError(t, r.step.AppendRotatedRows(0, q, k, v))
		require.NoError(t, r.step.AppendRows(1, k, v))
		got := make([]float32, n*24)
		require.NoError(t, r.step.AttendTo(0, q, backend.Outputs[*cpu.Buffer]{Rows: backend.Rows[*cpu.Buffer]{Buf: out, Offset: 3, Stride: 25}}))
		require.NoError(t, r.step.Commit())
		for i := range n {
			require.NoError(t, backend.Download[*cpu.Buffer](r.be, r.s, got[i*24:(i+1)*24], out, 3+25*i))
		}
		return got
	}
	all, out := r.vector(r.s, fused), r.vector(r.s, make([]float32, 200))
	bq, bk, bv := r.vector(r.s, dq), r.vector(r.s, dk), r.vector(r.s, dv)
	part := func(offset int) backend.Rows[*cpu.Buffer] {
		return backend.Rows[*cpu.Buffer]{Buf: all, Offset: offset, Stride: wide}
	}
	a, b := r.open(), r.open()
	want := attend(a, backend.Dense(bq), backend.Dense(bk), backend.Dense(bv), out)
	require.Equal(t, want, attend(b, part(0), part(q), part(q+k), out))
	require.NotEqual(t, make([]float32, n*24), want)
	for _, buf := range []*cpu.Buffer{all, out, bq, bk, bv} {
		require.NoError(t, r.be.Free(buf))
	}
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}
