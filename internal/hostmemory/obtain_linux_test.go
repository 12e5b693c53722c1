//go:build !race

package hostmemory

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Large memory begins with a huge page, is zero and writable to its last byte, and Discard
// unmaps it and nothing else.
func TestLargeMemoryIsAlignedToHugePages(t *testing.T) {
	for _, n := range []int{1, hugePage - 1, hugePage, hugePage + 1, 5*hugePage + 4097} {
		neighbour, err := Obtain(hugePage)
		require.NoError(t, err)
		b, err := Obtain(n)
		require.NoError(t, err)
		if n >= hugePage {
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%hugePage)
		}
		require.Zero(t, len(bytes.Trim(b, "\x00")))
		for i := range b {
			b[i] = 1
		}
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		require.Equal(t, pages(n), mapped(t, begin, begin+pages(n)))
		require.NoError(t, Discard(b))
		require.Zero(t, mapped(t, begin, begin+pages(n)), "%d bytes", n)
		neighbour[0], neighbour[hugePage-1] = 1, 1
		require.NoError(t, Discard(neighbour))
	}
}

// mapped is how many bytes of [begin, end) the process has.
func mapped(t *testing.T, begin, end uintptr) (sum uintptr) {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		var lo, hi uintptr
		_, err := fmt.Sscanf(line, "%x-%x", &lo, &hi)
		require.NoError(t, err)
		if lo, hi = max(lo, begin), min(hi, end); lo < hi {
			sum += hi - lo
		}
	}
	return sum
}
