package kvcache

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/stretchr/testify/require"
)

// windowRig is a rig with a recent window, in int8 where the device has it.
func windowRig(t *testing.T, be backend.Backend[buffer], change func(*Config)) *rig[buffer] {
	formats := windowFormats(backend.F32)
	if len(formats) == 0 {
		t.Skip("the device has no format for it")
	}
	cfg := windowConfig(formats[0])
	if change != nil {
		change(&cfg)
	}
	return newRig(t, be, cfg)
}

// grown feeds a sequence step by step and follows what is quantized.
func (r *rig[B]) grown(seq *Sequence[buffer], w *remembered, steps ...int) {
	r.t.Helper()
	typed := any(r).(*rig[buffer])
	for _, n := range steps {
		ids := sequence(len(w.ids)+1, n)
		require.NoError(r.t, typed.feed(feed[buffer]{seq, ids}))
		w.step(r.pool.cfg, ids)
		w.matches(r.t, seq)
	}
}

// A step whose sequences lie in two places attends as float64 does to what both read as,
// and near as it would to exact keys and values: prompts in chunks, decode, drafts, and
// sequences of which nothing is quantized yet, side by side.
func TestWindowAttention(t *testing.T) {
	for i, act := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		for j, f := range windowFormats(act) {
			if emulated(testDevice().Info) && !testsize.Full() && (i+j)%3 != 0 { // a third, with each type and format
				continue
			}
			t.Run(fmt.Sprintf("%v/%v-%v/exact layer", act, f.K, f.V), func(t *testing.T) {
				cfg := windowConfig(f)
				cfg.Storage.SkipLayers = []int{1}
				attendWindow(t, cfg)
			})
			t.Run(fmt.Sprintf("%v/%v-%v/turned", act, f.K, f.V), func(t *testing.T) {
				cfg := windowConfig(f)
				cfg.Storage.Hadamard = true
				attendWindow(t, cfg)
			})
			for name, masks := range map[string][]Mask{
				"causal":     nil,
				"window":     {{Window: 5, SinkTokens: 2}, {Window: 11, SinkTokens: 9}},
				"wide":       {{Window: 30}},
				"ALiBi":      {{ALiBi: []float32{0.5, 0.25, 0.125, 0.0625}}},
				"sink logit": {{SinkLogits: []float32{0.5, -1, 2, 0}}, {SinkLogits: []float32{0, 1, -2, 1}, SoftCap: 3}},
			} {
				t.Run(fmt.Sprintf("%v/%v-%v/%s", act, f.K, f.V, name), func(t *testing.T) {
					cfg := windowConfig(f)
					cfg.Model.Masks = masks
					attendWindow(t, cfg)
				})
			}
		}
	}
}

func attendWindow(t *testing.T, cfg Config) {
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	a, b, fresh := r.open(), r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 30)}))
	require.NoError(t, r.feed(feed[buffer]{a, sequence(31, 5)}, feed[buffer]{b, sequence(200, 17)}))
	child, err := a.Fork()
	require.NoError(t, err)
	before := map[*Sequence[buffer]][]uint32{a: sequence(1, 35), child: sequence(1, 35), b: sequence(200, 17), fresh: nil}
	for round := range 3 {
		feeds := []feed[buffer]{{a, sequence(1000+round*100, 1)}, {child, sequence(2000+round*100, 3)}, {b, sequence(3000+round*100, 21)}, {fresh, sequence(4000+round*100, 4)}}
		if round == 2 { // rewinds, into both places
			require.NoError(t, a.Truncate(len(before[a])-3))
			require.NoError(t, child.Truncate(5))
			before[a], before[child] = before[a][:len(before[a])-3], before[child][:5]
		}
		require.NoError(t, r.plan(r.s, feeds...))
		const tokens = 1 + 3 + 21 + 4
		queries := rows(sequence(5000, tokens), 0, c.Model.QHeads, c.Model.HeadDim, false)
		q, out := r.vector(r.s, queries), r.vector(r.s, make([]float32, tokens*c.Model.QHeads*c.Model.VHeadDim))
		r.writeWith(r.s, map[int]buffer{1: q}, feeds...)
		lse, err := r.be.Alloc(backend.F32, tokens*c.Model.QHeads)
		require.NoError(t, err)
		require.NoError(t, r.step.Attend(1, attendingTo(backend.Dense(q), backend.Outputs[buffer]{Rows: backend.Dense(out), LSE: backend.Some(lse)})))
		r.pool.parts.All[0].Config.Storage.Residual += 1 << 20 // so that nothing is given up that attention saw
		require.NoError(t, r.step.Commit())
		r.pool.parts.All[0].Config.Storage.Residual -= 1 << 20

		mask := c.Model.MaskOf(1)
		want, plain := attention{mask: mask}, attention{mask: mask}
		for _, f := range feeds {
			all := append(before[f.seq][:len(before[f.seq]):len(before[f.seq])], f.ids...)
			older, recent, exact := r.quantized(r.s, f.seq, 1), r.recent(r.s, f.seq, 1), pastOf(c, 1, all)
			for p := len(before[f.seq]); p < len(all); p++ {
				stored := joined(c, older, recent, c.Edge(p)*c.Memory.BlockSize, len(all))
				for h := range c.Model.QHeads {
					row := len(want.lse)
					want.add(c, queries[row*c.Model.HeadDim:][:c.Model.HeadDim], h, stored, p+1, nil)
					plain.add(c, queries[row*c.Model.HeadDim:][:c.Model.HeadDim], h, exact, p+1, nil)
				}
			}
			before[f.seq] = all
		}
		bounds := map[backend.DType]float64{backend.F32: 1e-5, backend.F16: 3e-3, backend.BF16: 2e-2}
		got := r.download(out)
		requireNear(t, "output", want.out, got, bounds[c.Model.Act])
		requireNear(t, "log-sum-exp", want.lse, r.download(lse), 1e-3)
		requireNear(t, "output of exact keys and values", plain.out, got, max(farFromExact(c.Storage.K), farFromExact(c.Storage.V)))
		r.free(q, out, lse)
	}
	require.NoError(t, errors.Join(a.Release(), b.Release(), child.Release(), fresh.Release()))
	r.close()
}

// Keys are rotated by their positions in the sequence, wherever their tokens lie.
func TestWindowPositions(t *testing.T) {
	r := windowRig(t, openDevice(t), nil)
	c := r.pool.Config()
	a := r.open()
	next := 0
	grow := func(n int) {
		ids := sequence(1+next, n)
		require.NoError(t, r.plan(r.s, feed[buffer]{a, ids}))
		for l := range c.Model.Layers {
			q := r.vector(r.s, make([]float32, n*c.Model.QHeads*c.Model.HeadDim))
			k := r.vector(r.s, rows(ids, l, c.Model.KVHeads, c.Model.HeadDim, false))
			v := r.vector(r.s, rows(ids, l, c.Model.KVHeads, c.Model.VHeadDim, true))
			require.NoError(t, r.step.Append(l, rotated(q, k, v)))
			r.free(q, k, v)
		}
		require.NoError(t, r.step.Commit())
		next += n
	}
	check := func() {
		require.Equal(t, next, a.NextPosition())
		positions, err := a.Positions(nil, 1)
		require.NoError(t, err)
		require.Equal(t, sequenceOf(next), positions)
		older, recent := r.quantized(r.s, a, 1), r.recent(r.s, a, 1)
		require.GreaterOrEqual(t, older.n+recent.n, next)
		for _, of := range []struct {
			past
			from int
		}{{older, 0}, {recent, next - recent.n}} {
			for h := range c.Model.KVHeads {
				for i := range of.n {
					want := token{uint32(1 + of.from + i), of.from + i}.key(1, h, c.Model.HeadDim)
					for d, x := range of.k[(h*of.n+i)*c.Model.HeadDim:][:c.Model.HeadDim] {
						require.InDelta(t, want[d], x, 3*2.2*rounding(c.Storage.K)+1e-4, "token %d", of.from+i)
					}
				}
			}
		}
	}
	for range 3 {
		grow(11)
		check()
	}
	for _, n := range []int{31, 14, 0} { // into the window, into a quantized block, everything
		require.NoError(t, a.Truncate(n))
		next = n
		require.Equal(t, next, a.NextPosition())
		grow(3)
		check()
	}
	require.NoError(t, a.Release())
	r.close()
}

// What needs all tokens in one place is refused by type and changes nothing.
func TestWindowRefuses(t *testing.T) {
	r := windowRig(t, openDevice(t), nil)
	c := r.pool.Config()
	a := r.open()
	w := &remembered{}
	r.grown(a, w, 30, 1)
	unsupported := backend.ErrUnsupported{}
	require.NoError(t, a.Fence(r.s))
	require.ErrorIs(t, a.Scores(r.s, 0, nil), unsupported)
	require.ErrorIs(t, a.ClearScores(r.s), unsupported)
	require.ErrorIs(t, r.step.Reset(), nil)
	require.ErrorIs(t, r.step.Add(a, nil), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Add(a, make([]uint32, c.Memory.Capacity)), ErrCapacity{Have: 31 + c.Memory.Capacity, Max: c.Memory.Capacity})
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(32, 1)}))
	q, k, v, out := r.operands(1)
	require.ErrorIs(t, r.step.Commit(), ErrStep{}, "no layer got its rows")
	require.NoError(t, r.step.Append(0, kv(k, v)))
	require.ErrorIs(t, r.step.Attend(0, attendingTo(backend.Dense(q), backend.Outputs[buffer]{Rows: backend.Dense(out), Scores: backend.Some(out)})), unsupported)
	require.ErrorIs(t, r.step.Attend(2, attending(q, out)), backend.ErrArgument{})
	require.NoError(t, r.step.Reset())
	r.expectWindow(r.s, a, w)
	r.free(q, k, v, out)
	require.NoError(t, a.Release())
	require.Zero(t, a.Len())
	r.close()
}

// A prompt is cut into steps of StepTokens, which have a default.
func TestWindowDefaults(t *testing.T) {
	cfg := windowConfig(backend.Format{Act: backend.F32, K: backend.Int4Channel, V: backend.Int4})
	cfg.Memory.StepTokens = 0
	got, err := cfg.Resolve()
	require.NoError(t, err)
	require.Equal(t, config.DefaultStepTokens, got.Memory.StepTokens)
	require.Equal(t, "adaptive", got.Memory.Prefix.String())
	again, err := got.Resolve()
	require.NoError(t, err)
	require.Equal(t, got, again)
}

// Prompts of a whole step each, one after another, fit the default sizes: a sequence that
// waits holds no exact memory beyond its window.
func TestWindowPromptsInTurn(t *testing.T) {
	formats := windowFormats(backend.F32)
	if len(formats) == 0 {
		t.Skip("the device has no format for it")
	}
	cfg := windowConfig(formats[0])
	cfg.Memory.StepTokens, cfg.Memory.Capacity, cfg.Memory.MaxSeqs, cfg.Memory.Blocks = 64, 200, 8, 0
	r := deviceRig(t, cfg)
	var seqs []*Sequence[buffer]
	for i := range cfg.Memory.MaxSeqs {
		seq := r.open()
		seqs = append(seqs, seq)
		for part := range 3 {
			require.NoError(t, r.feed(feed[buffer]{seq, sequence(1+100*i+1000*part, cfg.Memory.StepTokens)}))
		}
	}
	for _, seq := range seqs {
		require.Equal(t, 3*cfg.Memory.StepTokens, seq.Len())
		require.LessOrEqual(t, len(seq.runs.In[0].Written.Blocks), r.pool.cfg.WindowBlocks())
		require.NoError(t, seq.Release())
	}
	r.close()
}
