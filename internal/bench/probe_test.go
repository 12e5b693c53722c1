package bench

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// eachProbes runs a test with the probes of each kind of kernels that the processor has.
func eachProbes(t *testing.T, test func(t *testing.T, p instructions)) {
	for _, name := range []string{"avx512", "avx2", "go"} {
		if be, err := cpu.Open(cpu.Options{Threads: 1, Kernels: name}); err == nil {
			require.NoError(t, be.Close())
			t.Run(name, func(t *testing.T) { test(t, instructionsOf(name)) })
		}
	}
}

func TestProbesCopy(t *testing.T) {
	eachProbes(t, func(t *testing.T, p instructions) {
		from, to := make([]byte, 3*page), make([]byte, 5*page)
		fill(from)
		start := 0
		for ; start < page && uintptr(unsafe.Pointer(&to[start]))%page != 0; start++ {
		}
		p.copy(to[start:][:2*page], from[1:][:2*page], 4096)
		require.Equal(t, from[1:][:2*page], to[start:][:2*page])
		require.Zero(t, to[start+2*page], "what lies behind stays")
	})
}

// Nothing is neither read nor written: assembly that took the address of its first byte would
// fault, and one that does a round before it counts would write.
func TestProbesOfNothing(t *testing.T) {
	eachProbes(t, func(t *testing.T, p instructions) {
		from, to := make([]byte, page), make([]byte, page)
		fill(from)
		require.NotPanics(t, func() {
			p.read(nil, 4096)
			p.read(from[:0], 4096)
			p.copy(nil, nil, 4096)
			p.copy(to[:0], from[:0], 4096)
			if p.fma != nil {
				p.fma(0)
			}
		})
		require.Equal(t, make([]byte, page), to)
	})
}

func TestPartsOfMemory(t *testing.T) {
	mem := make([]byte, 10*page)
	for n := range 4 {
		bytes := 0
		for i := range n + 1 {
			p := part(mem, i, n+1)
			require.Zero(t, len(p)%page)
			bytes += len(p)
		}
		require.GreaterOrEqual(t, bytes, len(mem)-page*(n+1))
	}
}
