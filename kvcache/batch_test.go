package kvcache

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

// Calls out of order and bad operands are errors by type, and change nothing.
func TestStepMisuse(t *testing.T) {
	r := deviceRig(t, small(Paged))
	other := deviceRig(t, small(Paged))
	a := r.open()
	one := []uint32{1}
	const n = 2048 // more than any operand of one token has
	k := r.vector(r.s, make([]float32, n))
	tiny := r.vector(r.s, make([]float32, 3))
	ints, err := r.be.Alloc(backend.U32, n)
	require.NoError(t, err)
	half, err := r.be.Alloc(backend.F16, n)
	require.NoError(t, err)
	_, err = NewPool[buffer](nil, small(Paged))
	require.ErrorIs(t, err, backend.ErrArgument{})

	require.ErrorIs(t, r.step.Append(0, kv(k, k)), ErrStep{})
	require.ErrorIs(t, r.step.Attend(0, attending(k, k)), ErrStep{})
	require.ErrorIs(t, r.step.Commit(), ErrStep{})
	require.ErrorIs(t, r.step.Plan(r.s), ErrStep{}, "no sequences")
	_, err = r.step.Metadata(0)
	require.ErrorIs(t, err, ErrStep{})
	require.ErrorIs(t, r.step.Add(nil, one), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Add(other.open(), one), ErrOtherPool)
	require.ErrorIs(t, r.step.Add(a, nil), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Add(a, make([]uint32, 41)), ErrCapacity{Have: 41, Max: 40})
	require.NoError(t, r.step.Add(a, one))
	second := r.pool.NewBatch()
	require.ErrorIs(t, second.Add(a, one), ErrBusy)
	require.ErrorIs(t, a.Release(), ErrBusy)
	require.ErrorIs(t, r.step.Plan(nil), backend.ErrArgument{})
	foreign, err := other.be.NewStream()
	require.NoError(t, err)
	require.ErrorIs(t, r.step.Plan(foreign), backend.ErrOtherDevice)
	require.Zero(t, r.stats().Held)
	require.NoError(t, r.step.Plan(r.s))
	require.ErrorIs(t, r.step.Plan(r.s), ErrStep{})
	require.ErrorIs(t, r.step.Append(2, kv(k, k)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Append(-1, kv(k, k)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Append(0, kv(tiny, k)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Append(0, kv(k, ints)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Append(0, kv(buffer{}, buffer{})), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Attend(0, attending(buffer{}, buffer{})), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Append(0, rotated(half, k, k)), backend.ErrArgument{}, "not of Model.Act")
	require.ErrorIs(t, r.step.Append(0, kv(half, half)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Attend(0, attending(half, half)), backend.ErrArgument{})
	require.NoError(t, r.step.Append(0, kv(k, k)))
	require.ErrorIs(t, r.step.Commit(), ErrStep{}, "layer 1 has no keys and values")
	require.ErrorIs(t, r.step.Attend(0, attending(k, tiny)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Attend(0, attending(ints, k)), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Attend(0, attendingTo(backend.Dense(k), backend.Outputs[buffer]{Rows: backend.Dense(k), Scores: backend.Some(k)})), backend.ErrArgument{}, "mass was not planned")
	alien, err := other.be.Alloc(backend.F32, n)
	require.NoError(t, err)
	require.ErrorIs(t, r.step.Append(0, kv(alien, k)), backend.ErrOtherDevice)
	r.write(r.s, feed[buffer]{a, one})
	require.NoError(t, r.step.Commit())
	require.ErrorIs(t, r.step.Commit(), ErrStep{})
	require.NoError(t, r.step.Add(a, one), "the next step begins")
	require.Equal(t, 1, r.step.Tokens())
	require.NoError(t, r.step.Reset())
	r.expect(r.s, a, tokens(1))
	require.NoError(t, (*Sequence[buffer])(nil).Release(), "there is nothing to release")

	_, _, err = r.pool.Open(make([]uint32, 41), OpenOptions{})
	require.ErrorIs(t, err, ErrCapacity{})
	_, _, err = r.pool.Layer(9)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.ErrorIs(t, r.pool.Reserve(Reservation[buffer]{a, 41}), ErrCapacity{})
	require.ErrorIs(t, r.pool.Reserve(Reservation[buffer]{nil, 4}), backend.ErrArgument{})
	require.ErrorIs(t, r.pool.Reserve(Reservation[buffer]{a, -1}), backend.ErrArgument{})

	require.NoError(t, errors.Join(r.be.Free(k), r.be.Free(tiny), r.be.Free(ints), r.be.Free(half), second.Close()))
	require.NoError(t, r.pool.Close())
	require.ErrorIs(t, r.pool.Close(), ErrClosed)
	require.ErrorIs(t, a.Truncate(0), ErrClosed)
	require.ErrorIs(t, a.Release(), ErrClosed)
	require.ErrorIs(t, r.step.Reset(), ErrClosed)
	require.ErrorIs(t, r.step.Append(0, kv(k, k)), ErrClosed)
	require.ErrorIs(t, r.pool.NewBatch().Add(a, one), ErrClosed)
	_, _, err = r.pool.Open(nil, OpenOptions{})
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, r.be.Info().Buffers)
	require.NoError(t, errors.Join(other.be.Free(alien), other.pool.Close(), other.be.Close(), r.be.Close()))
}

// Reservations are for all sequences or for none, and others cannot take them.
func TestReserve(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 5
	r := deviceRig(t, cfg)
	a, b, c := r.open(), r.open(), r.open()
	err := r.pool.Reserve(Reservation[buffer]{a, 12}, Reservation[buffer]{b, 12})
	require.ErrorIs(t, err, ErrOutOfBlocks{})
	require.Zero(t, r.stats().Reserved)
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{a, 12}, Reservation[buffer]{b, 1}, Reservation[buffer]{a, 5}))
	require.Equal(t, 4, r.stats().Reserved)
	require.ErrorIs(t, r.feed(feed[buffer]{c, sequence(1, 5)}), ErrOutOfBlocks{})
	require.NoError(t, r.feed(feed[buffer]{c, sequence(1, 4)}))
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 12)}, feed[buffer]{b, sequence(1, 1)}))
	require.Zero(t, r.stats().Reserved)
	require.NoError(t, a.Release())
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{b, 12}))
	require.NoError(t, b.Release(), "the rest of a reservation ends with the sequence")
	require.Zero(t, r.stats().Reserved)
	require.NoError(t, c.Release())
	r.close()
}

// A warm decode step allocates nothing on the Go heap: typed and erased, with and
// without RoPE in the library.
func TestWarmStepAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, layout := range []Layout{Contiguous, Paged} {
		typed, be := openCPU(t), openDevice(t)
		t.Run(layout.String()+"/typed", func(t *testing.T) { warmStep(t, typed, small(layout)) })
		t.Run(layout.String()+"/erased", func(t *testing.T) { warmStep(t, be, small(layout)) })
		require.NoError(t, errors.Join(typed.Close(), be.Close()))
	}
}

// Nor does one over quantized keys and values, over layers of two formats, with scores, or
// with a recent window out of which blocks are quantized.
func TestWarmQuantizedStepAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	be := openDevice(t)
	for name, change := range map[string]func(*Config){
		"quantized":   func(*Config) {},
		"scores":      func(c *Config) { c.Attention.Scores = true },
		"two formats": func(c *Config) { c.Storage.SkipLayers, c.Storage.Hadamard = []int{1}, true },
		"residual":    func(c *Config) { c.Storage.Residual, c.Memory.StepTokens = 12, 8 },
		"a logger":    func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil)) }, // at level Info
	} {
		cfg := small(Paged)
		cfg.Storage.K, cfg.Storage.V, cfg.Model.Act = backend.Int8, backend.Int8, backend.F32
		if !testDevice().Supports(backend.Format{Act: cfg.Model.Act, K: cfg.Storage.K, V: cfg.Storage.V}) {
			t.Skip("the device has no int8")
		}
		change(&cfg)
		t.Run(name, func(t *testing.T) { warmStep(t, be, cfg) })
	}
	require.NoError(t, be.Close())
}

func warmStep[B backend.Buffer](t *testing.T, be backend.Backend[B], cfg Config) {
	cfg.Memory.Capacity = 4096
	r := newRig(t, be, cfg)
	seqs := []*Sequence[B]{r.open(), r.open(), r.open()}
	q, k, v, out := r.operands(len(seqs))
	token, late := []uint32{7}, emulated(be.Info())
	step := func() {
		err := r.step.Reset()
		for _, s := range seqs {
			err = cmp.Or(err, r.step.Add(s, token))
		}
		err = cmp.Or(err, r.step.Plan(r.s))
		for l := range cfg.Model.Layers {
			err = cmp.Or(err, r.step.Append(l, rotated(q, k, v)))
			err = cmp.Or(err, r.step.Attend(l, attending(q, out)))
		}
		err = cmp.Or(err, r.step.Commit())
		err = cmp.Or(err, r.s.Sync()) // events are used again once they are done
		if err != nil {
			t.Fatal(err)
		}
	}
	warm, runs := 350, 300 // the index vectors reach the size of the steps measured
	if late {
		warm, runs = 70, 50
	}
	for range warm {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(runs, step))
	for _, s := range seqs {
		require.NoError(t, s.Release())
	}
	r.free(q, k, v, out)
	require.NoError(t, errors.Join(r.step.Close(), r.pool.Check(), r.pool.Close(), r.s.Close()))
	require.Zero(t, be.Info().Buffers)
}

// Users of one pool, each with a stream, a batch and sequences of its own, do not
// disturb each other.
func TestConcurrentUsers(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 64
	be := openDevice(t)
	pool, err := NewPool(be, cfg)
	require.NoError(t, err)
	trunk := &rig[buffer]{t: t, be: be, pool: pool, step: pool.NewBatch()}
	trunk.s, err = be.NewStream()
	require.NoError(t, err)
	root := trunk.open()
	require.NoError(t, trunk.feed(feed[buffer]{root, sequence(1, 6)}))
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
			r := &rig[buffer]{t: t, be: be, s: s, pool: pool, step: pool.NewBatch()}
			want := tokens(sequence(1, 6)...)
			for i := range 30 {
				ids := sequence(1000*(u+1)+10*i, 3)
				if err := r.feed(feed[buffer]{child, ids}); err != nil {
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
		be := openDevice(t)
		pool, err := NewPool(be, small(Paged))
		require.NoError(t, err)
		var users, working sync.WaitGroup
		for range 3 {
			s, err := be.NewStream()
			require.NoError(t, err)
			r := &rig[buffer]{t: t, be: be, s: s, pool: pool, step: pool.NewBatch()}
			seq := r.open()
			q, k, v, out := r.operands(1)
			working.Add(1)
			users.Go(func() {
				started := sync.OnceFunc(working.Done)
				defer started()
				for {
					err := r.step.Reset()
					err = cmp.Or(err, seq.Truncate(0))
					err = cmp.Or(err, r.step.Add(seq, []uint32{1}))
					err = cmp.Or(err, r.step.Plan(s))
					err = cmp.Or(err, r.step.Append(0, kv(k, v)))
					err = cmp.Or(err, r.step.Append(1, kv(k, v)))
					err = cmp.Or(err, r.step.Attend(0, attending(q, out)))
					err = cmp.Or(err, r.step.Commit())
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
		require.Equal(t, 3*4, be.Info().Buffers, "the users' own")
		_, _, err = pool.Layer(0)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, be.Close())
	}
}

// A fused projection [tokens, q+k+v] gives, without a copy, what dense buffers give.
func TestFusedRows(t *testing.T) {
	const n = 5
	r := deviceRig(t, small(Paged))
	c := r.pool.Config()
	kHead, vHead := c.Model.HeadDim, c.Model.VHeadDim
	q, k, v := c.Model.QHeads*kHead, c.Model.KVHeads*kHead, c.Model.KVHeads*vHead
	wide, result := q+k+v, c.Model.QHeads*vHead
	ids := sequence(1, n)
	var fused, dq []float32
	dk, dv := rows(ids, 0, c.Model.KVHeads, kHead, false), rows(ids, 0, c.Model.KVHeads, vHead, true)
	for i := range n {
		row := rows(ids[i:i+1], 1, c.Model.QHeads, kHead, false)
		dq = append(dq, row...)
		fused = append(append(append(fused, row...), dk[i*k:(i+1)*k]...), dv[i*v:(i+1)*v]...)
	}
	attend := func(seq *Sequence[buffer], q, k, v backend.Rows[buffer], out buffer) []float32 {
		require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids}))
		require.NoError(t, r.step.Append(0, LayerIO[buffer]{Q: q, K: k, V: v, Rotate: true}))
		require.NoError(t, r.step.Append(1, LayerIO[buffer]{K: k, V: v}))
		got := make([]float32, n*result)
		to := backend.Rows[buffer]{Buf: out, Offset: 8, Stride: result + 4} // 16-byte units, as devices ask for
		require.NoError(t, r.step.Attend(0, attendingTo(q, backend.Outputs[buffer]{Rows: to})))
		require.NoError(t, r.step.Commit())
		for i := range n {
			require.NoError(t, backend.Download(r.be, r.s, got[i*result:(i+1)*result], out, to.Offset+to.Stride*i))
		}
		return got
	}
	all, out := r.vector(r.s, fused), r.vector(r.s, make([]float32, n*(result+8)))
	bq, bk, bv := r.vector(r.s, dq), r.vector(r.s, dk), r.vector(r.s, dv)
	part := func(offset int) backend.Rows[buffer] {
		return backend.Rows[buffer]{Buf: all, Offset: offset, Stride: wide}
	}
	a, b := r.open(), r.open()
	want := attend(a, backend.Dense(bq), backend.Dense(bk), backend.Dense(bv), out)
	require.Equal(t, want, attend(b, part(0), part(q), part(q+k), out))
	require.NotEqual(t, make([]float32, n*result), want)
	r.free(all, out, bq, bk, bv)
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}
