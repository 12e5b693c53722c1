package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the README says of how large a pool is holds.
func TestReadmeSaysHowLargeAPoolIs(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	readme := strings.Join(strings.Fields(string(text)), " ")
	says := func(sentence string) { require.Contains(t, readme, sentence) }
	unset := Config{Model: Model{Layers: 2, KVHeads: 2, HeadDim: 64}, Memory: Memory{Layout: Paged}}
	whole, err := unset.Resolve()
	require.NoError(t, err)

	says("`Memory.Capacity` (4096 tokens) and `Memory.MaxSeqs` (8 sequences) decide how much memory the pool takes")
	require.Equal(t, 4096, whole.Memory.Capacity)
	require.Equal(t, 8, whole.Memory.MaxSeqs)
	require.Equal(t, 8*4096, whole.Memory.Blocks*whole.Memory.BlockSize)
	all, err := unset.Bytes()
	require.NoError(t, err)

	says("Where neither `MaxSeqs` nor `Blocks` is set, a paged pool takes at most nine tenths of the device's free memory")
	for _, free := range []int64{all, all / 2, all / 7, all/9*10 + 10} {
		got, err := unset.Within(free)
		require.NoError(t, err)
		bytes, err := got.Bytes()
		require.NoError(t, err)
		require.LessOrEqual(t, bytes, free-free/10)
		require.Greater(t, bytes, min(all, free-free/10)*99/100, "and not much less")
	}
	set := unset
	set.Memory.MaxSeqs = 8
	got, err := set.Within(all / 2)
	require.NoError(t, err)
	require.Equal(t, whole.Memory.Blocks, got.Memory.Blocks)

	says("but never less than one sequence of `Capacity` needs (`Config.Within`)")
	got, err = unset.Within(1)
	require.NoError(t, err)
	require.Equal(t, 4096, got.Memory.Blocks*got.Memory.BlockSize)

	says("`Config.BlocksFor(bytes)` is the `Blocks` of a budget")
	set = unset
	set.Memory.Blocks, err = unset.BlocksFor(all / 3)
	require.NoError(t, err)
	bytes, err := set.Bytes()
	require.NoError(t, err)
	require.LessOrEqual(t, bytes, all/3)
	set.Memory.Blocks++
	bytes, err = set.Bytes()
	require.NoError(t, err)
	require.Greater(t, bytes, all/3)
}
