package backendtest

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/go-gl/mathgl/mgl64"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noSink = math.Inf(-1)

// twoKeys is a history whose keys are the unit vectors of a plane.
func twoKeys() history {
	h := newHistory(2, 2, 2)
	set(h.keys, 0, []float32{1, 0})
	set(h.keys, 1, []float32{0, 1})
	set(h.values, 0, []float32{10, 20})
	set(h.values, 1, []float32{30, 60})
	return h
}

func TestOracleByHand(t *testing.T) {
	h := twoKeys()
	q := vector([]float32{2, 2})

	even := attend(q, causal(1), h, visibility{scale: 0.5, sinkLogit: noSink}) // both scores are 1
	require.InDeltaSlice(t, []float64{20, 40}, even.out.Raw(), 1e-12)
	require.InDelta(t, 1+math.Ln2, even.lse, 1e-12)
	require.InDeltaSlice(t, []float64{0.5, 0.5}, even.prob, 1e-12)

	first := attend(q, causal(0), h, visibility{scale: 0.5, sinkLogit: noSink}) // sees key 0 alone
	require.InDeltaSlice(t, []float64{10, 20}, first.out.Raw(), 1e-12)
	require.InDelta(t, 1, first.lse, 1e-12)
	require.Equal(t, []float64{1, 0}, first.prob)

	tilted := attend(vector([]float32{float32(math.Log(3)), 0}), causal(1), h, visibility{scale: 1, sinkLogit: noSink}) // weights 3 to 1
	require.InDeltaSlice(t, []float64{15, 30}, tilted.out.Raw(), 1e-6)
	require.InDelta(t, math.Log(4), tilted.lse, 1e-7)
}

func TestOracleOfNothing(t *testing.T) {
	empty := attend(vector([]float32{2, 2}), causal(-1), twoKeys(), visibility{scale: 1, sinkLogit: noSink})
	require.Equal(t, []float64{0, 0}, empty.out.Raw())
	require.Equal(t, math.Inf(-1), empty.lse)
	require.Equal(t, []float64{0, 0}, empty.prob)

	sink := attend(vector([]float32{2, 2}), causal(-1), twoKeys(), visibility{scale: 1, sinkLogit: -0.25})
	require.Equal(t, []float64{0, 0}, sink.out.Raw())
	require.InDelta(t, -0.25, sink.lse, 1e-15)
}

func TestOracleSinkLogitTakesProbability(t *testing.T) {
	a := attend(vector([]float32{0, 0}), causal(1), twoKeys(), visibility{scale: 1, sinkLogit: math.Ln2}) // weights 1, 1 and 2
	require.InDeltaSlice(t, []float64{10, 20}, a.out.Raw(), 1e-12)
	require.InDelta(t, math.Log(4), a.lse, 1e-12)
	require.InDeltaSlice(t, []float64{0.25, 0.25}, a.prob, 1e-12)
}

func TestOracleScoreOrder(t *testing.T) {
	v := visibility{scale: 0.5, softCap: 3, slope: 0.25}
	require.InDelta(t, 3*math.Tanh(8*0.5/3)+0.25*(2-7), v.score(8, 7, 2), 1e-15)
	v.softCap = 0
	require.InDelta(t, 4-1.25, v.score(8, 7, 2), 1e-15)
}

func TestOracleVisibility(t *testing.T) {
	visible := func(v visibility, q viewer, keys int) (out []int) {
		for key := range keys {
			if v.sees(q, key) {
				out = append(out, key)
			}
		}
		return out
	}
	require.Equal(t, []int{0, 1, 2, 3}, visible(visibility{}, causal(3), 6))
	require.Empty(t, visible(visibility{}, causal(-1), 6))
	whole := viewer{pos: 3, end: 6}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, visible(visibility{}, whole, 6))
	require.Equal(t, []int{3}, visible(visibility{window: 1}, causal(3), 6))
	require.Equal(t, []int{3}, visible(visibility{window: 1}, whole, 6))
	require.Equal(t, []int{2, 3, 4}, visible(visibility{window: 3}, causal(4), 6))
	require.Equal(t, []int{2, 3, 4}, visible(visibility{window: 2}, whole, 6), "as far after it as before it")
	require.Equal(t, []int{0, 1, 3, 4}, visible(visibility{window: 2, sinkTokens: 2}, causal(4), 6))
	require.Equal(t, []int{0}, visible(visibility{window: 2, sinkTokens: 4}, causal(0), 6), "a sink in the future stays unseen")
	require.Equal(t, []int{0, 1, 2, 3}, visible(visibility{window: 2, sinkTokens: 4}, viewer{pos: 0, end: 6}, 6), "unless the end is behind it")
	require.Equal(t, []int{0, 1, 2}, visible(visibility{sinkTokens: 1}, causal(2), 6), "sinks without a window change nothing")

	chunk := visibility{chunk: 3}
	require.Equal(t, []int{3, 4}, visible(chunk, causal(4), 9))
	require.Equal(t, []int{3, 4, 5}, visible(chunk, causal(5), 9))
	require.Equal(t, []int{6}, visible(chunk, causal(6), 9))
	require.Equal(t, []int{3, 4, 5}, visible(chunk, viewer{pos: 4, end: 9}, 9))
	require.Empty(t, visible(chunk, viewer{pos: -1, end: 9}, 9))
	require.Empty(t, visible(chunk, viewer{pos: 50, end: 9}, 9))

	require.Equal(t, []int{0, 1}, visible(visibility{}, viewer{pos: 50, end: 2}, 6))
	require.Empty(t, visible(visibility{window: 9}, viewer{pos: backend.MaxPosition, end: 6}, 6))
	parts := func(q viewer) (older, recent []int) {
		v := visibility{part: backend.OlderKeys, recent: 2, block: 2}
		older = visible(v, q, q.end)
		v.part = backend.ResidualKeys
		return older, visible(v, q, q.end)
	}
	older, recent := parts(viewer{pos: 3, end: 6}) // the edge is at 2
	require.Equal(t, [2][]int{{0, 1}, {2, 3, 4, 5}}, [2][]int{older, recent})

	// Drafts 4, 5, 6 and 7 after four keys: 4 is the root of 5 and 6, and 7 is behind 5.
	tree := viewer{pos: 6, end: 8, drafts: 4, depths: []int{4, 5, 5, 6}, bits: []uint32{0b1011}}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 7}, visible(visibility{}, tree, 8))
	require.Equal(t, []int{3, 4, 5, 7}, visible(visibility{window: 4}, tree, 8), "the depth counts, not the number")
	require.Equal(t, []int{0, 4, 5, 7}, visible(visibility{window: 1, sinkTokens: 1}, tree, 8), "bits say all of drafts")
	require.Equal(t, []int{4, 5, 7}, visible(visibility{chunk: 6}, tree, 8), "which may be in other chunks")
	require.Equal(t, []int{0, 1, 4, 5, 7}, visible(visibility{window: 1, sinkTokens: 2}, tree, 8))
	require.Equal(t, []int{0, 5, 6, 7}, visible(visibility{window: 1, sinkTokens: 9}, viewer{pos: 3, end: 8, drafts: 1,
		depths: []int{1, 1, 1, 2, 2, 2, 3}, bits: []uint32{0b1110000}}, 8), "no draft is a sink token")
	older, recent = parts(tree)
	require.Equal(t, [2][]int{{0, 1, 2, 3}, {4, 5, 7}}, [2][]int{older, recent})
	tree.pos = 7 // the edge is at 6, beyond the first drafts
	older, recent = parts(tree)
	require.Equal(t, [2][]int{{0, 1, 2, 3}, {4, 5, 7}}, [2][]int{older, recent})
	require.Equal(t, []int{3, 6, 5}, []int{tree.position(3), tree.position(7), tree.position(6)})
	tree.bits = []uint32{0}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, visible(visibility{}, tree, 8), "no bits, no tree")
	require.Equal(t, 7, tree.position(7))
}

// causal is a query that sees what is not after it.
func causal(pos int) viewer { return viewer{pos: pos, end: pos + 1} }

// Attention over a part of the keys and over the rest, merged, is attention over
// all, wherever the context is cut.
func TestOracleMergesParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "keys")
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		draw := func(name string) []float32 {
			return rapid.SliceOfN(rapid.Float32Range(-3, 3), 4, 4).Draw(t, name)
		}
		whole, left, right := newHistory(4, 4, n), newHistory(4, 4, cut), newHistory(4, 4, n-cut)
		for i := range n {
			part, at := left, i
			if i >= cut {
				part, at = right, i-cut
			}
			k, v := draw("key"), draw("value")
			for _, h := range []struct {
				history
				at int
			}{{whole, i}, {part, at}} {
				set(h.keys, h.at, k)
				set(h.values, h.at, v)
			}
		}
		all := visibility{scale: 1, sinkLogit: noSink}
		everything := viewer{end: n}
		q := vector(draw("query"))
		want, a, b := attend(q, everything, whole, all), attend(q, everything, left, all), attend(q, everything, right, all)
		got := merge([]partial{{a.out, a.lse}, {b.out, b.lse}}, 4)
		require.InDelta(t, want.lse, got.lse, 1e-9)
		require.InDeltaSlice(t, want.out.Raw(), got.out.Raw(), 1e-9)
	})
}

func TestOracleMergesNothing(t *testing.T) {
	none := partial{mgl64.NewVecNFromData([]float64{5, 5}), math.Inf(-1)}
	got := merge([]partial{none, none}, 2)
	require.Equal(t, []float64{0, 0}, got.out.Raw())
	require.Equal(t, math.Inf(-1), got.lse)
	other := partial{none.out, math.Inf(1)}
	require.Equal(t, got, merge([]partial{other, none, other}, 2), "+∞ is as empty as −∞")

	one := partial{mgl64.NewVecNFromData([]float64{1, 2}), 3}
	got = merge([]partial{none, one, none}, 2)
	require.Equal(t, []float64{1, 2}, got.out.Raw())
	require.InDelta(t, 3, got.lse, 1e-15)
	require.Equal(t, got, merge([]partial{other, one, none}, 2))

	got = merge([]partial{one, {one.out, math.NaN()}, none}, 2)
	require.True(t, math.IsNaN(got.lse) && math.IsNaN(got.out.Raw()[0]), "%v", got)
}

func TestRotaryByHand(t *testing.T) {
	sin, cos := math.Sincos(3)
	half := rotary{theta: 10000, dims: 4, pairing: backend.HalfSplit, magnitude: 2}
	got := half.turn([]float64{1, 0, 0, 1, 7}, 3) // pairs (0, 2) by 3 and (1, 3) by 0.03
	slowSin, slowCos := math.Sincos(0.03)
	require.InDeltaSlice(t, []float64{2 * cos, -2 * slowSin, 2 * sin, 2 * slowCos, 7}, got, 1e-12)

	pairs := rotary{theta: 10000, dims: 4, pairing: backend.Interleaved, magnitude: 1}
	got = pairs.turn([]float64{1, 0, 0, 1}, 3) // pairs (0, 1) by 3 and (2, 3) by 0.03
	require.InDeltaSlice(t, []float64{cos, sin, -slowSin, slowCos}, got, 1e-12)

	require.InDeltaSlice(t, []float64{1, 2, 3, 4}, pairs.turn(pairs.turn([]float64{1, 2, 3, 4}, 250), -250), 1e-12)
}
