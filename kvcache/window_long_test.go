package kvcache

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
)

// steps does one step, attends to each layer and returns what that gave.
func (r *rig[B]) steps(feeds ...feed[B]) (out [][]float32) {
	r.t.Helper()
	require.NoError(r.t, r.plan(r.s, feeds...))
	return r.planned(qkv[B], feeds...)
}

// planned is steps from Plan on; io is what goes to Append.
func (r *rig[B]) planned(io func(q, k, v B) LayerIO[B], feeds ...feed[B]) (out [][]float32) {
	r.t.Helper()
	var ids []uint32
	for _, f := range feeds {
		ids = append(ids, f.ids...)
	}
	c := r.pool.Config()
	for l := range c.Model.Layers {
		q := r.vector(r.s, rows(sequence(5000+int(ids[0]), len(ids)), l, c.Model.QHeads, c.Model.HeadDim, false))
		hk, hv := newRows(&c.Model, ids, l)
		k, v := r.vector(r.s, hk), r.vector(r.s, hv)
		y := r.vector(r.s, make([]float32, len(ids)*c.Model.QHeads*c.Model.VHeadDim))
		require.NoError(r.t, r.step.Append(l, io(q, k, v)))
		require.NoError(r.t, r.step.Attend(l, attending(q, y)))
		out = append(out, r.download(y))
		r.free(q, k, v, y)
	}
	require.NoError(r.t, r.step.Commit())
	return out
}

// A step of any length gives what one gives whose tokens all have exact blocks, and leaves the same behind:
// alone and beside others, after cuts into the window and into quantized tokens, from what forks share, and
// with a reservation.
func TestWindowLongSteps(t *testing.T) {
	formats := windowFormats(backend.F32)
	if emulated(testDevice().Info) && !testsize.Full() {
		formats = formats[:min(len(formats), 1)]
	}
	for _, f := range formats {
		for name, change := range map[string]func(*Config){
			"plain":    func(*Config) {},
			"mask":     func(c *Config) { c.Model.Masks = []Mask{{Window: 11, SinkTokens: 3}} },
			"skipped":  func(c *Config) { c.Storage.SkipLayers = []int{0} },
			"hadamard": func(c *Config) { c.Storage.Hadamard, c.Model.HeadDim, c.Model.VHeadDim = true, 64, 64 },
		} {
			if name == "skipped" && !testDevice().Supports(backend.Format{Act: f.Act, K: f.Act, V: f.Act}) {
				continue
			}
			t.Run(fmt.Sprintf("%v-%v/%s", f.K, f.V, name), func(t *testing.T) {
				cfg := windowConfig(f)
				change(&cfg)
				cfg.Memory.StepTokens = 1000
				plain := deviceRig(t, cfg)
				cfg.Memory.StepTokens, cfg.Memory.MaxSeqs = 3, 6
				long := deviceRig(t, cfg)
				c := long.pool.Config()
				seqs := map[*rig[buffer]][]*Sequence[buffer]{}
				for _, r := range []*rig[buffer]{plain, long} {
					seqs[r] = []*Sequence[buffer]{r.open(), r.open()}
				}
				do := func(which ...int) func(lens ...int) {
					return func(lens ...int) {
						t.Helper()
						var outs [][][]float32
						for _, r := range []*rig[buffer]{plain, long} {
							var feeds []feed[buffer]
							for i, n := range lens {
								feeds = append(feeds, feed[buffer]{seqs[r][which[i]], sequence(1000*i+100+seqs[r][which[i]].Len(), n)})
							}
							outs = append(outs, r.steps(feeds...))
						}
						for l := range outs[0] {
							require.InDeltaSlice(t, outs[0][l], outs[1][l], 1e-5, "layer %d", l)
						}
						for i := range seqs[plain] {
							for l := range c.Model.Layers {
								require.Equal(t, plain.quantized(plain.s, seqs[plain][i], l), long.quantized(long.s, seqs[long][i], l))
								require.Equal(t, plain.recent(plain.s, seqs[plain][i], l), long.recent(long.s, seqs[long][i], l))
							}
						}
						require.NoError(t, long.pool.Check())
					}
				}
				cut := func(i, n int) {
					for _, r := range []*rig[buffer]{plain, long} {
						require.NoError(t, seqs[r][i].Truncate(n))
					}
				}
				do(0)(33)       // from nothing, most of it quantized at the end
				do(0)(4)        // a part of the window stays
				do(0, 1)(1, 21) // beside others
				for _, r := range []*rig[buffer]{plain, long} {
					child, err := seqs[r][0].Fork()
					require.NoError(t, err)
					seqs[r] = append(seqs[r], child)
				}
				do(0, 2)(5, 9) // both go on from a shared block
				cut(0, 36)     // into the window
				do(0)(7)
				cut(1, 9) // into what is quantized only
				do(1, 0)(6, 1)
				do(1)(1)
				require.NoError(t, long.pool.Reserve(Reservation[buffer]{seqs[long][1], c.Memory.Capacity}))
				for seqs[long][1].Len()+9 <= c.Memory.Capacity {
					do(1)(9)
				}
				do(1)(c.Memory.Capacity - seqs[long][1].Len())
				for _, r := range []*rig[buffer]{plain, long} {
					for _, s := range seqs[r] {
						require.NoError(t, s.Release())
					}
					require.NoError(t, r.step.Reset())
					require.Zero(t, r.stats().Held)
					require.Zero(t, r.pool.parts.All[0].Written.Stats().Held)
					r.close()
				}
			})
		}
	}
}

// Of a long step a layer's rows are there until the next layer's come.
func TestWindowLongStepsTakeTurns(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.Memory.StepTokens = 3 })
	seq := r.open()
	require.NoError(t, r.plan(r.s, feed[buffer]{seq, sequence(1, 4)}))
	q, k, v, out := r.operands(4)
	require.NoError(t, r.step.Append(0, kv(k, v)))
	require.NoError(t, r.step.Append(1, kv(k, v)))
	require.ErrorIs(t, r.step.Attend(0, attending(q, out)), ErrStep{})
	require.NoError(t, r.step.Attend(1, attending(q, out)))
	_, err := r.step.Metadata(0)
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	require.NoError(t, r.step.Reset(), "nothing of it stays")
	require.Zero(t, seq.Len())
	require.ErrorIs(t, r.step.FixShape(1, 4), backend.ErrArgument{})
	require.NoError(t, r.step.FixShape(1, 3))
	r.free(q, k, v, out)
	require.NoError(t, seq.Release())
	r.close()
}

// A step of any length fits a pool that has nothing else, however small StepTokens is beside the window.
func TestWindowLongStepsFit(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) {
		c.Memory.MaxSeqs, c.Storage.Residual, c.Memory.StepTokens, c.Memory.Capacity, c.Memory.Blocks = 1, 16*c.Memory.BlockSize, c.Memory.BlockSize, 100*c.Memory.BlockSize, 0
	})
	c := r.pool.Config()
	a := r.open()
	for _, blocks := range []int{20, 25, 5, 30} {
		r.steps(feed[buffer]{a, sequence(100+a.Len(), blocks*c.Memory.BlockSize+1)})
	}
	require.NoError(t, cmp.Or(r.step.Reset(), a.Release()))
	r.close()
}

// A stand-alone cache says where its tokens are, not where a step had them, and reads whatever was written.
func TestStandaloneLongSteps(t *testing.T) {
	cfg := windowConfig(windowFormats(backend.F32)[0])
	cfg.Model.Layers, cfg.Memory.MaxSeqs, cfg.Memory.Blocks, cfg.Memory.StepTokens = 1, 1, 0, 8
	r := deviceRig(t, cfg)
	c, err := NewStandalone(r.be, cfg)
	require.NoError(t, err)
	s2, err := r.be.NewStream()
	require.NoError(t, err)
	q, k, v, out := r.operands(60)
	for _, n := range []int{1, 60, 2} {
		require.NoError(t, c.Append(r.s, kv(k, v), n))
		for _, table := range []*KvCache[buffer]{&c.KvCache, c.Residual} {
			host := make([]uint32, len(table.PagedBlockIndices))
			require.NoError(t, backend.Download(r.be, r.s, host, table.BlockTable.Buf, 0))
			require.True(t, slices.Equal(table.PagedBlockIndices, host), "%v is %v on the device", table.PagedBlockIndices, host)
		}
		held := func() int {
			require.NoError(t, cmp.Or(r.s.Sync(), s2.Sync(), c.solo.seq.pool.parts.Reclaim()))
			return c.solo.seq.pool.parts.All[0].Written.Stats().Held
		}
		before := held()
		require.NoError(t, c.Attend(r.s, attending(q, out), n))
		want := r.download(out)
		require.NoError(t, r.s.Sync())
		require.NoError(t, c.Attend(s2, attending(q, out), n))
		require.NoError(t, s2.Sync())
		require.InDeltaSlice(t, want, r.download(out), 1e-6)
		require.NoError(t, c.Attend(s2, attending(q, out), max(n-1, 1)))
		require.Equal(t, before, held(), "who reads takes nothing")
		require.Zero(t, c.solo.seq.text.Fidelity)
	}
	r.free(q, k, v, out)
	require.NoError(t, cmp.Or(c.Release(), s2.Close()))
	r.close()
}

// Scores of a stand-alone cache with a recent window are what queries gave since a token was written: those of its
// own step, after it, and of steps that only read, long or short.
func TestStandaloneWindowScores(t *testing.T) {
	for _, stepTokens := range []int{8, 40} {
		cfg := windowConfig(windowFormats(backend.F32)[0])
		cfg.Model.Layers, cfg.Memory.MaxSeqs, cfg.Memory.Blocks, cfg.Memory.StepTokens, cfg.Attention.Scores = 1, 1, 0, stepTokens, true
		r := deviceRig(t, cfg)
		c, err := NewStandalone(r.be, cfg)
		require.NoError(t, err)
		q, k, v, out := r.operands(30)
		var want []float64 // of a query head
		attend := func(s backend.Stream, n int) {
			t.Helper()
			require.NoError(t, c.Attend(s, attending(q, out), n))
			for pos := c.Len - n; pos < c.Len; pos++ { // queries of zeros see all alike
				for i := range pos + 1 {
					want[i] += 1 / float64(pos+1)
				}
			}
			got := make([]float32, cfg.Model.KVHeads*c.Len)
			require.NoError(t, c.Scores(s, got))
			for i, score := range got {
				sum := want[i%c.Len] * float64(cfg.Model.QHeads/cfg.Model.KVHeads)
				require.InDelta(t, sum, score, 1e-5*(1+sum), "token %d of %d", i%c.Len, c.Len) // of hundreds of float32s
			}
		}
		s2, err := r.be.NewStream()
		require.NoError(t, err)
		for i, n := range []int{1, 30, 2, 3, 1, 20, 1} {
			require.NoError(t, c.Append(r.s, kv(k, v), n))
			want = append(want, make([]float64, n)...)
			attend(r.s, n)
			attend(r.s, n)
			require.NoError(t, r.s.Sync())
			attend(s2, n)
			attend(s2, min(c.Len, 30))
			attend(s2, 1)
			require.NoError(t, s2.Sync())
			if i == 4 {
				require.NoError(t, c.Truncate(c.Len-7))
				want = want[:c.Len]
				attend(r.s, 3)
			}
			if i == 5 {
				require.NoError(t, c.ClearScores(r.s))
				clear(want)
			}
		}
		r.free(q, k, v, out)
		require.NoError(t, cmp.Or(c.Release(), s2.Close()))
		require.ErrorIs(t, c.Scores(r.s, nil), ErrReleased)
		require.ErrorIs(t, c.ClearScores(r.s), ErrReleased)
		r.close()
	}
}

// Nobody quantizes what was not written.
func TestSealNeedsTheIndex(t *testing.T) {
	r := windowRig(t, openDevice(t), nil)
	a := r.open()
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 30)}))
	require.ErrorIs(t, r.step.QuantizeResidual(0), ErrStep{})
	require.ErrorIs(t, r.step.Commit(), ErrStep{}, "no layer got its rows")
	require.NoError(t, cmp.Or(r.step.Reset(), a.Release()))
	r.close()
}
