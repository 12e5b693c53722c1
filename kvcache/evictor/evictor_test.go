package evictor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all"
	_ "github.com/ferrumkv/ferrumkv/internal/variants/fromenv"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

type buffer = backend.AnyBuffer

// device is the one that FERRUM_TEST_DEVICE names, the CPU by default.
func device(t testing.TB) backend.Backend[buffer] {
	name := os.Getenv("FERRUM_TEST_DEVICE")
	if name == "" {
		name = "cpu:threads=2"
	}
	return open(t, name)
}

func open(t testing.TB, name string) backend.Backend[buffer] {
	be, err := backend.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, be.Info().Buffers, "device memory leaked")
		require.NoError(t, be.Close())
	})
	return be
}

// scene is a few pools on a device, each with steps of its own, and what goes into them.
type scene struct {
	t       testing.TB
	be      backend.Backend[buffer]
	s       backend.Stream
	pools   []*kvcache.Pool[buffer]
	steps   []*kvcache.Batch[buffer]
	operand map[string]buffer
}

const room = 24 // tokens of the largest step

func config() kvcache.Config {
	return kvcache.Config{
		Model:     kvcache.Model{Layers: 2, QHeads: 4, KVHeads: 2, HeadDim: 64, RoPE: &backend.RoPE{}},
		Storage:   kvcache.Storage{K: backend.F32},
		Memory:    kvcache.Memory{Layout: kvcache.Paged, Capacity: 200, MaxSeqs: 3, BlockSize: 8, Prefix: prefix.Off},
		Attention: kvcache.Attention{Scores: true},
	}
}

func newScene(t testing.TB, be backend.Backend[buffer], cfgs ...kvcache.Config) *scene {
	s, err := be.NewStream()
	require.NoError(t, err)
	sc := &scene{t: t, be: be, s: s, operand: map[string]buffer{}}
	for _, cfg := range cfgs {
		pool, err := kvcache.NewPool(be, cfg)
		require.NoError(t, err)
		sc.pools, sc.steps = append(sc.pools, pool), append(sc.steps, pool.NewBatch())
	}
	c := sc.pools[0].Config()
	for name, width := range map[string]int{"q": c.Model.QHeads * c.Model.HeadDim, "k": c.Model.KVHeads * c.Model.HeadDim, "v": c.Model.KVHeads * c.Model.VHeadDim, "out": c.Model.QHeads * c.Model.VHeadDim} {
		sc.operand[name], err = be.Alloc(backend.F32, room*width)
		require.NoError(t, err)
	}
	return sc
}

func (sc *scene) close() {
	var errs []error
	for i, pool := range sc.pools {
		require.NoError(sc.t, sc.s.Sync())
		require.NoError(sc.t, pool.Check())
		st, err := pool.Stats()
		require.NoError(sc.t, err)
		require.Zero(sc.t, st.Held, "blocks leaked")
		errs = append(errs, sc.steps[i].Close(), pool.Close())
	}
	for _, b := range sc.operand {
		errs = append(errs, sc.be.Free(b))
	}
	require.NoError(sc.t, errors.Join(append(errs, sc.s.Close())...))
}

func (sc *scene) open() []*kvcache.Sequence[buffer] {
	var parts []*kvcache.Sequence[buffer]
	for _, pool := range sc.pools {
		seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
		require.NoError(sc.t, err)
		parts = append(parts, seq)
	}
	return parts
}

// feed appends n tokens of random keys and values in all layers and attends.
func (sc *scene) feed(rng *rand.Rand, n int, parts []*kvcache.Sequence[buffer]) {
	fill := func(name string, scale float32) {
		c := sc.pools[0].Config()
		width := map[string]int{"q": c.Model.QHeads * c.Model.HeadDim, "k": c.Model.KVHeads * c.Model.HeadDim, "v": c.Model.KVHeads * c.Model.VHeadDim}[name]
		x := make([]float32, n*width)
		for i := range x {
			x[i] = scale * float32(rng.NormFloat64())
		}
		require.NoError(sc.t, backend.Upload(sc.be, sc.s, sc.operand[name], 0, x))
	}
	for i, step := range sc.steps {
		require.NoError(sc.t, step.Reset())
		require.NoError(sc.t, step.Add(parts[i], make([]uint32, n)))
		require.NoError(sc.t, step.Plan(sc.s))
		for l := range sc.pools[i].Config().Model.Layers {
			fill("q", 1)
			fill("k", 1+float32(rng.IntN(3))) // some keys get more than others
			fill("v", 1)
			io := kvcache.Dense(sc.operand["q"], sc.operand["k"], sc.operand["v"], sc.operand["out"])
			io.Rotate = true
			require.NoError(sc.t, step.Append(l, io))
			require.NoError(sc.t, step.Attend(l, io))
		}
		require.NoError(sc.t, step.Commit())
	}
}

func release(t testing.TB, parts []*kvcache.Sequence[buffer]) {
	for _, part := range parts {
		require.NoError(t, part.Release())
	}
}

// history feeds a sequence and its fork for a while under a policy. It returns the
// positions that stayed in each layer after each step, and checks budgets, protected
// windows, and that the fork's origin keeps all.
func history(t testing.TB, be backend.Backend[buffer], atOnce int, o Options, cfgs ...kvcache.Config) [][]int {
	sc := newScene(t, be, cfgs...)
	defer sc.close()
	rng := rand.New(rand.NewPCG(7, 7))
	origin := sc.open()
	sc.feed(rng, 21, origin)
	var parts []*kvcache.Sequence[buffer]
	for _, part := range origin {
		child, err := part.Fork()
		require.NoError(t, err)
		parts = append(parts, child)
	}
	e, err := New[buffer](o)
	require.NoError(t, err)
	e.atOnce = atOnce
	layers := 0
	for _, pool := range sc.pools {
		layers += pool.Config().Model.Layers
	}
	var seen [][]int
	for range 14 {
		n := 1 + rng.IntN(4)
		before := 0
		for _, part := range parts {
			before += part.Len() * part.Pool().Config().Model.Layers
		}
		dropped, err := e.EnsureBudget(sc.s, n, parts...)
		require.NoError(t, err)
		after, used := 0, 0
		for i, part := range parts {
			after += part.Len() * part.Pool().Config().Model.Layers
			used += (part.Len() + n) * part.Pool().Config().Model.Layers
			for l := range part.Pool().Config().Model.Layers {
				at, err := part.Positions(nil, l)
				require.NoError(t, err)
				require.Len(t, at, part.Len())
				require.True(t, slices.IsSorted(at))
				if m := len(at); m > 4 {
					require.Equal(t, []int{0, 1}, at[:2], "sinks stay")
					require.Equal(t, part.NextPosition()-1, at[m-1], "the newest stays")
				}
				seen = append(seen, at)
			}
			require.NoError(t, sc.pools[i].Check())
			if part.Pool().Config().Storage.Residual == 0 {
				require.Len(t, part.Blocks(nil), (part.Len()+7)/8, "blocks return to the pool")
			}
		}
		require.Equal(t, before-after, dropped)
		require.LessOrEqual(t, used, o.Budget*layers, "the budget, with the new tokens")
		sc.feed(rng, n, parts)
	}
	for _, part := range origin {
		require.Equal(t, 21, part.Len())
	}
	release(t, parts)
	release(t, origin)
	return seen
}

func oneLayer() kvcache.Config {
	c := config()
	c.Model.Layers = 1
	return c
}

// The same history keeps the same tokens on every device, whatever the policy, within
// the budget.
func TestHistoriesAreEqualOnAllDevices(t *testing.T) {
	all, apart := []kvcache.Config{config()}, []kvcache.Config{oneLayer(), oneLayer(), oneLayer()}
	quantized := config()
	quantized.Storage.K = backend.Int8
	quantized.Model.Act = backend.F32
	window := quantized
	window.Storage.V, window.Storage.Residual = backend.Int8, 6
	for _, c := range []struct {
		name string
		o    Options
		cfgs []kvcache.Config
	}{
		{"sliding window", Options{Policy: evict.SlidingWindow{Window: 14, Sinks: 4}, Budget: 40}, all},
		{"sliding window, repositioned", Options{Policy: evict.SlidingWindow{Window: 14, Sinks: 4}, Budget: 40, Reposition: true}, all},
		{"H2O", Options{Policy: evict.H2O{Sinks: 2, Recent: 6}, Budget: 20}, all},
		{"H2O, slack, repositioned", Options{Policy: evict.H2O{Sinks: 2, Recent: 6}, Budget: 22, Slack: 4, Reposition: true}, all},
		{"H2O on int8", Options{Policy: evict.H2O{Sinks: 2, Recent: 6}, Budget: 20}, []kvcache.Config{quantized}},
		{"H2O with a recent window", Options{Policy: evict.H2O{Sinks: 2, Recent: 6}, Budget: 20}, []kvcache.Config{window}},
		{"SnapKV", Options{Policy: evict.SnapKV{Sinks: 2, Window: 4, Kernel: 3}, Budget: 18, ResetScoresAfterEvict: true}, all},
		{"PyramidKV", Options{Policy: evict.PyramidKV{SnapKV: evict.SnapKV{Sinks: 2, Window: 4, Kernel: 3}}, Budget: 18}, apart},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := history(t, open(t, "cpu:threads=1"), mostScores, c.o, c.cfgs...)
			require.Equal(t, want, history(t, device(t), mostScores, c.o, c.cfgs...))
			require.Equal(t, want, history(t, open(t, "cpu:threads=1"), 1, c.o, c.cfgs...), "scores layer by layer")
			if c.o.Reposition {
				for _, at := range want {
					for i, p := range at {
						require.Equal(t, i, p)
					}
				}
			}
		})
	}
}

// Whatever the policy and the history, with forks that share blocks: no sequence exceeds its
// budget, its ends stay, the others keep what they have, and every block is accounted for.
func TestAnyHistoryKeepsTheBudget(t *testing.T) {
	be := open(t, "cpu:threads=1")
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		cfg.Model.HeadDim, cfg.Memory.Capacity = 4, 400
		if rapid.Bool().Draw(rt, "recent window") {
			cfg.Storage.K, cfg.Storage.V, cfg.Model.Act, cfg.Storage.Residual, cfg.Memory.StepTokens = backend.Int8, backend.Int8, backend.F32, 10, 16
		}
		sc := newScene(t, be, cfg)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		policy := rapid.SampledFrom([]evict.Policy{evict.Recency{}, evict.SlidingWindow{Window: 9, Sinks: 2}, evict.H2O{Sinks: 2, Recent: 5}, evict.SnapKV{Sinks: 2, Kernel: 3}}).Draw(rt, "policy")
		budget := rapid.IntRange(12, 30).Draw(rt, "budget")
		e, err := New[buffer](Options{Policy: policy, Budget: budget, Slack: rapid.IntRange(0, 6).Draw(rt, "slack"), Reposition: rapid.Bool().Draw(rt, "reposition")})
		require.NoError(rt, err)
		seqs := [][]*kvcache.Sequence[buffer]{sc.open()}
		positions := func(seq *kvcache.Sequence[buffer]) (all [2][]int) {
			for l := range all {
				all[l], err = seq.Positions(nil, l)
				require.NoError(rt, err)
			}
			return all
		}
		for range 20 {
			i := rapid.IntRange(0, len(seqs)-1).Draw(rt, "sequence")
			if len(seqs) < 3 && rapid.IntRange(0, 4).Draw(rt, "fork") == 0 {
				child, err := seqs[i][0].Fork()
				require.NoError(rt, err)
				seqs = append(seqs, []*kvcache.Sequence[buffer]{child})
				continue
			}
			others := map[int][2][]int{}
			for j := range seqs {
				if j != i {
					others[j] = positions(seqs[j][0])
				}
			}
			n := rapid.IntRange(1, 7).Draw(rt, "tokens")
			seq := seqs[i][0]
			newest, had := seq.NextPosition()-1, seq.Len()
			_, err := e.EnsureBudget(sc.s, n, seq)
			require.NoError(rt, err)
			require.LessOrEqual(rt, seq.Len()+n, policy.Limit(budget))
			if seq.Len() > 2 && had > 0 && !e.Reposition { // below, sinks come first
				for _, at := range positions(seq) {
					require.Equal(rt, newest, at[len(at)-1], "the newest stays")
				}
			}
			sc.feed(rng, n, seqs[i])
			for j, at := range others {
				require.Equal(rt, at, positions(seqs[j][0]), "others keep theirs")
			}
			require.NoError(rt, sc.pools[0].Check())
			st, err := sc.pools[0].Stats()
			require.NoError(rt, err)
			require.Equal(rt, st.Blocks, st.Free+st.Cached+st.Held)
		}
		for _, parts := range seqs {
			release(t, parts)
		}
		sc.close()
	})
}

// Layers of one pool cannot have different budgets.
func TestPyramidNeedsPoolsOfItsOwn(t *testing.T) {
	sc := newScene(t, device(t), config())
	defer sc.close()
	parts := sc.open()
	e, err := New[buffer](Options{Policy: evict.PyramidKV{}, Budget: 5})
	require.NoError(t, err)
	_, err = e.EnsureBudget(sc.s, 1, parts...)
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	release(t, parts)
}

// What cannot be done is an error that leaves the sequence as it was.
func TestRoomRefuses(t *testing.T) {
	be := device(t)
	cfg := config()
	cfg.Attention.Scores = false
	sc := newScene(t, be, cfg)
	defer sc.close()
	parts := sc.open()
	sc.feed(rand.New(rand.NewPCG(1, 1)), 20, parts)
	e, err := New[buffer](Options{Policy: evict.H2O{}, Budget: 10})
	require.NoError(t, err)
	_, err = e.EnsureBudget(sc.s, 1, parts...)
	require.ErrorIs(t, err, backend.ErrUnsupported{}, "no scores")
	_, err = e.EnsureBudget(sc.s, 11, parts...)
	require.ErrorIs(t, err, kvcache.ErrCapacity{Have: 11, Max: 10})
	_, err = e.EnsureBudget(sc.s, -1, parts...)
	require.ErrorIs(t, err, backend.ErrArgument{})
	_, err = e.EnsureBudget(sc.s, 1, nil)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.Equal(t, 20, parts[0].Len())
	_, err = e.EnsureBudget(sc.s, 1)
	require.ErrorIs(t, err, backend.ErrArgument{}, "no parts")
	release(t, parts)
	_, err = e.EnsureBudget(sc.s, 1, parts...)
	require.ErrorIs(t, err, kvcache.ErrReleased)

	for _, o := range []Options{{}, {Policy: evict.Recency{}}, {Policy: evict.Recency{}, Budget: -1}, {Policy: evict.Recency{}, Budget: 5, Slack: 5},
		{Policy: evict.H2O{Sinks: -1}, Budget: 5}} {
		_, err := New[buffer](o)
		require.Error(t, err, fmt.Sprintf("%+v", o))
	}
}
