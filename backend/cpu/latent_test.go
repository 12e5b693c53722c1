package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// latentScene has rows for products of matrices, and panels that end inside of blocks.
var latentScene = scene{qHeads: 16, kvHeads: 1, kDim: 176, vDim: 128, latent: true, act: backend.F32, ctx: []int{2*panel + 7, 30, 0, 1}, queries: []int{1, 3, 1, 1}}

// Latents in products of matrices and, with fewer rows, in a walk: under every mask, in place and over blocks, with contexts
// that are split, with the attention scores, and with dims of which a product is made in parts.
func TestLatents(t *testing.T) {
	for _, name := range names() {
		for _, m := range []mask{{}, {nonCausal: true}, {window: panel + 9, sinks: 20}, {window: 40, sinks: panel + 3, logits: true}, {softCap: 2, alibi: true, logits: true}} {
			for _, dt := range []backend.DType{backend.F32, backend.BF16, backend.Int8, backend.FP8E4M3, backend.Int4, backend.NVFP4} {
				for _, qHeads := range []int{3, 16, 20} {
					c := latentScene
					c.k, c.v, c.mask, c.qHeads, c.options = dt, dt, m, qHeads, Options{Kernels: name}
					c.threads, c.mass, c.block = 3, qHeads == 16, map[bool]int{true: 16}[dt != backend.BF16]
					t.Run(fmt.Sprint(name, m, dt, qHeads), func(t *testing.T) {
						st := c.set(t, 9)
						compare(t, c, st.attend(t), st.reference(c))
					})
				}
			}
		}
	}
}

// The same bits come of every layout.
func TestLatentBitsDoNotDependOnLayout(t *testing.T) {
	for _, name := range names() {
		for _, dt := range []backend.DType{backend.F32, backend.F16, backend.Int8} {
			base := latentScene
			base.k, base.v, base.threads, base.options = dt, dt, 1, Options{Kernels: name}
			want := base.set(t, 3).attend(t)
			for _, block := range []int{8, 16, 64, 128} {
				c := base
				c.block, c.mass = block, block == 16
				got := c.set(t, 3).attend(t)
				require.Equal(t, want.out, got.out, "%s, %s, block %d", name, dt, block)
				require.Equal(t, want.lse, got.lse)
			}
		}
	}
}

// What is not finite in a latent that a row does not see does not reach it, whether its part of the key is a value or not.
func TestLatentsNotFinite(t *testing.T) {
	for _, k := range available {
		for _, element := range []int{3, 170} {
			c := latentScene
			c.k, c.v, c.block, c.options = backend.F32, backend.F32, 16, Options{Kernels: k.name}
			c.ctx, c.queries = []int{100}, []int{5}
			st := c.set(t, 9)
			want := st.attend(t)
			keys := planeOf(st.params.Cache, st.params.Cache.K)
			row := keys.slot(st.slot(0, 99), 0) // seen by the last query alone
			of[float32](row.data)[element] = float32(math.NaN())
			got := st.attend(t)
			seen := 4 * c.qHeads * c.vDim
			require.LessOrEqual(t, rowError(got.out[:seen], want.out[:seen], c.vDim), tolerance[c.act], k.name)
			require.True(t, math.IsNaN(float64(got.out[seen+3])), k.name)
		}
	}
}
