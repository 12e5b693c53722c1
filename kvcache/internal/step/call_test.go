package step

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// A path takes the place of the one before it, however often somebody changes his mind, beside those of other trees.
func TestAcceptAgain(t *testing.T) {
	var b Set[backend.AnyBuffer]
	b.Steps = []Step[backend.AnyBuffer]{{entries: make([]entry[backend.AnyBuffer], 3)}}
	b.parents = []int{-1, 0, -1, -1, 0}
	b.calls.calls = []call{{entry: 0, tokens: 3, tree: 1}, {entry: 1, tokens: 7}, {entry: 2, at: 4, tokens: 2, tree: 4}}
	for range 50 {
		for _, path := range [][]int{{0, 1}, {}, {2}, {0}} {
			require.NoError(t, b.Accept(0, path))
			require.Error(t, b.Accept(0, []int{1}))
			require.NoError(t, b.Accept(2, []int{0, 1}))
			nodes, at, ok := b.Path(0)
			require.True(t, ok)
			require.Zero(t, at)
			require.Equal(t, path, nodes)
			require.Equal(t, 3-len(path), b.Steps[0].entries[0].left)
			nodes, at, ok = b.Path(2)
			require.True(t, ok)
			require.Equal(t, 4, at)
			require.Equal(t, []int{0, 1}, nodes)
		}
	}
	require.Len(t, b.paths, len(b.parents), "no more than there are nodes")
	_, _, ok := b.Path(1)
	require.False(t, ok)
	require.Error(t, b.Accept(1, nil))
}
