package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Probes ask for memory far ahead, also at its end, where a read would be a fault.
func TestProbesStayInside(t *testing.T) {
	guarded := func() []byte {
		mem, err := unix.Mmap(-1, 0, 5*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(mem)) })
		require.NoError(t, unix.Mprotect(mem[4*page:], unix.PROT_NONE))
		return mem[:4*page]
	}
	from, to := guarded(), guarded()
	fill(from)
	eachProbes(t, func(t *testing.T, p instructions) {
		p.read(from, 4096)
		p.copy(to, from, 4096)
		require.Equal(t, from, to)
		p.read(from[page+1:], 4096)
		p.copy(to[page:], from[page+3:], 4096)
		clear(to)
	})
}
