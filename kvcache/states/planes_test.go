package states

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A state as engines have it is a plane of K and one of V for each layer, and a turn adds to the end of each. Twenty turns, all kept, take
// this many times what the last one has, by what a turn adds to a plane. docs/states.md has the same of a real engine.
func TestSharedPlanes(t *testing.T) {
	const turns = 20
	for name, c := range map[string]struct {
		sizes        sizes
		planes, adds int
		most         float64
	}{
		"six chunks": {small, 16, 6 * small.mean, 1.35}, "three chunks": {small, 16, 3 * small.mean, 1.7}, "a chunk": {small, 16, small.mean, 3},
		"100 tokens of 1024 f16": {usual, 4, 100 * 1024 * 2, 1.3},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir()+"/d", Options{disk: &quick, sizes: &c.sizes, Network: true, Bytes: 1 << 30})
			require.NoError(t, err)
			all, last := make([][]byte, c.planes), 0
			for turn := range turns {
				for i := range all {
					all[i] = append(all[i], noise(uint64(turn*c.planes+i), c.adds)...)
				}
				b := bytes.Join(all, nil)
				last = len(b)
				put(t, s, Key{Identity: llama, Tokens: tokens(1, 100*(turn+1))}, b)
			}
			is := s.Stats()
			times, disk := float64(is.Written)/float64(last), float64(is.Bytes)/float64(last)
			t.Logf("a turn adds %.1f mean chunks to a plane: %.2f, %.2f on the disk", float64(c.adds)/float64(c.sizes.mean), times, disk)
			require.Less(t, times, c.most, fmt.Sprint(c.sizes))
			require.NoError(t, s.Close())
		})
	}
}
