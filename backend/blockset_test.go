package backend_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A block that is twice in a list is found, in lists of any length and order.
func TestCheckDistinct(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 2, 3, 255, 256, 257, 300}).Draw(rt, "n")
		blocks := rapid.Permutation(slices.Collect(func(yield func(uint32) bool) {
			for i := range uint32(n) {
				if !yield(i) {
					return
				}
			}
		})).Draw(rt, "blocks")
		before := slices.Clone(blocks)
		require.NoError(rt, backend.CheckDistinct("unpack", blocks))
		require.Equal(rt, before, blocks)
		if n < 2 {
			return
		}
		from := rapid.IntRange(0, n-1).Draw(rt, "from")
		to := (from + rapid.IntRange(1, n-1).Draw(rt, "distance")) % n
		blocks[to] = blocks[from]
		require.ErrorIs(rt, backend.CheckDistinct("unpack", blocks), backend.ErrArgument{})
	})
}

// What a cache asks for at once is checked without memory.
func TestCheckDistinctAllocatesNothing(t *testing.T) {
	few, rising := []uint32{5, 1, 9, 0, 3, 8, 2, 7}, make([]uint32, 1000)
	for i := range rising {
		rising[i] = uint32(2 * i)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if backend.CheckDistinct("unpack", few) != nil || backend.CheckDistinct("unpack", rising) != nil {
			t.Fail()
		}
	}))
}

// ends is host memory that is only looked at.
type ends struct{ backend.HostMemory }

func (ends) Bytes() []byte { return make([]byte, 64) }

// Blocks of no bytes, and of more than there are, are refused.
func TestCheckBlocksOfAnySize(t *testing.T) {
	require.NoError(t, backend.CheckBlocks("pack", []uint32{0, 1}, 2, 32, ends{}, 0))
	for _, n := range []int64{0, -1, math.MinInt64, math.MaxInt64, 33} {
		require.ErrorIs(t, backend.CheckBlocks("pack", []uint32{0, 1}, 2, n, ends{}, 0), backend.ErrArgument{})
	}
}
