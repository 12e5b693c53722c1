package index_test

import (
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/stretchr/testify/require"
)

// A block size that overflows, times the number of hashes, to the number of tokens.
func TestBlockSizeThatOverflows(t *testing.T) {
	x := open(t, index.Options{})
	e := &kvevents.Stored{Hashes: make([]kvevents.Hash, 16), Tokens: count(1, 256), BlockSize: 1<<60 + 16}
	require.NoError(t, x.Apply("a", e))
	require.Equal(t, index.Stats{Owners: 1, Skipped: 16}, x.Stats())
}

// A publisher that stores one block in ever more groups and on ever more media.
func TestPlacesOfABlockAreBounded(t *testing.T) {
	x := open(t, index.Options{BlockSize: 1})
	e := &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 1), BlockSize: 1, HasGroup: true}
	begin := time.Now()
	for e.Group = range 200_000 {
		require.NoError(t, x.Apply("a", e))
	}
	require.Less(t, time.Since(begin), 5*time.Second)
	require.Less(t, x.Stats().Stored, uint64(1000))
	require.NotZero(t, x.Stats().Skipped)
	for g := range 200_000 {
		require.NoError(t, x.Apply("a", &kvevents.Removed{Hashes: e.Hashes, Group: g, HasGroup: true}))
	}
	s := x.Stats()
	require.Zero(t, s.Blocks)
	require.Zero(t, s.Keys)
}
