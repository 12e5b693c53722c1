package kvcache

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
)

// Whatever operation of the device fails in a step that brings tokens back and quantizes
// others, no sequence has lost or gained a token, what is reserved stays so, and the step
// can be planned again.
func TestWindowFailure(t *testing.T) {
	for _, stepTokens := range []int{40, 4} { // the longest entry goes through a staging
		t.Run(fmt.Sprint(stepTokens), func(t *testing.T) { failWindows(t, stepTokens) })
	}
}

func failWindows(t *testing.T, stepTokens int) {
	be := openDevice(t)
	stride := 1
	if emulated(be.Info()) && !testsize.Full() { // seconds each, and the host's part is the same
		stride = 9
	}
	for after := 0; ; after += stride {
		dev := newLateDevice(be, backendtest.LateOptions{Seed: uint64(after), OnlyWaits: true})
		r := windowRig(t, dev, func(c *Config) { c.Memory.StepTokens = stepTokens })
		c := r.pool.Config()
		s2, err := dev.NewStream()
		require.NoError(t, err)
		a, b, cut := r.open(), r.open(), r.open()
		wa, wb, wc := &remembered{}, &remembered{}, &remembered{}
		r.grown(a, wa, 30, 1)
		r.grown(b, wb, 30)
		r.grown(cut, wc, 30, 1)
		half := wc.gone*c.Memory.BlockSize - c.Memory.BlockSize/2 // in the middle of a block that is quantized only
		require.NoError(t, cut.Truncate(half))
		wc.truncate(c, half)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{b, 40}))
		fork, err := a.Fork()
		require.NoError(t, err)
		wf := wa.clone()
		before := r.stats().Reserved

		feeds := []feed[buffer]{{a, sequence(100, 2)}, {b, sequence(200, 3)}, {cut, sequence(300, 9)}}
		of := []*remembered{wa, wb, wc}
		q, k, v, out := r.operands(2 + 3 + 9)
		require.NoError(t, r.s.Sync()) // the step is on another stream
		n, boom := after, false
		dev.SetFault(enqueued(func(backendtest.Op) error {
			if n--; n < 0 && !boom {
				boom = true
				return errBoom
			}
			return nil
		}))
		step := func() error {
			err := r.step.Reset()
			for _, f := range feeds {
				err = cmp.Or(err, r.step.Add(f.seq, f.ids))
			}
			if err = cmp.Or(err, r.step.Plan(s2)); err != nil {
				return err
			}
			for l := range c.Model.Layers {
				err = cmp.Or(err, r.step.Append(l, qkv(q, k, v)))
				err = cmp.Or(err, r.step.Attend(l, attending(q, out)))
			}
			if err == nil {
				err = r.step.Commit()
			}
			return err
		}
		err = step()
		dev.SetFault(nil)
		if err == nil {
			require.False(t, boom, "operation %d: an error of the device was lost", after)
			require.NoError(t, errors.Join(a.Release(), b.Release(), cut.Release(), fork.Release()))
			require.NoError(t, errors.Join(r.be.Free(q), r.be.Free(k), r.be.Free(v), r.be.Free(out), s2.Sync()))
			closeLate(t, r, dev, be)
			break
		}
		require.ErrorIs(t, err, errBoom, "operation %d", after)
		require.NoError(t, r.step.Reset())
		require.Equal(t, before, r.stats().Reserved, "operation %d", after)
		for i, f := range feeds {
			r.expectWindow(r.s, f.seq, of[i])
		}
		r.expectWindow(r.s, fork, wf)
		require.NoError(t, r.plan(r.s, feeds...))
		r.write(r.s, feeds...)
		require.NoError(t, r.step.Commit())
		for i, f := range feeds {
			of[i].step(c, f.ids)
			of[i].matches(t, f.seq)
			r.expectWindow(s2, f.seq, of[i])
		}
		r.expectWindow(s2, fork, wf)
		r.free(q, k, v, out)
		require.NoError(t, errors.Join(a.Release(), b.Release(), cut.Release(), fork.Release(), s2.Sync()))
		require.NoError(t, errors.Join(r.s.Sync(), r.step.Reset()))
		require.Zero(t, r.stats().Held)
		require.Zero(t, r.pool.parts.All[0].Written.Stats().Held)
		require.NoError(t, errors.Join(r.pool.Close(), dev.late.Drain()))
		require.Zero(t, be.Info().Buffers, "operation %d", after)
	}
}

// Where either place has no blocks left a step fails as a whole, and goes on when there
// are some again.
func TestWindowOutOfBlocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"quantized", func(c *Config) { c.Memory.Blocks, c.Memory.MaxSeqs = 18, 8 }},
		{"recent", func(c *Config) { c.Memory.MaxSeqs = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := windowRig(t, openDevice(t), c.change)
			cfg := r.pool.Config()
			var seqs []*Sequence[buffer]
			var ws []*remembered
			var err error
			for len(seqs) < 20 && err == nil { // prompts, until something is full
				seq, w := r.open(), &remembered{}
				seqs, ws = append(seqs, seq), append(ws, w)
				for range 2 {
					ids := sequence(1+len(w.ids)+1000*len(seqs), cfg.Memory.StepTokens-3) // nobody shares
					if err = r.feed(feed[buffer]{seq, ids}); err != nil {
						break
					}
					w.step(cfg, ids)
				}
			}
			require.ErrorIs(t, err, ErrOutOfBlocks{})
			for i, seq := range seqs {
				r.expectWindow(r.s, seq, ws[i])
			}
			last := len(seqs) - 1
			require.ErrorIs(t, r.feed(feed[buffer]{seqs[last], sequence(1, cfg.Memory.StepTokens-3)}), ErrOutOfBlocks{})
			for _, seq := range seqs[:last] {
				require.NoError(t, seq.Release())
			}
			r.grown(seqs[last], ws[last], cfg.Memory.StepTokens-3)
			r.expectWindow(r.s, seqs[last], ws[last])
			require.NoError(t, seqs[last].Release())
			r.close()
		})
	}
}

// Rows that are not finite are found when their block is quantized: the step fails, and
// does again until they are truncated.
func TestWindowNonFinite(t *testing.T) {
	if !testDevice().HostVisible || emulated(testDevice().Info) {
		t.Skip("a device of its own says so later")
	}
	for _, saturate := range []bool{false, true} {
		r := windowRig(t, openDevice(t), func(c *Config) { c.Storage.Saturate = saturate })
		c := r.pool.Config()
		a := r.open()
		w := &remembered{}
		r.grown(a, w, 7)
		require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(8, 1)}))
		bad := make([]float32, c.Model.KVHeads*max(c.Model.HeadDim, c.Model.VHeadDim))
		bad[1] /= bad[0] // NaN
		x := r.vector(r.s, bad)
		for l := range c.Model.Layers {
			require.NoError(t, r.step.Append(l, kv(x, x)))
		}
		require.NoError(t, r.step.Commit())
		w.step(c, sequence(8, 1))
		q, k, v, out := r.operands(21)
		r.free(q, out)
		other := r.open()
		step := func() error {
			require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(9, 20)}, feed[buffer]{other, sequence(1, 1)}))
			for l := range c.Model.Layers {
				if err := r.step.Append(l, kv(k, v)); err != nil {
					require.ErrorIs(t, r.step.Commit(), ErrStep{}, "a layer is not quantized")
					return err
				}
			}
			return r.step.Commit()
		}
		err := step()
		if saturate {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, backend.ErrNonFinite{})
			require.ErrorIs(t, step(), backend.ErrNonFinite{})
			require.NoError(t, r.step.Reset())
			w.matches(t, a)
			require.NoError(t, a.Truncate(7))
			w.truncate(c, 7)
			r.grown(a, w, 20, 1)
			r.expectWindow(r.s, a, w)
		}
		r.free(x, k, v)
		for seq := range r.pool.seqs {
			require.NoError(t, seq.Release())
		}
		r.close()
	}
}
