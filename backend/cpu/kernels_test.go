package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// names is the kernels that this processor runs.
func names() (out []string) {
	for _, k := range available {
		out = append(out, k.name)
	}
	return out
}

// Attention with any kernels is near the float64 reference at the dims that they are
// made for, of keys and values of every type, in blocks of every size.
func TestKernelsAgainstReference(t *testing.T) {
	dim := rapid.SampledFrom([]int{16, 48, 64, 80, 96, 112, 128, 192, 256})
	float := rapid.SampledFrom([]backend.DType{backend.F32, backend.F16, backend.BF16})
	key, value := rapid.SampledFrom(storageTypes), rapid.SampledFrom(storageTypes[:len(storageTypes)-1])
	rapid.Check(t, func(r *rapid.T) {
		c := scene{kvHeads: rapid.IntRange(1, 9).Draw(r, "kv heads"), kDim: dim.Draw(r, "k dim"), vDim: dim.Draw(r, "v dim"),
			act: float.Draw(r, "act"), k: key.Draw(r, "k"), v: value.Draw(r, "v"),
			block:   rapid.SampledFrom([]int{0, 1, 8, 16, 128}).Draw(r, "block"),
			threads: rapid.IntRange(1, 3).Draw(r, "threads"), mass: rapid.Bool().Draw(r, "mass"),
			options: Options{Kernels: rapid.SampledFrom(names()).Draw(r, "kernels"), Reproducible: rapid.Bool().Draw(r, "reproducible")}}
		for _, k := range int8Query() {
			c.int8Query = c.int8Query || k == c.k && rapid.Bool().Draw(r, "int8 query")
		}
		c.qHeads = c.kvHeads * rapid.IntRange(1, 17).Draw(r, "group")
		for range rapid.IntRange(1, 3).Draw(r, "seqs") {
			n := rapid.SampledFrom([]int{1, 1, 1, 2, 7, 40}).Draw(r, "queries")
			c.ctx = append(c.ctx, n+rapid.SampledFrom([]int{0, 1, 14, 31, 100, 515}).Draw(r, "past"))
			c.queries = append(c.queries, n)
		}
		c.mask = mask{alibi: rapid.Bool().Draw(r, "alibi"), logits: rapid.Bool().Draw(r, "logits"),
			window: rapid.SampledFrom([]int{0, 0, 1, 33, 300}).Draw(r, "window"), sinks: rapid.SampledFrom([]int{0, 4, 60}).Draw(r, "sinks")}
		if rapid.Bool().Draw(r, "soft-cap") {
			c.mask.softCap = 2
		}
		st := c.set(t, rapid.Uint64().Draw(r, "seed"))
		compare(r, c, st.attend(t), st.reference(c))
		require.NoError(r, st.be.Close())
	})
}

// Kernels have names; one that the processor does not run is refused, whether an option
// or the environment asks for it.
func TestKernelsByName(t *testing.T) {
	require.Equal(t, "go", available[len(available)-1].name)
	for _, name := range names() {
		t.Setenv(EnvKernels, name)
		be, _ := open(t, 1)
		require.Equal(t, name, be.kernels.name)
	}
	t.Setenv(EnvKernels, "mmx")
	_, err := Open(Options{})
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	require.ErrorContains(t, err, `FERRUM_CPU_KERNELS is "mmx", this processor and build have `)
	_, err = Open(Options{Kernels: "sse"})
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	require.ErrorContains(t, err, `Options.Kernels is "sse"`)
	be, err := Open(Options{Kernels: "go"})
	require.NoError(t, err)
	require.NoError(t, be.Close())
}

// A value that a query does not see does not matter to it, even where it is infinite or
// NaN and other queries of the tile see it; nor does one of weight 0.
func TestHiddenValuesDoNotMatter(t *testing.T) {
	for _, name := range names() {
		for _, bad := range []float32{float32(math.Inf(1)), float32(math.NaN())} {
			for _, queries := range []int{2, 40} {
				c := scene{qHeads: 4, kvHeads: 2, kDim: 64, vDim: 64, act: backend.F32, k: backend.F32, v: backend.F16,
					ctx: []int{70}, queries: []int{queries}, block: 16, options: Options{Kernels: name}}
				st := c.set(t, 5)
				want := st.attend(t)
				v := planeOf(st.params.Cache, st.params.Cache.V)
				slot := st.table[0][69/16]*16 + 69%16 // the last token's
				row := v.slot(slot, 1)
				portable.encode[row.dt](row, slices.Repeat([]float32{bad}, 64), false)
				got := st.attend(t)
				before := (queries - 1) * 4 * 64
				visible := before + 2*64 // of the last token, what head 0 sees
				require.LessOrEqual(t, rowError(got.out[:visible], want.out[:visible], 64), tolerance[c.act], "%s", name)
				require.False(t, finite(got.out[before+2*64:]), "%s: the last token sees itself", name)

				// Its score is far below the others': its weight is 0.
				keys := planeOf(st.params.Cache, st.params.Cache.K)
				key := keys.slot(slot, 1)
				view[float32](st.params.Q.Buf)[((queries-1)*4+2)*64] = 1e6
				portable.encode[key.dt](key, append([]float32{-1e6}, make([]float32, 63)...), false)
				got = st.attend(t)
				require.True(t, finite(got.out[before+2*64:before+3*64]), "%s: weight 0", name)
			}
		}
	}
}

// Nor does a hidden value's scale, to the bit, where weights are rounded.
func TestHiddenScalesDoNotMatter(t *testing.T) {
	for _, name := range names() {
		for _, reproducible := range []bool{false, true} {
			for _, int8Query := range []bool{false, true} {
				c := scene{qHeads: 4, kvHeads: 1, kDim: 64, vDim: 64, act: backend.F32, k: backend.Int8, v: backend.Int8, int8Query: int8Query,
					ctx: []int{70}, queries: []int{2}, block: 16, options: Options{Kernels: name, Reproducible: reproducible}}
				st := c.set(t, 5)
				want := st.attend(t)
				v := planeOf(st.params.Cache, st.params.Cache.V)
				last := v.slot(st.table[0][69/16]*16+69%16, 0)
				last.setNaN()
				got := st.attend(t)
				require.Equal(t, want.out[:4*64], got.out[:4*64], "%s, reproducible %v, queries in int8 %v", name, reproducible, int8Query)
				require.True(t, math.IsNaN(float64(got.out[4*64])), "the last token sees itself")
			}
		}
	}
}
