package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// tallScene is a prompt of tall tiles after a context that ends inside of a panel.
var tallScene = scene{qHeads: 5, kvHeads: 1, kDim: 80, vDim: 48, act: backend.F32, ctx: []int{2*panel + 7, 30}, queries: []int{45, 30}}

// Tall tiles under every mask: panels that are hidden from some rows, or begin and end
// where the window and the sink tokens do, in place and over several blocks, with contexts
// that are split and with the attention scores.
func TestTallTiles(t *testing.T) {
	for _, name := range names() {
		for _, m := range []mask{{}, {nonCausal: true}, {window: 1}, {window: panel + 9, sinks: 20}, {window: 40, sinks: panel + 3, logits: true},
			{softCap: 2, alibi: true, logits: true}, {nonCausal: true, alibi: true}} {
			for _, dt := range []backend.DType{backend.F32, backend.Int4} {
				for _, block := range []int{0, 16} {
					c := tallScene
					c.k, c.v, c.block, c.mask = dt, dt, block, m
					c.threads, c.mass, c.options = 3, block == 16, Options{Kernels: name}
					t.Run(fmt.Sprint(name, m, dt, block), func(t *testing.T) {
						st := c.set(t, 9)
						compare(t, c, st.attend(t), st.reference(c))
					})
				}
			}
		}
	}
}

// A tall tile whose result is not finite is walked again, with the same result for the
// rows that do not see the value that is not.
func TestTallTilesNotFinite(t *testing.T) {
	for _, k := range available {
		c := tallScene
		c.k, c.v, c.block, c.options = backend.F32, backend.F32, 16, Options{Kernels: k.name}
		st := c.set(t, 9)
		want := st.attend(t)
		last := c.ctx[0] - 1 // seen by the last query alone
		v := planeOf(st.params.Cache, st.params.Cache.V)
		row := v.slot(st.table[0][last/16]*16+last%16, 0)
		of[float32](row.data)[3] = float32(math.NaN())
		got := st.attend(t)
		seen := (c.queries[0] - 1) * c.qHeads * c.vDim
		require.LessOrEqual(t, rowError(got.out[:seen], want.out[:seen], c.vDim), tolerance[c.act], k.name)
		require.True(t, math.IsNaN(float64(got.out[seen+3])), k.name)
	}
}
