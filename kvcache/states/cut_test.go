package states

import (
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// cuts are the chunks of a snapshot.
func (s sizes) cuts(b []byte) (out [][]byte) {
	for len(b) > 0 {
		n := s.cut(b)
		out, b = append(out, b[:n]), b[n:]
	}
	return out
}

// Chunks have their sizes, and are what they were cut from.
func TestCutSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := noise(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 20_000).Draw(t, "bytes"))
		clear(b[len(b)/2 : len(b)/2+rapid.IntRange(0, len(b)/2).Draw(t, "zeros")]) // which have no end
		chunks := small.cuts(b)
		for i, c := range chunks {
			require.LessOrEqual(t, len(c), small.max)
			require.True(t, len(c) > small.min || i == len(chunks)-1)
			require.NotEmpty(t, c)
		}
		require.Equal(t, b, append([]byte{}, slices.Concat(chunks...)...))
	})
}

// Of bytes without a pattern chunks have the mean size that is said.
func TestCutMean(t *testing.T) {
	const total, by = 4 << 20, 16 // smaller than the usual ones by that
	n := len(sizes{usual.min / by, usual.mean / by, usual.max / by}.cuts(noise(1, total)))
	require.InDelta(t, total*by/usual.mean, n, 60)
}

// Behind what was inserted, removed or changed chunks are the same again, soon.
func TestCutFindsAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := noise(rapid.Uint64().Draw(t, "seed"), 40_000)
		at := rapid.IntRange(0, len(b)).Draw(t, "at")
		gone := min(rapid.IntRange(0, 300).Draw(t, "gone"), len(b)-at)
		changed := slices.Concat(b[:at], noise(7, rapid.IntRange(0, 300).Draw(t, "new")), b[at+gone:])
		known := map[sum]bool{}
		for _, c := range small.cuts(b) {
			known[sha256.Sum256(c)] = true
		}
		fresh := 0
		for _, c := range small.cuts(changed) {
			if !known[sha256.Sum256(c)] {
				fresh += len(c)
			}
		}
		require.Less(t, fresh, 16*small.mean)
	})
}

// What is on disks was cut at these places: with others none of it would be shared again.
func TestCutNeverChanges(t *testing.T) {
	var at []int
	for _, c := range small.cuts(noise(1, 3000)) {
		at = append(at, len(c))
	}
	require.Equal(t, []int{849, 295, 230, 290, 220, 131, 284, 159, 138, 207, 134, 63}, at)
	require.Equal(t, uint64(0xe220a8397b1dcdaf), gear[0]) // the first of SplitMix64 from 0
}
