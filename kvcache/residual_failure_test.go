package kvcache

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/testsize"
	"github.com/stretchr/testify/require"
)

// Whatever operation of the device fails in a step that brings tokens back and quantizes
// others, no sequence has lost or gained a token, what is reserved stays so, and the step
// can be planned again.
func TestResidualFailure(t *testing.T) {
	be := openDevice(t)
	stride := 1
	if emulated(be.Info()) && !testsize.Full() { // seconds each, and the host's part is the same
		stride = 9
	}
	for after := 0; ; after += stride {
		dev := newLateDevice(be, backendtest.LateOptions{Seed: uint64(after), OnlyWaits: true})
		r := residualRig(t, dev, nil)
		c := r.pool.Config()
		s2, err := dev.NewStream()
		require.NoError(t, err)
		a, b, cut := r.open(), r.open(), r.open()
		wa, wb, wc := &tiered{}, &tiered{}, &tiered{}
		r.grown(a, wa, 30, 1)
		r.grown(b, wb, 30)
		r.grown(cut, wc, 30, 1)
		half := wc.sealed - c.BlockSize/2 // in the middle of a quantized block
		require.NoError(t, cut.Truncate(half))
		wc.ids, wc.rounds, wc.sealed = wc.ids[:half], wc.rounds[:half], half
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{b, 40}))
		fork, err := a.Fork()
		require.NoError(t, err)
		wf := &tiered{wa.ids, append([]int(nil), wa.rounds...), wa.sealed}
		before := r.stats().Reserved

		feeds := []feed[buffer]{{a, sequence(100, 2)}, {b, sequence(200, 3)}, {cut, sequence(300, 9)}}
		of := []*tiered{wa, wb, wc}
		q, k, v, out := r.operands(2 + 3 + 9)
		n, boom := after, false
		dev.SetFault(enqueued(func(backendtest.Op) error {
			if n--; n < 0 && !boom {
				boom = true
				return errBoom
			}
			return nil
		}))
		step := func() (planned bool, err error) {
			err = r.step.Reset()
			for _, f := range feeds {
				err = firstOf(err, r.step.Add(f.seq, f.ids))
			}
			if err = firstOf(err, r.step.Plan(s2)); err != nil {
				return false, err
			}
			for l := range c.Layers {
				err = firstOf(err, r.step.AppendQueries(l, q, k, v))
				err = firstOf(err, r.step.Attend(l, q, out))
			}
			if err == nil {
				err = r.step.Commit()
			}
			return true, err
		}
		planned, err := step()
		dev.SetFault(nil)
		for i, f := range feeds {
			if err == nil { // all of it; the rows were zeros
				break
			}
			of[i].settled(t, f.seq, planned)
		}
		if err == nil { // where it went wrong, what is quantized early is so later
			require.NoError(t, errors.Join(a.Release(), b.Release(), cut.Release(), fork.Release()))
			require.NoError(t, errors.Join(r.be.Free(q), r.be.Free(k), r.be.Free(v), r.be.Free(out), s2.Sync()))
			if boom {
				require.NoError(t, errors.Join(r.s.Sync(), r.step.Reset(), r.pool.Close(), dev.late.Drain()))
				require.Zero(t, be.Info().Buffers, "operation %d", after)
				continue
			}
			closeLate(t, r, dev, be)
			break
		}
		require.ErrorIs(t, err, errBoom, "operation %d", after)
		require.NoError(t, r.step.Reset())
		require.LessOrEqual(t, r.stats().Reserved, before)
		if wb.sealed == 0 { // b took no block
			require.Equal(t, before, r.stats().Reserved, "operation %d", after)
		}
		for i, f := range feeds {
			r.expectTiers(r.s, f.seq, of[i])
		}
		r.expectTiers(r.s, fork, wf)
		require.NoError(t, r.plan(r.s, feeds...))
		for i, f := range feeds {
			of[i].settled(t, f.seq, true)
		}
		r.write(r.s, feeds...)
		require.NoError(t, r.step.Commit())
		for i, f := range feeds {
			of[i].ids = append(of[i].ids[:len(of[i].ids):len(of[i].ids)], f.ids...)
			of[i].rounds = append(of[i].rounds, make([]int, len(f.ids))...)
			of[i].settled(t, f.seq, true)
			r.expectTiers(s2, f.seq, of[i])
		}
		r.expectTiers(s2, fork, wf)
		r.free(q, k, v, out)
		require.NoError(t, errors.Join(a.Release(), b.Release(), cut.Release(), fork.Release(), s2.Sync()))
		require.NoError(t, errors.Join(r.s.Sync(), r.step.Reset()))
		require.Zero(t, r.stats().Held)
		st, err := r.pool.recent.Stats()
		require.NoError(t, err)
		require.Zero(t, st.Held)
		require.NoError(t, errors.Join(r.pool.Close(), dev.late.Drain()))
		require.Zero(t, be.Info().Buffers, "operation %d", after)
	}
}

// Where either place has no blocks left a step fails as a whole, and goes on when there
// are some again.
func TestResidualOutOfBlocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"quantized", func(c *Config) { c.Blocks, c.MaxSeqs = 8, 8 }},
		{"recent", func(c *Config) { c.MaxSeqs = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := residualRig(t, openDevice(t), c.change)
			cfg := r.pool.Config()
			var seqs []*Sequence[buffer]
			var ws []*tiered
			var err error
			for len(seqs) < 20 && err == nil { // prompts, until something is full
				seq, w := r.open(), &tiered{}
				seqs, ws = append(seqs, seq), append(ws, w)
				for range 2 {
					ids := sequence(1+len(w.ids), cfg.StepTokens-3)
					if err = r.feed(feed[buffer]{seq, ids}); err != nil {
						break
					}
					w.ids, w.rounds = append(w.ids, ids...), append(w.rounds, make([]int, len(ids))...)
					w.settled(t, seq, false)
				}
			}
			require.ErrorIs(t, err, ErrOutOfBlocks{})
			for i, seq := range seqs {
				r.expectTiers(r.s, seq, ws[i])
			}
			last := len(seqs) - 1
			require.ErrorIs(t, r.feed(feed[buffer]{seqs[last], sequence(1, cfg.StepTokens-3)}), ErrOutOfBlocks{})
			for _, seq := range seqs[:last] {
				require.NoError(t, seq.Release())
			}
			r.grown(seqs[last], ws[last], cfg.StepTokens-3)
			r.expectTiers(r.s, seqs[last], ws[last])
			require.NoError(t, seqs[last].Release())
			r.close()
		})
	}
}

// Rows that are not finite are found when their block is quantized: the step fails, and
// does again until they are truncated.
func TestResidualNonFinite(t *testing.T) {
	if !testDevice().HostVisible || emulated(testDevice().Info) {
		t.Skip("a device of its own says so later")
	}
	for _, saturate := range []bool{false, true} {
		r := residualRig(t, openDevice(t), func(c *Config) { c.Saturate = saturate })
		c := r.pool.Config()
		a := r.open()
		w := &tiered{}
		r.grown(a, w, 7)
		require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(8, 1)}))
		bad := make([]float32, c.KVHeads*max(c.HeadDim, c.VHeadDim))
		bad[1] /= bad[0] // NaN
		x := r.vector(r.s, bad)
		for l := range c.Layers {
			require.NoError(t, r.step.Append(l, x, x))
		}
		require.NoError(t, r.step.Commit())
		err := r.feed(feed[buffer]{a, sequence(9, 20)}, feed[buffer]{r.open(), sequence(1, 1)})
		if err == nil {
			err = r.feed(feed[buffer]{a, sequence(29, 1)})
		}
		if saturate {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, backend.ErrNonFinite{})
			require.ErrorIs(t, r.feed(feed[buffer]{a, sequence(29, 1)}), backend.ErrNonFinite{})
			require.NoError(t, a.Truncate(7))
			w.sealed = a.len
			for i := range w.sealed {
				w.rounds[i] = 1
			}
			r.grown(a, w, 20, 1)
			r.expectTiers(r.s, a, w)
		}
		r.free(x)
		for seq := range r.pool.seqs {
			require.NoError(t, seq.Release())
		}
		r.close()
	}
}
