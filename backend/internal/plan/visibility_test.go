package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestVisible(t *testing.T) {
	require.Equal(t, Visibility{Window: math.MaxUint32, SinkTokens: math.MaxUint32}, visible(false, math.MaxInt, math.MaxInt, 0, 0, 0, 16))
	require.Equal(t, Keys{Hi: 10}, sees(true, 0, 0).Of(10, 3, 0, 1))
	require.Equal(t, Keys{Hi: 8}, sees(false, 0, 0).Of(10, 3, 0, 1))
	require.Equal(t, Keys{Hi: 0}, sees(false, 0, 0).Of(2, 5, 0, 3), "queries before the first token")
	require.Equal(t, Keys{Sinks: 2, Lo: 5, Hi: 8}, sees(false, 3, 2).Of(10, 3, 0, 1))
	require.Equal(t, Keys{Sinks: 5, Lo: 5, Hi: 8}, sees(false, 3, 9).Of(10, 3, 0, 1), "sinks end where the window begins")
	k := Keys{Sinks: 2, Lo: 5, Hi: 8}
	var positions []int
	for i := range k.Count() {
		positions = append(positions, k.At(i))
	}
	require.Equal(t, []int{0, 1, 5, 6, 7}, positions)
	require.Equal(t, 8, k.At(k.Count()))
	for key := range 8 {
		require.Equal(t, slices.Contains(positions, key), k.Has(key))
		require.Equal(t, k.Has(key), k.From(key) == key)
	}
}

// naive is the contract's words on who sees whom: a query at position p, and a key.
func naive(v Visibility, p, key int) bool {
	edge := max(p+1-v.Residual, 0)
	if v.Block > 0 {
		edge = edge / v.Block * v.Block
	}
	return key <= p && (v.Window == 0 || key > p-v.Window || key < v.SinkTokens) &&
		(v.Part != backend.OlderKeys || key < edge) && (v.Part != backend.ResidualKeys || key >= edge)
}

// What queries see together is what one of them sees, to the block; what is in the keys of the first
// and the last is seen by all.
func TestParts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		few := rapid.IntRange(1, 20)
		v := visible(false, rapid.IntRange(0, 25).Draw(r, "window"), rapid.IntRange(0, 25).Draw(r, "sinks"), 0,
			backend.Part(rapid.IntRange(0, 2).Draw(r, "part")), few.Draw(r, "recent"), few.Draw(r, "block"))
		ctx, n := rapid.IntRange(0, 50).Draw(r, "context"), few.Draw(r, "queries")
		q0 := rapid.IntRange(0, n-1).Draw(r, "first")
		q1 := rapid.IntRange(q0+1, n).Draw(r, "last")
		all, both, block := v.Of(ctx, n, q0, q1), v.Of(ctx, n, q0, q0+1).And(v.Of(ctx, n, q1-1, q1)), max(v.Block, 1)
		either, seen := Keys{}, map[int]bool{} // and by blocks
		for q := q0; q < q1; q++ {
			one, end, count := v.Of(ctx, n, q, q+1), 0, 0
			either = either.Or(one)
			for key := range ctx {
				sees := naive(v, ctx-n+q, key)
				require.Equal(r, sees, one.Has(key), "%+v, query %d: %+v, key %d", v, q, one, key)
				require.False(r, sees && !all.Has(key), "%+v and key %d of %+v", v, key, all)
				require.False(r, !sees && both.Has(key), "%+v and key %d of %+v", v, key, both)
				require.False(r, sees && !either.Has(key), "%+v and key %d of %+v", v, key, either)
				if sees {
					end, count, seen[key/block] = key+1, count+1, true
				}
			}
			require.Equal(r, end, one.Hi)
			require.Equal(r, count, one.Count())
		}
		for key := range ctx {
			require.False(r, all.Has(key) && !seen[key/block], "%+v sees nothing of the block of key %d, of %+v", v, key, all)
		}
		positions := 0
		for i := range all.Count() {
			require.True(r, all.Has(all.At(i)))
			require.Equal(r, all.At(i), all.From(positions))
			positions = all.At(i) + 1
		}
		require.GreaterOrEqual(r, all.At(all.Count()), all.Hi)
		require.True(r, slices.IsSorted([]int{all.First, all.Sinks, all.Lo, all.Hi}), "%+v", all)
	})
}

// Numbers that no context has are those that show nothing more.
func TestPartsOfHugeNumbers(t *testing.T) {
	v := visible(false, 0, 0, 0, backend.OlderKeys, math.MaxInt, math.MaxInt)
	require.Equal(t, Visibility{Part: backend.OlderKeys, Residual: math.MaxUint32, Block: math.MaxUint32}, v)
	require.Zero(t, v.Of(math.MaxUint32, 1, 0, 1).Count())
	v.Part = backend.ResidualKeys
	require.Equal(t, Keys{Hi: math.MaxUint32}, v.Of(math.MaxUint32, 1, 0, 1))
}
