//go:build !race

package cpu

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A large buffer begins with a huge page, is zero and writable to its last byte, and Free
// unmaps it and nothing else.
func TestLargeBuffersAreAlignedToHugePages(t *testing.T) {
	be, _ := open(t, 1)
	for _, n := range []int{1, hugePage - 1, hugePage, hugePage + 1, 5*hugePage + 4097} {
		neighbour, err := be.Alloc(backend.Int8, hugePage)
		require.NoError(t, err)
		b, err := be.Alloc(backend.Int8, n)
		require.NoError(t, err)
		if n >= hugePage {
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))%hugePage)
		}
		require.Zero(t, len(bytes.Trim(b.mem, "\x00")))
		for i := range b.mem {
			b.mem[i] = 1
		}
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))
		require.Equal(t, pages(n), mapped(t, begin, begin+pages(n)))
		require.NoError(t, be.Free(b))
		require.Zero(t, mapped(t, begin, begin+pages(n)), "%d bytes", n)
		neighbour.mem[0], neighbour.mem[hugePage-1] = 1, 1
		require.NoError(t, be.Free(neighbour))
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
