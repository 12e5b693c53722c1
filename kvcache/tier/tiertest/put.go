package tiertest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// What is there already is not written again.
func checkPut(r *rig) {
	in := r.tier()
	a := Chain("put", "a", 5, payload)
	require.NoError(r.t, in.Put(ctx, nil))
	put(r.t, in, a[:3])
	before := in.Stats()
	put(r.t, in, a[:3])
	after := in.Stats()
	require.Equal(r.t, before.Stored, after.Stored, "blocks that were there are not stored again")
	require.Equal(r.t, before.Written, after.Written, "nor written")
	require.Equal(r.t, before.Blocks, after.Blocks)
	require.Equal(r.t, before.Bytes, after.Bytes)
	put(r.t, in, a) // some there, some not
	require.Equal(r.t, before.Stored+2, in.Stats().Stored)
	holds(r.t, in, a, 5)

	b := Chain("put", "b", 2, payload)
	put(r.t, in, slices.Concat(b, b)) // a block twice in a call
	require.Equal(r.t, before.Blocks+4, in.Stats().Blocks)
	holds(r.t, in, b, 2)

	// A child may be put without its parent: of a window only the last blocks are kept.
	c := Chain("put", "c", 3, payload)
	require.NoError(r.t, in.Put(ctx, c[2:]))
	holds(r.t, in, c[2:], has(r.t, in, keys(c[2:])))
	holds(r.t, in, c, 0)
}

// A tier keeps copies: buffers belong to the caller again when a call returns.
func checkCopies(r *rig) {
	in := r.tier()
	a := Chain("copies", "a", 3, payload)
	put(r.t, in, a)
	for i := range a {
		clear(a[i].Bytes)
	}
	dst := buffers(keys(a), payload)
	for range 2 {
		n, err := in.Get(ctx, dst)
		require.NoError(r.t, err)
		require.Equal(r.t, 3, n)
		require.NoError(r.t, verify(dst))
		for i := range dst {
			clear(dst[i].Bytes)
			dst[i].Sum = 0
		}
	}
	list := keys(a)
	require.Equal(r.t, 3, has(r.t, in, list))
	clear(list)
	clear(a)
	require.Equal(r.t, 3, has(r.t, in, keys(Chain("copies", "a", 3, payload))))
}

// What a tier does not store is not found, and is no error.
func checkDeclined(r *rig) {
	in := r.tier()
	a := Chain("declined", "a", 4, payload)
	large := int(in.Info().Largest) + 1
	if capacity := in.Stats().Capacity; large == 1 && capacity > 0 {
		large = int(capacity) + 1
	}
	bad := []tier.Block{
		{Root: a[0].Root, Bytes: Payload(tier.Key{}, payload)},
		{Key: name("empty"), Root: a[0].Root},
	}
	if large > 1 {
		bad = append(bad, tier.Block{Key: name("large"), Root: a[0].Root, Bytes: Payload(name("large"), large)})
	}
	for i, b := range bad {
		before := in.Stats()
		require.NoError(r.t, in.Put(ctx, []tier.Block{a[i], b, a[i+1]}))
		require.Equal(r.t, before.Declined+1, in.Stats().Declined, "bad block %d", i)
		require.Zero(r.t, has(r.t, in, []tier.Key{b.Key}), "bad block %d is found", i)
		require.Zero(r.t, get(r.t, in, []tier.Key{b.Key}, len(b.Bytes)), "bad block %d is read", i)
		holds(r.t, in, a, i+2) // the others of the call are there
	}
	require.Equal(r.t, int64(len(bad)+1), in.Stats().Blocks)
	require.Equal(r.t, int64(len(bad)+1)*payload, in.Stats().Bytes)
}
