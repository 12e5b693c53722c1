package tiertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Calls of many goroutines for the same keys, in a tier that has room for half of them: content is never mixed, and the
// capacity holds at each moment. Under the race detector this finds more.
func checkConcurrent(r *rig) {
	const chains, goroutines, rounds = 8, 6, 150
	o := Options{Bytes: room * (payload + 95), Payload: payload, Dir: r.dir()}
	in := r.with(o)
	var all []tier.Block
	for i := range chains {
		all = append(all, Chain(fmt.Sprint("concurrent", i%2), fmt.Sprint(i), room/4, payload)...)
	}
	var wg sync.WaitGroup
	failures := make(chan error, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			blocks := slices.Clone(all)
			for i := range blocks {
				blocks[i].Bytes = make([]byte, payload) // of this goroutine, used again and again
			}
			for range rounds {
				if err := anyCall(rng, in, blocks); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		require.NoError(r.t, err)
	}
	bounded(r.t, in, o, all)
	for i := range all {
		if n := has(r.t, in, keys(all[i:])); n > 0 {
			require.Equal(r.t, n, get(r.t, in, keys(all[i:]), payload))
		}
	}
}

// anyCall is a random call; an error says what is wrong with what it did.
func anyCall(rng *rand.Rand, in tier.Tier, blocks []tier.Block) error {
	from := rng.IntN(len(blocks))
	part := blocks[from:min(len(blocks), from+1+rng.IntN(room/4))]
	switch op := rng.IntN(100); {
	case op < 40:
		for i := range part {
			copy(part[i].Bytes, Payload(part[i].Key, payload))
		}
		err := in.Put(ctx, part)
		for i := range part {
			clear(part[i].Bytes) // a tier that kept it, or still reads it, has zeros
		}
		if err != nil {
			return err
		}
	case op < 80:
		dst := buffers(keys(part), payload)
		n, err := in.Get(ctx, dst)
		if err != nil {
			return err
		}
		if err := verify(dst[:n]); err != nil {
			return err
		}
	case op < 90:
		if _, err := in.Has(ctx, keys(part)); err != nil {
			return err
		}
	case op < 97:
		if err := in.Delete(ctx, keys(part[:1])); err != nil {
			return err
		}
	case op < 99:
		if err := in.Clear(ctx, part[0].Root); err != nil {
			return err
		}
	default:
		if err := in.Clear(ctx, tier.Key{}); err != nil {
			return err
		}
	}
	if s := in.Stats(); s.Bytes > s.Capacity || s.Blocks < 0 || s.Bytes < 0 {
		return fmt.Errorf("%d blocks of %d bytes in a capacity of %d", s.Blocks, s.Bytes, s.Capacity)
	}
	return nil
}
