package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// naiveView is the contract's words on a query with a view, and a key that is no draft.
func naiveView(v Visibility, position, end, key int) bool {
	edge := max(position+1-v.Residual, 0)
	if v.Block > 0 {
		edge = edge / v.Block * v.Block
	}
	floor := func(n int) float64 { return math.Floor(float64(n) / float64(v.Chunk)) }
	return key < end && (v.Window == 0 || position-v.Window < key && key < position+v.Window || key < v.SinkTokens) &&
		(v.Chunk == 0 || floor(key) == floor(position)) &&
		(v.Part != backend.OlderKeys || key < edge) && (v.Part != backend.ResidualKeys || key >= edge)
}

func drawVisibility(r *rapid.T) Visibility {
	few, window, sinks, chunk := rapid.IntRange(1, 20), 0, 0, 0
	switch rapid.IntRange(0, 2).Draw(r, "mask") {
	case 1:
		window, sinks = few.Draw(r, "window"), rapid.IntRange(0, 25).Draw(r, "sinks")
	case 2:
		chunk = few.Draw(r, "chunk")
	}
	return visible(rapid.Bool().Draw(r, "non-causal"), window, sinks, chunk, backend.Part(rapid.IntRange(0, 2).Draw(r, "part")),
		few.Draw(r, "recent"), few.Draw(r, "block"))
}

// What a query with a view sees is what the contract says, in runs that are in order.
func TestSee(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := drawVisibility(r)
		position, end := rapid.IntRange(-5, 60).Draw(r, "position"), rapid.IntRange(-5, 50).Draw(r, "end")
		k, last, count := v.See(position, end), 0, 0
		for key := range 60 {
			sees := naiveView(v, position, end, key)
			require.Equal(r, sees, k.Has(key), "%+v, position %d, end %d: %+v, key %d", v, position, end, k, key)
			if sees {
				last, count = key+1, count+1
			}
		}
		require.Equal(r, last, k.Hi)
		require.Equal(r, count, k.Count())
		require.True(r, slices.IsSorted([]int{k.First, k.Sinks, k.Lo, k.Hi}), "%+v", k)
	})
	last := visible(false, math.MaxInt, 3, 0, backend.ResidualKeys, math.MaxInt, 16)
	require.Equal(t, Keys{Hi: 40}, last.See(backend.MaxPosition, 40))
	last.Residual = 1
	require.Equal(t, Keys{}, last.See(backend.MaxPosition, 40))
	last.Window, last.Part = 1, backend.OlderKeys
	require.Equal(t, Keys{Sinks: 3, Lo: 3, Hi: 3}, last.See(backend.MaxPosition, 40))
}

// A run may end before the sink tokens of another do.
func TestKeysTogether(t *testing.T) {
	sinks := Keys{Sinks: 15, Lo: 15, Hi: 15}
	require.Equal(t, Keys{Hi: 15}, sinks.Or(Keys{Hi: 12}))
	require.Equal(t, Keys{Sinks: 10, Lo: 10, Hi: 15}, Keys{Lo: 10, Hi: 12}.Or(sinks))
	require.Equal(t, sinks, sinks.Or(Keys{}))
}

// What a plan has keys for is all that some query may see, and what is common all of them do.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := drawVisibility(r)
		ctx, n, first := rapid.IntRange(0, 50).Draw(r, "context"), rapid.IntRange(1, 40).Draw(r, "queries"), rapid.IntRange(0, 3).Draw(r, "first")
		p := Places{See: v, treeWords: rapid.IntRange(0, 2).Draw(r, "words")}
		if rapid.Bool().Draw(r, "views") {
			p.See.NonCausal = false
			for range first + n {
				p.views = append(p.views, uint32(rapid.IntRange(0, 60).Draw(r, "position")), uint32(rapid.IntRange(0, ctx).Draw(r, "end")))
			}
		}
		q0 := rapid.IntRange(0, n-1).Draw(r, "from")
		q1 := rapid.IntRange(q0+1, n).Draw(r, "to")
		all, common := p.Of(first, ctx, n, q0, q1), p.Common(first, ctx, n)
		require.True(r, slices.IsSorted([]int{all.First, all.Sinks, all.Lo, all.Hi}), "%+v", all)
		for q := range n {
			position, end := ctx-n+q, ctx-n+q+1
			if p.See.NonCausal {
				end = ctx
			}
			if p.views != nil {
				position, end = int(p.views[2*(first+q)]), int(p.views[2*(first+q)+1])
			}
			for key := range ctx {
				sees := naiveView(v, position, end, key)
				draft := p.treeWords > 0 && v.Part != backend.OlderKeys && key >= ctx-n && key-max(ctx-n, 0) < 32*p.treeWords
				require.False(r, q >= q0 && q < q1 && (sees || draft) && !all.Has(key), "%+v: query %d and key %d of %+v", p, q, key, all)
				if key < common && v.Window == 0 && v.Chunk == 0 && v.Part != backend.ResidualKeys {
					require.True(r, sees, "%+v: query %d and key %d of %d", p, q, key, common)
				}
				if p.treeWords > 0 {
					require.False(r, key < common && key >= ctx-n, "a draft is in common")
				}
			}
		}
	})
}

// A plan serves its own chunks, and those of any size if it has neither chunks nor a window.
func TestPlansForChunks(t *testing.T) {
	of := func(window, sinks, chunk int) Visibility {
		return visible(false, window, sinks, chunk, backend.AllKeys, 0, 0)
	}
	within := func(call, planned Visibility) error {
		words := planned.Words()
		return call.Within(words[:])
	}
	require.NoError(t, within(of(0, 0, 8), of(0, 0, 8)))
	require.NoError(t, within(of(0, 0, 8), of(0, 0, 0)))
	require.NoError(t, within(of(5, 2, 0), of(8, 2, 0)))
	for want, c := range map[string][2]Visibility{
		"chunks of 9, the plan was made for chunks of 8":                            {of(0, 0, 9), of(0, 0, 8)},
		"chunks of 0, the plan was made for chunks of 8":                            {of(0, 0, 0), of(0, 0, 8)},
		"window 0 and 0 sink tokens, the plan was made for 8":                       {of(0, 0, 8), of(8, 0, 0)},
		"chunks of 0, the plan was made for chunks of 5":                            {of(4, 1, 0), of(0, 0, 5)},
		"part 1 by 4 recent tokens in blocks of 2, the plan was made for 0 by 0 in": {visible(false, 0, 0, 8, backend.OlderKeys, 4, 2), of(0, 0, 8)},
	} {
		require.ErrorContains(t, within(c[0], c[1]), want)
	}
}
