package states

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A state as engines have it is a plane of K and one of V for each layer, and a turn adds to the end of each. Twenty turns, all kept, take
// this many times what the last one has, by what a turn adds to a plane. docs/states.md has the same of a real engine.
func TestSharedPlanes(t *testing.T) {
	const planes, turns = 16, 20
	for adds, most := range map[int]float64{6 * small.mean: 1.35, 3 * small.mean: 1.7, small.mean: 3} {
		s := open(t, t.TempDir()+"/d", Options{})
		all := make([][]byte, planes)
		last := 0
		for turn := range turns {
			for i := range all {
				all[i] = append(all[i], noise(uint64(turn*planes+i), adds)...)
			}
			b := bytes.Join(all, nil)
			last = len(b)
			k := Key{Identity: llama, Tokens: tokens(1, 100*(turn+1))}
			put(t, s, k, b)
		}
		times := float64(s.Stats().Written) / float64(last)
		t.Logf("a turn adds %.0f mean chunks to a plane: %.2f", float64(adds)/float64(small.mean), times)
		require.Less(t, times, most)
		require.NoError(t, s.Close())
	}
}
