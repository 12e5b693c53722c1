package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

var tolerance = map[backend.DType]float64{backend.F32: 1e-5, backend.F16: 2e-3, backend.BF16: 1e-2}

// roundedWeights is the tolerance where weights are rounded to 32767 steps, which the reference's are not.
const roundedWeights = 5e-4

// compare holds a result against the float64 reference.
func compare(t require.TestingT, c scene, got, want result) {
	require.Len(t, got.out, len(want.out))
	most := tolerance[c.act]
	if c.int8Query && c.v == backend.Int8 {
		most = max(most, roundedWeights)
	}
	far := 0.0 // what rounding a slope times a distance does, where no key is near
	if c.mask.alibi && c.mask.part == backend.OlderKeys && len(c.ctx) > 0 {
		far = float64(slices.Max(c.ctx)) * 0x1p-22 // slopes are 1 at most
	}
	most += far
	require.LessOrEqual(t, rowError(got.out, want.out, c.vDim), most, "%+v", c)
	for i := range want.lse {
		if math.IsInf(float64(want.lse[i]), -1) {
			require.Equal(t, want.lse[i], got.lse[i], "%+v", c)
			continue
		}
		require.InDelta(t, want.lse[i], got.lse[i], 2e-5+far, "%+v", c)
	}
	for i := range want.mass {
		require.InDelta(t, want.mass[i], got.mass[i], 1e-4*max(1, float64(want.mass[i])), "%+v", c)
	}
}

// wholeBytes is dim, or one more where rows would not fill whole bytes.
func wholeBytes(dt backend.DType, dim int) int {
	if dt.Bits() < 8 {
		return dim + dim%2
	}
	return dim
}

func TestAttendAgainstReference(t *testing.T) {
	float := rapid.SampledFrom([]backend.DType{backend.F32, backend.F16, backend.BF16})
	key, value := rapid.SampledFrom(storageTypes), rapid.SampledFrom(storageTypes[:len(storageTypes)-1])
	rapid.Check(t, func(r *rapid.T) {
		c := scene{
			kvHeads: rapid.IntRange(1, 3).Draw(r, "kv heads"),
			kDim:    rapid.IntRange(1, 40).Draw(r, "k dim"), vDim: rapid.IntRange(1, 40).Draw(r, "v dim"),
			act: float.Draw(r, "act"), k: key.Draw(r, "k"), v: value.Draw(r, "v"),
			block:   rapid.SampledFrom([]int{0, 1, 2, 3, 8, 16, 24, 64}).Draw(r, "block"),
			threads: rapid.IntRange(1, 3).Draw(r, "threads"),
			mass:    rapid.Bool().Draw(r, "mass"),
		}
		c.kDim, c.vDim = wholeBytes(c.k, c.kDim), wholeBytes(c.v, c.vDim)
		c.int8Query = slices.Contains(int8Query(), c.k) && rapid.Bool().Draw(r, "int8 query")
		c.qHeads = c.kvHeads * rapid.SampledFrom([]int{1, 2, 5, 40}).Draw(r, "group")
		for range rapid.IntRange(1, 3).Draw(r, "seqs") {
			c.ctx = append(c.ctx, rapid.SampledFrom([]int{0, 1, 7, 8, 9, 33, 70}).Draw(r, "ctx"))
			c.queries = append(c.queries, rapid.SampledFrom([]int{0, 1, 3, 11}).Draw(r, "queries"))
		}
		c.mask = mask{nonCausal: rapid.Bool().Draw(r, "non-causal"), alibi: rapid.Bool().Draw(r, "alibi"), logits: rapid.Bool().Draw(r, "logits")}
		if !c.mask.nonCausal {
			c.mask.window = rapid.SampledFrom([]int{0, 0, 1, 5, 40, math.MaxInt}).Draw(r, "window")
			c.mask.sinks = rapid.SampledFrom([]int{0, 1, 4, 60}).Draw(r, "sinks")
			c.mask.drawPart(r)
		}
		if rapid.Bool().Draw(r, "soft-cap") {
			c.mask.softCap = 2
		}
		st := c.set(t, rapid.Uint64().Draw(r, "seed"))
		compare(r, c, st.attend(t), st.reference(c))
		require.NoError(r, st.be.Close())
	})
}

func (m *mask) drawPart(r *rapid.T) {
	if m.part = backend.Part(rapid.IntRange(0, 2).Draw(r, "part")); m.part != backend.AllKeys {
		m.recent = rapid.SampledFrom([]int{1, 5, 31, 290, math.MaxInt}).Draw(r, "recent")
	}
}

// Long contexts with few heads are split over the workers and merged.
func TestAttendSplitContext(t *testing.T) {
	for _, c := range []scene{
		{qHeads: 4, kvHeads: 1, ctx: []int{2049}, queries: []int{1}, threads: 4},
		{qHeads: 2, kvHeads: 2, ctx: []int{2049, 40}, queries: []int{3, 1}, threads: 3, mask: mask{logits: true}},
		{qHeads: 1, kvHeads: 1, ctx: []int{3000}, queries: []int{2}, threads: 4, mask: mask{window: 1100, sinks: 5}},
		{qHeads: 1, kvHeads: 1, ctx: []int{3000}, queries: []int{2}, threads: 4, mask: mask{window: 1100, sinks: 600, logits: true}},
		{qHeads: 1, kvHeads: 1, ctx: []int{3000}, queries: []int{2}, threads: 4, mask: mask{nonCausal: true}},
	} {
		c.kDim, c.vDim, c.act, c.k, c.v, c.block, c.mass = 64, 32, backend.F32, backend.F32, backend.F32, 16, true
		t.Run(fmt.Sprint(c.ctx, c.mask), func(t *testing.T) {
			st := c.set(t, 7)
			require.Positive(t, st.params.Plan.Parts)
			compare(t, c, st.attend(t), st.reference(c))
		})
	}
}

// Masks meet the borders of parts: contexts that are split, under any mask, and
// under plans that were made for more.
func TestAttendSplitContextUnderMasks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := scene{kDim: 4, vDim: 3, act: backend.F32, k: backend.F32, v: backend.F32,
			kvHeads: rapid.IntRange(1, 2).Draw(r, "kv heads"),
			block:   rapid.SampledFrom([]int{0, 1, 16, 64}).Draw(r, "block"),
			threads: rapid.IntRange(2, 9).Draw(r, "threads"), mass: rapid.Bool().Draw(r, "mass")}
		c.qHeads = c.kvHeads * rapid.SampledFrom([]int{1, 3}).Draw(r, "group")
		for range rapid.IntRange(1, 2).Draw(r, "seqs") {
			c.ctx = append(c.ctx, rapid.SampledFrom([]int{0, 30, 511, 512, 513, 769, 1300}).Draw(r, "ctx"))
			c.queries = append(c.queries, rapid.SampledFrom([]int{0, 1, 2, 34}).Draw(r, "queries"))
		}
		c.mask = mask{nonCausal: rapid.Bool().Draw(r, "non-causal"), alibi: rapid.Bool().Draw(r, "alibi"),
			logits: rapid.Bool().Draw(r, "logits"), softCap: rapid.SampledFrom([]float32{0, 2}).Draw(r, "soft-cap")}
		if !c.mask.nonCausal {
			c.mask.window = rapid.SampledFrom([]int{0, 0, 1, 33, 300, 600, math.MaxInt}).Draw(r, "window")
			c.mask.sinks = rapid.SampledFrom([]int{0, 4, 300, 600}).Draw(r, "sinks")
			c.mask.drawPart(r)
		}
		st := c.set(t, rapid.Uint64().Draw(r, "seed"))
		if rapid.Bool().Draw(r, "wide plan") {
			st.shape.Window, st.shape.SinkTokens = 0, 0
			st.plan(t)
		}
		compare(r, c, st.attend(t), st.reference(c))
		require.NoError(r, st.be.Close())
	})
}

// A plan serves layers whose window is narrower than its own, and no wider ones.
func TestAttendNarrowerWindow(t *testing.T) {
	c := scene{qHeads: 2, kvHeads: 1, kDim: 16, vDim: 16, act: backend.F32, k: backend.F32, v: backend.F32,
		ctx: []int{2049, 40}, queries: []int{40, 3}, block: 16, threads: 4, mask: mask{window: 700, sinks: 6}}
	for _, planned := range []mask{{}, {window: 701, sinks: 6}, {window: 1500, sinks: 600}, {window: math.MaxInt}} {
		st := c.set(t, 5)
		st.shape.Window, st.shape.SinkTokens = planned.window, planned.sinks
		st.plan(t)
		if planned.window == math.MaxInt { // has no sink tokens
			require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{})
			continue
		}
		compare(t, c, st.attend(t), st.reference(c))
	}
	st := c.set(t, 5)
	st.params.Mask.Window++
	require.ErrorContains(t, st.be.Attend(st.s, st.params), "window 701")
	st.params.Mask.Window = 0
	require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{})
}

// A plan serves the part of the keys that it was made for, and no other.
func TestAttendAnotherPart(t *testing.T) {
	c := scene{qHeads: 2, kvHeads: 1, kDim: 16, vDim: 16, act: backend.F32, k: backend.F32, v: backend.F32,
		ctx: []int{70, 40}, queries: []int{40, 3}, mask: mask{part: backend.OlderKeys, recent: 20}}
	st := c.set(t, 5)
	for name, change := range map[string]func(m *backend.Mask[*Buffer]){
		"all keys":  func(m *backend.Mask[*Buffer]) { m.Part, m.Residual = backend.AllKeys, 0 },
		"the other": func(m *backend.Mask[*Buffer]) { m.Part = backend.ResidualKeys },
		"recent":    func(m *backend.Mask[*Buffer]) { m.Residual++ },
	} {
		p := st.params
		change(&p.Mask)
		err := st.be.Attend(st.s, p)
		require.ErrorIs(t, err, backend.ErrArgument{}, name)
		require.ErrorContains(t, err, "part", name)
	}
	compare(t, c, st.attend(t), st.reference(c))
	c.mask = mask{}
	all := c.set(t, 5)
	all.params.Mask.Part, all.params.Mask.Residual = backend.OlderKeys, 20
	require.ErrorContains(t, all.be.Attend(all.s, all.params), "part 1 by 20")
}

// someTypes is scenes of storage types that are walked in different ways.
var someTypes = []scene{{k: backend.F16, v: backend.BF16}, {k: backend.F32, v: backend.F32},
	{k: backend.Int8Asym, v: backend.Int4}, {k: backend.Int4G64, v: backend.FP8E5M2, int8Query: true}, {k: backend.Int8, v: backend.Int8, int8Query: true}}

// everyKernel runs f for base with all kernels at dims that there is assembly for.
func everyKernel(t *testing.T, base scene, types []scene, reproducible bool, f func(t *testing.T, c scene)) {
	for _, name := range names() {
		for _, s := range types {
			c := base
			c.k, c.v, c.int8Query, c.act = s.k, s.v, s.int8Query, backend.F32
			c.qHeads, c.kvHeads, c.kDim, c.vDim = 6, 2, 16, 32
			c.options = Options{Kernels: name, Reproducible: reproducible}
			t.Run(fmt.Sprint(name, c.k, c.v, c.ctx, c.mask), func(t *testing.T) { f(t, c) })
		}
	}
}

// The same step gives the same bits in every layout and on any number of threads, as long
// as no context is split, and whether or not attention scores are wanted.
func TestAttendBitsDoNotDependOnLayout(t *testing.T) {
	base := scene{ctx: []int{130, 77}, queries: []int{130, 5}, threads: 1}
	everyKernel(t, base, someTypes, false, func(t *testing.T, base scene) {
		want := base.set(t, 3).attend(t)
		for _, block := range []int{0, 8, 16, 32, 64, 128} {
			for _, threads := range []int{1, 2, 5} {
				c := base
				c.block, c.threads, c.mass = block, threads, threads == 2
				got := c.set(t, 3).attend(t)
				require.Equal(t, want.out, got.out, "block %d, %d threads", block, threads)
				require.Equal(t, want.lse, got.lse)
			}
		}
	})
}

// Where bits are to be reproducible, tokens also have the same ones whether their prompt is
// attended at once or in chunks, alone or in a batch, and where contexts are split.
func TestAttendBitsDoNotDependOnCuts(t *testing.T) {
	everyKernel(t, scene{ctx: []int{130, 77}, queries: []int{130, 5}}, someTypes, true, sameBits)
	split := scene{ctx: []int{fixedPart + 70, 1}, queries: []int{130, 1}, block: 16}
	for _, m := range []mask{{logits: true}, {window: 33, logits: true}, {window: 77, sinks: 20}, {window: 99, sinks: fixedPart}} {
		split.mask = m
		everyKernel(t, split, someTypes[:1], true, sameBits)
	}
}

func sameBits(t *testing.T, base scene) {
	base.threads = 1
	want := base.set(t, 3).attend(t)
	base.threads = 3
	require.Equal(t, want, base.set(t, 3).attend(t))
	st := base.set(t, 3)
	row, ctx, queries := base.qHeads*base.vDim, base.ctx[0], base.queries[0]
	for _, cut := range [][2]int{{129, 130}, {99, 130}, {45, 130}, {0, 1}, {7, 61}} { // queries of the first sequence alone
		n := cut[1] - cut[0]
		p := st.params
		p.Batch.Seqs, p.Batch.Tokens = 1, n
		p.Batch.QueryOffsets = backend.Some(numbers(t, st.be, st.s, backend.U32, []uint32{0, uint32(n)}))
		last := uint32(ctx - queries + cut[1])
		p.Batch.ContextLens = numbers(t, st.be, st.s, backend.U32, []uint32{last})
		p.Q.Offset = cut[0] * base.qHeads * base.kDim
		sub := &stage{be: st.be, s: st.s, params: p, shape: st.shape}
		sub.shape.ContextLens, sub.shape.QueryLens = []uint32{last}, []uint32{uint32(n)}
		sub.plan(t)
		got := sub.attend(t)
		require.Equal(t, want.out[cut[0]*row:cut[1]*row], got.out[:n*row], "%v", cut)
	}
}
