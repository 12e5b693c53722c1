package index_test

import (
	"testing"

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
