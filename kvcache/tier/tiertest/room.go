package tiertest

import (
	"fmt"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A tier gives up blocks for others, and never has more than its capacity.
func checkRoom(r *rig) {
	o := Options{Bytes: room * (payload + 95), Payload: payload, Dir: r.dir()}
	in := r.with(o)
	var all []tier.Block
	for i := range 3 * room / 4 {
		a := Chain("room", fmt.Sprint(i), 4, payload)
		all = append(all, a...)
		put(r.t, in, a) // 4 blocks have room, whatever else is there
		holds(r.t, in, a, 4)
		bounded(r.t, in, o, all)
	}
	s := in.Stats()
	require.GreaterOrEqual(r.t, s.Blocks, s.Capacity/2/payload, "half of the room is not used")
	require.Positive(r.t, s.Evicted)

	// Nobody read the blocks of the last calls, and all of those before were read.
	used := s.NeverUsed
	for i := range room {
		require.NoError(r.t, in.Put(ctx, Chain("room of others", fmt.Sprint(i), 4, payload)))
	}
	require.Greater(r.t, in.Stats().NeverUsed, used)
	require.NoError(r.t, in.Clear(ctx, tier.Key{}))
	bounded(r.t, in, o, all)
	require.Zero(r.t, in.Stats().Blocks)
}

// bounded checks the books of a tier at rest against what can be found in it.
func bounded(t require.TestingT, in tier.Tier, o Options, all []tier.Block) {
	s := in.Stats()
	require.True(t, o.Bytes/4 <= s.Capacity && s.Capacity <= o.Bytes, "a capacity of %d for a budget of %d", s.Capacity, o.Bytes)
	require.LessOrEqual(t, s.Bytes, s.Capacity)
	require.LessOrEqual(t, s.NeverUsed, s.Evicted)
	if in.Info().Shared {
		return // others may put and give up blocks at the same time
	}
	var blocks, bytes int64
	for i := range all {
		if has(t, in, []tier.Key{all[i].Key}) == 1 {
			blocks++
			bytes += int64(len(all[i].Bytes))
		}
	}
	require.LessOrEqual(t, bytes, o.Bytes, "bytes that can be found, of a budget of %d", o.Bytes)
	require.Equal(t, blocks, s.Blocks, "blocks that can be found")
	require.Equal(t, bytes, s.Bytes, "bytes that can be found")
}

// Children are given up before their parents, whichever were read: what is left of a sequence is its beginning.
func checkOrder(r *rig) {
	in := r.tier()
	if in.Info().Shared {
		return // the store gives up what it likes
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var chains [][]tier.Block
	for i := range 12 {
		chains = append(chains, Chain("order", fmt.Sprint(i), 2+rng.IntN(room/2), payload))
	}
	chains = append(chains, Chain("order", "long", 2*room, payload)) // more than there is room for
	for range 100 {
		c := chains[rng.IntN(len(chains))]
		switch rng.IntN(3) {
		case 0:
			get(r.t, in, keys(c), payload)
		case 1:
			get(r.t, in, keys(c[:1+rng.IntN(len(c))]), payload)
		default:
			// As a sequence that grows: each call goes on where those before ended, if that is still there.
			n := has(r.t, in, keys(c))
			require.NoError(r.t, in.Put(ctx, c[:min(len(c), n+1+rng.IntN(6))]))
		}
		for _, c := range chains {
			n := has(r.t, in, keys(c))
			for i := n; i < len(c); i++ {
				require.Zero(r.t, has(r.t, in, keys(c[i:i+1])), "block %d is there, and its ancestor %d is not", i, n)
			}
		}
	}
	require.NoError(r.t, in.Clear(ctx, tier.Key{}))
	long := chains[len(chains)-1]
	require.NoError(r.t, in.Put(ctx, long))
	require.GreaterOrEqual(r.t, has(r.t, in, keys(long)), room/2, "of a sequence longer than the tier its beginning is kept")
}
