package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// No ghost is forgotten before its time, whatever its hash: what a policy learns must
// not depend on the process's seed.
func TestGhostsAreAllKnown(t *testing.T) {
	const limit = 500
	random := rand.New(rand.NewPCG(1, 2))
	var g ghostCells
	g.init(limit)
	known, order := map[uint64]uint32{}, make([]uint64, 0, limit) // the ring, by place; 0: gone
	forget := func(hash uint64) {
		for i := range order {
			if order[i] == hash {
				order[i] = 0
			}
		}
		delete(known, hash)
	}
	next := 0
	for i := range 20_000 {
		hash := 1 + random.Uint64N(2000)<<random.IntN(2)<<40 // many have the same low bits
		if i%3 == 0 {
			_, uses, there := g.take(hash)
			want, has := known[hash]
			require.Equal(t, []any{want, has}, []any{uses, there})
			forget(hash)
		} else {
			g.take(hash) // it was in the tree since
			g.add(hash, uint8(i%cells), uint32(i), uint64(i))
			forget(hash)
			if len(order) < limit {
				next = len(order)
				order = append(order, 0)
			} else {
				next = (next + 1) % limit
				delete(known, order[next])
			}
			order[next], known[hash] = hash, uint32(i)
		}
		require.Equal(t, len(known), g.live)
	}
}
