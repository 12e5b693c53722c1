package tiertest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

func checkInfo(r *rig) {
	in := r.tier()
	info := in.Info()
	require.NotEmpty(r.t, info.Name)
	require.NotEmpty(r.t, info.Medium)
	require.True(r.t, info.Largest == 0 || info.Largest >= payload, "opened for payloads of %d bytes, takes %d", payload, info.Largest)
	put(r.t, in, Chain("info", "a", 2, payload))
	require.NoError(r.t, in.Close())
	require.Equal(r.t, info, in.Info(), "Info does not change")
}

// Lists are worth what their beginning is.
func checkPrefix(r *rig) {
	in := r.tier()
	a, b := Chain("prefix", "a", 6, payload), Chain("prefix", "b", 3, payload)
	holds(r.t, in, a, 0)
	put(r.t, in, a[:4])
	holds(r.t, in, a, 4)
	holds(r.t, in, a[:2], 2)
	holds(r.t, in, nil, 0)
	holds(r.t, in, b, 0)
	holds(r.t, in, slices.Concat(b[:1], a), 0)
	holds(r.t, in, slices.Concat(a[:2], b[:1], a[2:4]), 2)
	holds(r.t, in, slices.Concat(a[2:4], a[:1], a[:1], b), 4) // a key may be anywhere in a list, and twice
	holds(r.t, in, []tier.Block{{}}, 0)
	put(r.t, in, b[:1])
	holds(r.t, in, slices.Concat(a[:2], b[:1], a[2:4], b), 6)

	// Blocks that are not asked for are not written.
	dst := buffers(keys(a[:3]), payload)
	n, err := in.Get(ctx, dst[:2])
	require.NoError(r.t, err)
	require.Equal(r.t, 2, n)
	require.NoError(r.t, verify(dst[:2]))
	require.Equal(r.t, buffers(keys(a[2:3]), payload)[0], dst[2])
}

// A payload of another length is a miss, from there on.
func checkLengths(r *rig) {
	in := r.tier()
	a := Chain("lengths", "a", 4, payload)
	put(r.t, in, a)
	for _, other := range []int{0, 1, payload - 1, payload + 1, 2 * payload} {
		require.Zero(r.t, get(r.t, in, keys(a), other), "%d bytes of %d", other, payload)
		dst := buffers(keys(a), payload)
		dst[2].Bytes = make([]byte, other)
		n, err := in.Get(ctx, dst)
		require.NoError(r.t, err)
		require.Equal(r.t, 2, n, "the third has %d bytes of %d", other, payload)
		require.NoError(r.t, verify(dst[:2]))
	}
	n, err := in.Get(ctx, []tier.Block{{Key: a[0].Key}})
	require.NoError(r.t, err)
	require.Zero(r.t, n)
	holds(r.t, in, a, 4)

	// Lengths may differ from block to block. A tier that has one size only may decline the others.
	for _, size := range []int{1, 7, payload / 2, payload - 1} {
		b := Chain("lengths", "b", 2, size)
		for i := range b {
			b[i].Key[0] ^= byte(size) // another block for each size
			fill(&b[i], size)
		}
		require.NoError(r.t, in.Put(ctx, b))
		there := has(r.t, in, keys(b))
		require.Equal(r.t, there, get(r.t, in, keys(b), size), "%d bytes", size)
		require.Zero(r.t, get(r.t, in, keys(b), payload), "%d bytes", size)
	}
}
