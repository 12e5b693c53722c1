package index_test

import (
	"fmt"
	"math"
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
	for e.Group = range 200_000 { // seconds, were each place compared with all before it
		require.NoError(t, x.Apply("a", e))
	}
	require.Less(t, x.Stats().Stored, uint64(1000))
	require.NotZero(t, x.Stats().Skipped)
	for g := range 200_000 {
		require.NoError(t, x.Apply("a", &kvevents.Removed{Hashes: e.Hashes, Group: g, HasGroup: true}))
	}
	s := x.Stats()
	require.Zero(t, s.Blocks)
	require.Zero(t, s.Keys)
}

// Blocks is a bound of memory: large blocks of an engine count as often as they have blocks of the index.
func TestLargeBlocksCountAsMany(t *testing.T) {
	x := open(t, index.Options{BlockSize: 1, Blocks: 4})
	store := func(h uint64, n uint32) error {
		return x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(h)}, Tokens: count(uint32(h)*100, n), BlockSize: int(n)})
	}
	require.ErrorIs(t, store(1, 5), index.ErrFull{})
	require.NoError(t, store(2, 3))
	require.ErrorIs(t, store(3, 2), index.ErrFull{})
	require.NoError(t, store(4, 1))
	require.NoError(t, x.Apply("a", &kvevents.Removed{Hashes: []kvevents.Hash{hash(2)}}))
	require.NoError(t, store(3, 2))
	require.Equal(t, 3, x.Stats().Keys)
	require.NoError(t, x.Apply("a", &kvevents.Cleared{}))
	require.NoError(t, store(2, 3))
}

// 1,024 owners, each with a system prompt of 100 blocks on three media.
func TestFindWithManyOwners(t *testing.T) {
	x := open(t, index.Options{})
	tokens := count(1, 1600)
	for o := range 1024 {
		e := &kvevents.Stored{BlockSize: 16, Tokens: tokens}
		for i := range uint64(100) {
			e.Hashes = append(e.Hashes, hash(i+1))
		}
		for _, e.Medium = range []string{"CPU", "GPU", "DISK"} {
			require.NoError(t, x.Apply(fmt.Sprintf("10.0.%d.%d:8000", o/256, o%256), e))
		}
	}
	begin := time.Now()
	ms := x.Find(nil, index.Query{Tokens: tokens})
	t.Log(time.Since(begin)) // 11 ms; 1.4 s when owners were looked for among holders
	require.Len(t, ms, 1024)
	require.Equal(t, index.Match{Owner: "10.0.0.0:8000", Tokens: 1600, Score: 100}, ms[0])
}

// A salt belongs to the first block of a prompt, also where its parent is sent as 0.
func TestSaltWithAParentOf0(t *testing.T) {
	x := open(t, index.Options{BlockSize: 1})
	require.NoError(t, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, HasParent: true, Tokens: count(1, 1), BlockSize: 1, CacheSalt: "s"}))
	require.Empty(t, x.Find(nil, index.Query{Tokens: count(1, 1)}))
	requireMatches(t, []index.Match{{"a", 1, 1}}, x.Find(nil, index.Query{Tokens: count(1, 1), Salt: "s"}))
}

// AllBlocksCleared forgets blocks, not of which kind groups are: an engine may have said that once only.
func TestKindsOutliveCleared(t *testing.T) {
	x := open(t, index.Options{BlockSize: 1})
	e := &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 1), BlockSize: 1, HasGroup: true, Group: 1, Kind: "sliding_window"}
	require.NoError(t, x.Apply("a", e))
	e.Kind = ""
	require.NoError(t, x.Apply("a", &kvevents.Cleared{}))
	require.NoError(t, x.Apply("a", e))
	require.Empty(t, x.Find(nil, index.Query{Tokens: count(1, 1)}))
	x.Forget("a")
	require.Zero(t, x.Stats().Owners)
}

// Media that have weights keep them, whatever else publishers name, and whatever the caller does with the map.
func TestWeights(t *testing.T) {
	weights := map[string]float64{"CPU": 0.5, "other": 0.25}
	x := open(t, index.Options{BlockSize: 1, Weights: weights})
	weights["CPU"] = 7
	for i := range 400 {
		require.NoError(t, x.Apply("b", &kvevents.Stored{Hashes: []kvevents.Hash{hash(uint64(i) + 9)}, Tokens: count(7, 1), BlockSize: 1, Medium: fmt.Sprint("medium ", i)}))
	}
	for medium, want := range map[string]float64{"cpu": 0.5, "OTHER": 0.25, "": 1} {
		require.NoError(t, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 1), BlockSize: 1, Medium: medium}))
		requireMatches(t, []index.Match{{"a", 1, want}}, x.Find(nil, index.Query{Tokens: count(1, 1)}))
		x.Forget("a")
	}
	for _, w := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := index.New(index.Options{Weights: map[string]float64{"gpu": w}})
		require.ErrorIs(t, err, index.ErrConfig{})
	}
}

// A salt that is spelled as the adapter's name is a salt: vLLM sends the name first.
func TestSaltNamedAsTheAdapter(t *testing.T) {
	x := open(t, index.Options{BlockSize: 1})
	require.NoError(t, x.Apply("a", &kvevents.Stored{Hashes: []kvevents.Hash{hash(1)}, Tokens: count(1, 1), BlockSize: 1, LoRAName: "x", ExtraKeys: [][]kvevents.Key{{{Text: "x"}, {Text: "x"}}}}))
	require.Empty(t, x.Find(nil, index.Query{Tokens: count(1, 1), LoRAName: "x"}))
	require.Len(t, x.Find(nil, index.Query{Tokens: count(1, 1), LoRAName: "x", Salt: "x"}), 1)
}
