package tiertest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

func checkDelete(r *rig) {
	in := r.tier()
	a, b := Chain("delete", "a", 5, payload), Chain("delete", "b", 2, payload)
	put(r.t, in, a)
	put(r.t, in, b)
	require.NoError(r.t, in.Delete(ctx, nil))
	require.NoError(r.t, in.Delete(ctx, []tier.Key{{}, name("none"), a[2].Key, a[2].Key}))
	holds(r.t, in, a, 2)
	holds(r.t, in, b, 2)
	require.NoError(r.t, in.Delete(ctx, []tier.Key{a[2].Key}))
	require.Equal(r.t, in.Stats().Blocks*payload, in.Stats().Bytes)
	put(r.t, in, a) // again
	holds(r.t, in, a, 5)
	require.NoError(r.t, in.Delete(ctx, keys(slices.Concat(b, a))))
	holds(r.t, in, a, 0)
	holds(r.t, in, b, 0)
	require.Zero(r.t, in.Stats().Blocks)
	require.Zero(r.t, in.Stats().Bytes)
}

func checkClear(r *rig) {
	in := r.tier()
	a, b := Chain("clear", "a", 4, payload), Chain("clear of another", "b", 3, payload)
	a2 := Chain("clear", "a2", 2, payload)
	all := func() {
		put(r.t, in, a)
		put(r.t, in, b)
		put(r.t, in, a2)
	}
	all()
	require.NoError(r.t, in.Clear(ctx, name("none")))
	require.NoError(r.t, in.Clear(ctx, a[1].Key)) // a key of a block is no root
	holds(r.t, in, a, 4)
	require.NoError(r.t, in.Clear(ctx, a[0].Root))
	holds(r.t, in, a, 0)
	for i := range a {
		holds(r.t, in, a[i:], 0)
	}
	holds(r.t, in, a2, 0)
	holds(r.t, in, b, 3)
	require.Equal(r.t, int64(3), in.Stats().Blocks)
	require.NoError(r.t, in.Clear(ctx, a[0].Root))
	all()
	require.NoError(r.t, in.Clear(ctx, tier.Key{}))
	for _, blocks := range [][]tier.Block{a, a2, b} {
		for i := range blocks {
			holds(r.t, in, blocks[i:], 0)
		}
	}
	require.Zero(r.t, in.Stats().Blocks)
	require.Zero(r.t, in.Stats().Bytes)
	all()
	holds(r.t, in, a, 4)
	holds(r.t, in, b, 3)
}

// Counters count what their comments say.
func checkStats(r *rig) {
	in := r.tier()
	a := Chain("stats", "a", 4, payload)
	require.Equal(r.t, tier.Stats{Capacity: in.Stats().Capacity}, in.Stats())
	require.NoError(r.t, in.Put(ctx, a[:3]))
	s := in.Stats()
	require.Equal(r.t, []int64{3, 3 * payload, 3, 3 * payload}, []int64{s.Blocks, s.Bytes, s.Stored, s.Written})
	n, err := in.Has(ctx, keys(a))
	require.NoError(r.t, err)
	require.Equal(r.t, 3, n)
	s = in.Stats()
	require.Equal(r.t, []int64{4, 3, 0}, []int64{s.Queried, s.Hits, s.Read}, "keys, hits and bytes read by Has")
	n, err = in.Get(ctx, buffers(keys(a), payload))
	require.NoError(r.t, err)
	require.Equal(r.t, 3, n)
	s = in.Stats()
	require.Equal(r.t, []int64{8, 6, 3 * payload}, []int64{s.Queried, s.Hits, s.Read}, "keys, hits and bytes read by Has and Get")
	require.Equal(r.t, []int64{0, 0, 0, 0, 0}, []int64{s.Declined, s.Evicted, s.NeverUsed, s.Corrupt, s.Failures})
}
