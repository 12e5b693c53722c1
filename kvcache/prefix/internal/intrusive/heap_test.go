package intrusive

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A heap in any order of coming and going.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		due, place := map[int]int{}, make([]int32, 64)
		h := NewHeap(
			func(a, b int) bool { return due[a] < due[b] || due[a] == due[b] && a < b },
			func(e int) *int32 { return &place[e] },
		)
		in := map[int]bool{}
		for range 200 {
			e := rapid.IntRange(0, 63).Draw(t, "element")
			if rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				h.Remove(e)
				delete(in, e)
			} else {
				due[e] = rapid.IntRange(0, 20).Draw(t, "due")
				h.Put(e)
				in[e] = true
			}
			require.Len(t, h.items, len(in))
			require.Equal(t, in[e], h.Has(e))
			for i, e := range h.items {
				require.Equal(t, i+1, int(place[e]))
				require.False(t, i > 0 && h.before(e, h.items[(i-1)/2]))
			}
		}
	})
}
