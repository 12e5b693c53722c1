package kvcache

import (
	"errors"
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/stretchr/testify/require"
)

// Each test here is a defect that an earlier system of this kind had. Those of the
// host cache of vectors are in paged_regression_test.go; the stale device table and
// the kernel that was called without asking whether there is one have theirs in
// kv_cache_test.go and config_test.go.

// A pool without enough blocks reports the need, takes nothing, and goes on working.
func TestRegressionExhaustedPool(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 3
	r := deviceRig(t, cfg)
	a, b := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5}}))
	err := r.feed(feed[buffer]{a, []uint32{6, 7, 8, 9}}, feed[buffer]{b, []uint32{10, 11, 12, 13, 14}})
	var short ErrOutOfBlocks
	require.ErrorAs(t, err, &short)
	require.Equal(t, ErrOutOfBlocks{Need: 3, Free: 1}, short)
	require.NoError(t, r.pool.Check())
	r.expect(r.s, a, tokens(1, 2, 3, 4, 5))
	require.Zero(t, b.Len())
	require.NoError(t, r.feed(feed[buffer]{b, []uint32{10, 11}}))
	r.expect(r.s, b, tokens(10, 11))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}

// Emptying a sequence or a cache gives all its blocks back.
func TestRegressionResetLeaks(t *testing.T) {
	r := deviceRig(t, small(Paged))
	for range 100 { // many times the pool's blocks
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, make([]uint32, 40)}))
		require.NoError(t, errors.Join(a.Truncate(0), r.s.Sync()))
		st, err := r.pool.Stats()
		require.NoError(t, err)
		require.Zero(t, st.Held)
		require.NoError(t, a.Release())
	}
	r.close()
}

// A sequence holds the blocks of its tokens, not of its capacity.
func TestRegressionFullReservation(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 32
	r := deviceRig(t, cfg)
	var seqs []*Sequence[buffer]
	for range 32 { // each could have 10 blocks
		s := r.open()
		require.NoError(t, r.feed(feed[buffer]{s, []uint32{1, 2}}))
		seqs = append(seqs, s)
	}
	for _, s := range seqs {
		require.NoError(t, s.Release())
	}
	r.close()
}

// A write that fails stays failed: nothing lands elsewhere, and the step can only be reset.
func TestRegressionPagedWriteFallsThrough(t *testing.T) {
	be := openDevice(t)
	dev := newLateDevice(be, backendtest.LateOptions{Seed: 1})
	r := newRig(t, dev, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3}}))
	require.NoError(t, r.plan(r.s, feed[buffer]{a, []uint32{4, 5}}))
	dev.failOn(backendtest.OpAppend, 0)
	q, k, v, out := r.operands(2)
	require.ErrorIs(t, r.step.Append(0, kv(k, v)), errBoom)
	dev.SetFault(nil)
	require.NoError(t, r.step.Reset())
	r.expect(r.s, a, tokens(1, 2, 3))
	r.free(q, k, v, out)
	require.NoError(t, errors.Join(a.Release(), r.s.Sync(), r.pool.Check(), r.pool.Close(), dev.late.Drain(), be.Close()))
}

// A window limits what queries see in the paged layout as in the contiguous one.
func TestRegressionWindowIgnored(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := small(layout)
		cfg.Model.Layers, cfg.Model.Masks = 1, []Mask{{Window: 2, SinkTokens: 1}}
		r := deviceRig(t, cfg)
		a := r.open()
		ids := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
		require.NoError(t, r.plan(r.s, feed[buffer]{a, ids}))
		r.write(r.s, feed[buffer]{a, ids})
		q := r.vector(r.s, make([]float32, len(ids)*cfg.Model.QHeads*cfg.Model.HeadDim)) // zeros: every visible key weighs the same
		out := r.vector(r.s, make([]float32, len(ids)*cfg.Model.QHeads*cfg.Model.VHeadDim))
		require.NoError(t, r.step.Attend(0, attending(q, out)))
		got := make([]float32, out.Len())
		require.NoError(t, backend.Download(r.be, r.s, got, out, 0))
		for i := range ids {
			seen := []int{0} // the sink
			for j := max(i-1, 1); j <= i; j++ {
				seen = append(seen, j)
			}
			for h := range cfg.Model.QHeads {
				for d := range cfg.Model.VHeadDim {
					want := 0.0
					for _, j := range seen {
						want += float64(element(ids[j], 0, h/2, d, true)) / float64(len(seen))
					}
					require.InDelta(t, want, got[(i*cfg.Model.QHeads+h)*cfg.Model.VHeadDim+d], 1e-5, "%s token %d", layout, i)
				}
			}
		}
		require.NoError(t, errors.Join(r.step.Commit(), r.be.Free(q), r.be.Free(out), a.Release()))
		r.close()
	}
}

// Truncating a fork and writing on never changes what the other one reads.
func TestRegressionTruncateOnSharedBlocks(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5, 6, 7}}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, b.Truncate(2)) // inside a shared full block
	require.NoError(t, r.feed(feed[buffer]{b, []uint32{20, 21, 22}}))
	r.expect(r.s, a, tokens(1, 2, 3, 4, 5, 6, 7))
	r.expect(r.s, b, tokens(1, 2, 20, 21, 22))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}

// A block is given back once: releasing twice is an error, and closing a batch twice too.
func TestRegressionDoubleFree(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5}}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, a.Release())
	require.ErrorIs(t, a.Release(), ErrReleased)
	require.ErrorIs(t, a.Truncate(0), ErrReleased)
	_, err = a.Fork()
	require.ErrorIs(t, err, ErrReleased)
	r.expect(r.s, b, tokens(1, 2, 3, 4, 5))
	require.NoError(t, b.Release())
	require.NoError(t, r.step.Close())
	require.ErrorIs(t, r.step.Close(), ErrClosed)
	r.close()
}

// The copy of a shared block is made on the device, in every layer, before the write.
func TestRegressionFlagOnlyCopyOnWrite(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		r := deviceRig(t, small(layout))
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5, 6}}))
		b, err := a.Fork()
		require.NoError(t, err)
		c, err := b.Fork()
		require.NoError(t, err)
		before, err := r.pool.Stats()
		require.NoError(t, err)
		require.Equal(t, 3*before.Held, before.Logical, "three owners share every block")
		require.NoError(t, r.feed(feed[buffer]{b, []uint32{30}}, feed[buffer]{a, []uint32{10}}))
		r.expect(r.s, a, tokens(1, 2, 3, 4, 5, 6, 10))
		r.expect(r.s, b, tokens(1, 2, 3, 4, 5, 6, 30))
		r.expect(r.s, c, tokens(1, 2, 3, 4, 5, 6))
		after, err := r.pool.Stats()
		require.NoError(t, err)
		require.Equal(t, before.Held+2, after.Held, "one copy for each writer, %s", layout)
		require.NoError(t, r.feed(feed[buffer]{c, []uint32{40}}))
		last, err := r.pool.Stats()
		require.NoError(t, err)
		require.Equal(t, after.Held, last.Held, "the last owner writes in place")
		require.NoError(t, errors.Join(a.Truncate(6), b.Truncate(6), a.Release(), b.Release()))
		a, err = c.Fork()
		require.NoError(t, err)
		b, err = c.Fork()
		require.NoError(t, err)
		require.NoError(t, b.Truncate(5))
		before, err = r.pool.Stats()
		require.NoError(t, err)
		for _, abandon := range []bool{true, false} {
			feeds := []feed[buffer]{{a, []uint32{50, 51}}, {b, []uint32{60}}, {c, []uint32{70}}}
			require.NoError(t, r.plan(r.s, feeds...))
			r.write(r.s, feeds...)
			if abandon {
				require.NoError(t, r.step.Reset())
				r.expect(r.s, a, tokens(1, 2, 3, 4, 5, 6, 40))
				r.expect(r.s, b, tokens(1, 2, 3, 4, 5))
			} else {
				require.NoError(t, r.step.Commit())
				r.expect(r.s, a, tokens(1, 2, 3, 4, 5, 6, 40, 50, 51))
				r.expect(r.s, b, tokens(1, 2, 3, 4, 5, 60))
				r.expect(r.s, c, tokens(1, 2, 3, 4, 5, 6, 40, 70))
			}
		}
		after, err = r.pool.Stats()
		require.NoError(t, err)
		if layout == Contiguous {
			require.Equal(t, before.Held+2, after.Held, "of three owners that write in one step one keeps the block")
		}
		require.NoError(t, errors.Join(a.Release(), b.Release(), c.Release()))
		r.close()
	}
}

// What the device cannot do is an error when the pool is made, not a default that
// does nothing.
func TestRegressionNoOpDefault(t *testing.T) {
	be := openDevice(t)
	cfg := small(Paged)
	cfg.Attention.Int8Query = true // with keys that are not quantized
	_, err := NewPool(be, cfg)
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	cfg = small(Paged)
	cfg.Model.RoPE = nil
	r := newRig(t, be, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3}}))
	require.ErrorIs(t, a.Shift(r.s, 0, 1), backend.ErrUnsupported{})
	require.NoError(t, r.plan(r.s, feed[buffer]{a, []uint32{4}}))
	q, k, v, out := r.operands(1)
	require.ErrorIs(t, r.step.Append(0, rotated(q, k, v)), backend.ErrUnsupported{})
	r.free(q, k, v, out)
	require.NoError(t, errors.Join(r.step.Reset(), a.Release()))
	r.close()
}

// A sequence at its capacity refuses tokens instead of writing past its memory.
func TestRegressionWritePastCapacity(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		r := deviceRig(t, small(layout))
		a := r.open()
		ids := make([]uint32, 40)
		require.NoError(t, r.feed(feed[buffer]{a, ids}))
		err := r.feed(feed[buffer]{a, []uint32{1}})
		var full ErrCapacity
		require.ErrorAs(t, err, &full)
		require.Equal(t, ErrCapacity{Have: 41, Max: 40}, full)
		require.Equal(t, 40, a.Len())
		require.NoError(t, a.Release())
		r.close()
	}
}

// Head dims are not capped by a kernel's accumulators: the largest that a device
// lists come out right, and 256 and 320 where it lists none.
func TestRegressionAccumulatorSizes(t *testing.T) {
	for _, dim := range []int{1, 7, 256, 320} {
		if !testDevice().SupportsDims(dim, dim) {
			continue
		}
		cfg := Config{
			Model:   Model{Layers: 1, KVHeads: 1, HeadDim: dim},
			Storage: Storage{K: backend.F32},
			Memory:  Memory{Layout: Paged, BlockSize: 4, Capacity: 6, MaxSeqs: 1},
		}
		r := deviceRig(t, cfg)
		a := r.open()
		ids := []uint32{1, 2, 3, 4, 5}
		require.NoError(t, r.plan(r.s, feed[buffer]{a, ids}))
		r.write(r.s, feed[buffer]{a, ids})
		q := r.vector(r.s, make([]float32, len(ids)*dim))
		out := r.vector(r.s, make([]float32, len(ids)*dim))
		require.NoError(t, r.step.Attend(0, attending(q, out)))
		got := make([]float32, out.Len())
		require.NoError(t, backend.Download(r.be, r.s, got, out, 0))
		for d := range dim {
			mean := 0.0
			for _, id := range ids {
				mean += float64(element(id, 0, 0, d, true)) / float64(len(ids))
			}
			require.InDelta(t, mean, got[4*dim+d], 1e-5, "dim %d of %d", d, dim)
		}
		require.NoError(t, errors.Join(r.step.Commit(), r.be.Free(q), r.be.Free(out), a.Release()))
		r.close()
	}
}

// A layer beyond 2³¹ elements is addressed in full: offsets are not 32 bits wide.
func TestRegressionInt32Offsets(t *testing.T) {
	if testing.Short() || race.Enabled || math.MaxInt == math.MaxInt32 {
		t.Skip("needs 4 GiB of address space that is backed on first touch")
	}
	be := openDevice(t)
	cfg := Config{
		Model:   Model{Layers: 1, KVHeads: 8, HeadDim: 256, VHeadDim: 1, RoPE: &backend.RoPE{}},
		Storage: Storage{K: backend.F32},
		Memory:  Memory{Layout: Paged, BlockSize: 16, Capacity: 64, Blocks: 1<<16 + 64},
	}
	if !be.Caps().SupportsDims(cfg.Model.HeadDim, cfg.Model.VHeadDim) {
		cfg.Model.VHeadDim = cfg.Model.HeadDim
	}
	require.Greater(t, cfg.Memory.Blocks*cfg.Model.KVHeads*cfg.Memory.BlockSize*cfg.Model.HeadDim, math.MaxInt32)
	need, err := cfg.Bytes()
	require.NoError(t, err)
	if free := be.Info().FreeMemory; free < need+1<<30 {
		require.NoError(t, be.Close())
		t.Skipf("needs %d bytes and some, %d are free", need, free)
	}
	r := newRig(t, be, cfg)
	// Take all blocks but the last few, so that the sequences lie behind 2³¹.
	var low []*Sequence[buffer]
	for range (1 << 16) / 4 {
		s := r.open()
		taken, err := s.runs.In[0].Take(s.runs.In[0].Kept.Blocks, 4)
		require.NoError(t, err)
		s.runs.In[0].Kept.Blocks, s.runs.In[0].Len = taken, 64
		r.pool.parts.All[0].Kept.Logical += 4
		low = append(low, s)
	}
	a := r.open()
	ids := sequence(1, 17)
	require.NoError(t, r.plan(r.s, feed[buffer]{a, ids}))
	r.write(r.s, feed[buffer]{a, ids})
	q, out := r.vector(r.s, rows(sequence(90, 17), 0, 8, 256, false)), r.vector(r.s, make([]float32, 17*8*cfg.Model.VHeadDim))
	require.NoError(t, r.step.Attend(0, attending(q, out)))
	require.NoError(t, r.step.Commit())
	require.GreaterOrEqual(t, a.runs.In[0].Kept.Blocks[0].ID, uint32(1<<16))
	r.expect(r.s, a, tokens(ids...))

	got := make([]float32, 8*cfg.Model.VHeadDim)
	require.NoError(t, backend.Download(be, r.s, got, out, 16*len(got)))
	for h := range 8 { // the last token sees all
		var sum, weighted float64
		for _, id := range ids {
			score := 0.0
			for d := range 256 {
				score += float64(element(106, 0, h, d, false)) * float64(element(id, 0, h, d, false)) / 16
			}
			sum += math.Exp(score)
			weighted += math.Exp(score) * float64(element(id, 0, h, 0, true))
		}
		require.InDelta(t, weighted/sum, got[h*cfg.Model.VHeadDim], 1e-5)
	}

	b, err := a.Fork() // copies, moves and turns there, too
	require.NoError(t, err)
	require.NoError(t, r.feed(feed[buffer]{b, []uint32{50}}))
	require.NoError(t, b.Shift(r.s, 3, 5))
	want := tokens(1, 2, 3)
	for _, id := range append(sequence(6, 12), 50) {
		want = append(want, token{id, -2})
	}
	r.expect(r.s, b, want)
	r.expect(r.s, a, tokens(ids...))
	for _, s := range append(low, a, b) {
		require.NoError(t, s.Release())
	}
	require.NoError(t, errors.Join(be.Free(q), be.Free(out)))
	r.close()
}

// Index vectors that grow for a larger step are not those of a smaller one on its way.
func TestRegressionRegrownStepVectors(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks = 200
	r, dev, be := lateRig(t, cfg)
	first := r.open()
	require.NoError(t, r.feed(feed[buffer]{first, sequence(1, 3)}))
	var feeds []feed[buffer]
	for i := range 80 {
		feeds = append(feeds, feed[buffer]{r.open(), sequence(100*(i+1), 1+i%5)})
	}
	require.NoError(t, r.feed(feeds...))
	r.expect(r.s, first, tokens(sequence(1, 3)...))
	for _, f := range feeds {
		r.expect(r.s, f.seq, tokens(f.ids...))
		require.NoError(t, f.seq.Release())
	}
	require.NoError(t, first.Release())
	closeLate(t, r, dev, be)
}

// A shared prompt of exactly full blocks, whose last token is computed again, is not
// written in place.
func TestRegressionRefillOfSharedFullBlock(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 8)}))
	b, err := a.Fork()
	require.NoError(t, err)
	require.NoError(t, b.Truncate(7))
	require.NoError(t, r.feed(feed[buffer]{b, []uint32{99}}))
	r.expect(r.s, a, tokens(sequence(1, 8)...))
	r.expect(r.s, b, tokens(1, 2, 3, 4, 5, 6, 7, 99))
	require.NoError(t, errors.Join(a.Release(), b.Release()))
	r.close()
}

// A query that sees no key at all, in a cache without tokens, gives zeros.
func TestRegressionEmptyContextGivesNaN(t *testing.T) {
	be := openDevice(t)
	r := newRig(t, be, small(Paged))
	c := r.pool.Config()
	view, _, err := r.pool.Layer(0)
	require.NoError(t, err)
	require.NoError(t, be.Fill(r.s, view.K.Data, 0, view.K.Data.Len(), math.NaN()))
	require.NoError(t, be.Fill(r.s, view.V.Data, 0, view.V.Data.Len(), math.NaN()))
	plan, err := be.PlanAttend(backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: c.Model.HeadDim, VDim: c.Model.VHeadDim, BlockSize: 4,
		Format: backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, ContextLens: []uint32{0}, QueryLens: []uint32{1}})
	require.NoError(t, err)
	vec := func(dt backend.DType, host []uint32) buffer {
		b, err := backend.AllocFrom(be, r.s, dt, host)
		require.NoError(t, err)
		return b
	}
	table, lens, work := vec(backend.U32, []uint32{0}), vec(backend.U32, []uint32{0}), vec(backend.U32, plan.Work)
	space, err := be.Alloc(backend.F32, plan.Workspace)
	require.NoError(t, err)
	q, k, v, out := r.operands(1)
	lse := r.vector(r.s, make([]float32, 4))
	require.NoError(t, be.Fill(r.s, out, 0, out.Len(), math.NaN()))
	require.NoError(t, be.Attend(r.s, backend.AttendParams[buffer]{
		Cache: view, Batch: backend.Ragged[buffer]{Seqs: 1, Tokens: 1, Table: backend.Some(table), TableStride: 1, ContextLens: lens},
		Q: backend.Dense(q), QHeads: 4, Scale: 1, Out: backend.Outputs[buffer]{Rows: backend.Dense(out), LSE: backend.Some(lse)},
		Plan: plan, Work: backend.Some(work), Workspace: backend.Some(space),
	}))
	got := make([]float32, out.Len())
	require.NoError(t, backend.Download(be, r.s, got, out, 0))
	require.Equal(t, make([]float32, out.Len()), got)
	sums := make([]float32, 4)
	require.NoError(t, backend.Download(be, r.s, sums, lse, 0))
	for _, s := range sums {
		require.True(t, math.IsInf(float64(s), -1), "log-sum-exp of nothing is −∞, not %v", s)
	}
	for _, b := range []buffer{table, lens, work, space, q, k, v, out, lse} {
		require.NoError(t, be.Free(b))
	}
	r.close()
}

// The defaults do not reserve a server's memory for one user.
func TestRegressionDefaultsReserveTooMuch(t *testing.T) {
	llama8B := Config{Model: Model{Layers: 32, QHeads: 32, KVHeads: 8, HeadDim: 128}, Memory: Memory{Layout: Paged}}
	got, err := llama8B.ResolveWith(config.Environment{})
	require.NoError(t, err)
	bytes, err := got.Bytes()
	require.NoError(t, err)
	require.Equal(t, int64(4<<30), bytes, "8 sequences of 4,096 tokens at 128 KiB each")
}
