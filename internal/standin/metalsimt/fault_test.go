//go:build linux && cgo && metalsimt && !nometal && !asan

package metalsimt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// stray is a kernel that writes n words behind the begin of its buffer.
const stray = `#include <metal_stdlib>
using namespace metal;
#line 1 "kernels/metal/stray.metal"
struct Args { uint n; uint pad; };
[[max_total_threads_per_threadgroup(32)]]
kernel void stray(device uint *data [[buffer(0)]], constant Args &args [[buffer(1)]]) {
    data[args.n] = 1;
}
`

// A kernel that leaves its memory loses its queue, by the line of its source, and takes
// neither the process nor Go's own faults with it. (A sanitizer would end the process.)
func TestFaults(t *testing.T) {
	devices, err := mtl.Devices()
	require.NoError(t, err)
	d := devices[0]
	l, err := d.NewLibrary(stray, false)
	require.NoError(t, err)
	p, err := d.NewPipeline(l, "stray", 0, 0)
	require.NoError(t, err)
	b, err := d.NewBuffer(1 << 12)
	require.NoError(t, err)
	q, err := d.NewQueue()
	require.NoError(t, err)
	launch := &mtl.Launch{Pipeline: p.ID, Grid: [3]uint32{1, 1, 1}, Threads: 32, Count: 1, Size: 8}
	launch.Buffers[0] = uintptr(b)
	require.NoError(t, q.Launch(launch))
	require.NoError(t, q.Sync())

	launch.Args[2] = 1 // n: 65536
	require.NoError(t, q.Launch(launch))
	require.ErrorIs(t, q.Sync(), backend.ErrLost)
	require.Contains(t, Report(), "kernel stray")
	require.Contains(t, Report(), "behind the 4096 bytes of an allocation, at kernels/metal/stray.metal:4, nearest is buffer(0)")
	require.Panics(t, func() {
		var none *mtl.Launch
		none.Count++
	})

	q.Close()
	b.Release()
	p.Release()
	l.Release()
	for _, d := range devices {
		d.Release()
	}
}
