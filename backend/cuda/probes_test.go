//go:build linux && cgo && !nocuda

package cuda

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/internal/bench"
)

// What an iteration of x_probe_wide has: operations of a block, and what is added to each of the 128 sums of a thread.
const (
	wideFlops = 2 * 4 * 2 * 64 * 256 * 16
	wideSum   = 4 * 16
)

var matrixTypes = []backend.DType{backend.F16, backend.BF16}

// moreLimits are the probes of kernels/cuda/variants/wide, where the device has them.
func moreLimits(t testing.TB, be *Backend, s *stream) func(memory, out *Buffer) ([]bench.Probe, error) {
	set, err := trialKernels(be, "x_probe_wide_f16", "x_probe_wide_bf16", "x_probe_read")
	require.NoError(t, err)
	if set == nil {
		return nil
	}
	return func(memory, out *Buffer) (all []bench.Probe, err error) {
		iterations, rounds := uint32(1<<12), uint32(8)
		if emulated(be) {
			iterations, rounds = 2, 3
		}
		for _, dt := range matrixTypes {
			l := trial(t, be, set, "x_probe_wide_"+dt.String())
			l.Stream, l.Grid[0], l.Count, l.Buffers[0] = s.cu, uint32(be.ctx.Device.Units), 1, driver.Ptr(out.Place().At)
			l.Size = uint32(len(binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(l.Args[:0], 8), iterations)))
			all = append(all, bench.Probe{Name: "matrix-wide-" + dt.String(), Type: dt, Flops: float64(l.Grid[0]) * float64(iterations) * wideFlops,
				Enqueue: func() error { return be.ctx.Launch(l) }})
		}
		l := trial(t, be, set, "x_probe_read")
		blocks, err := be.ctx.Occupancy(l.Func, int(l.Block), int(l.Shared))
		if err != nil {
			return nil, err
		}
		l.Stream, l.Grid[0], l.Count = s.cu, uint32(blocks*be.ctx.Device.Units), 2
		l.Buffers[0], l.Buffers[1] = driver.Ptr(memory.Place().At), driver.Ptr(out.Place().At)
		args := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(l.Args[:0], 16), rounds)
		l.Size = uint32(len(binary.NativeEndian.AppendUint64(args, uint64(memory.Bytes()))))
		return append(all, bench.Probe{Name: "read-long", Bytes: float64(memory.Bytes()) * float64(rounds), Enqueue: func() error { return be.ctx.Launch(l) }}), nil
	}
}

// The probes do all that they are timed for: sums of products of ones, and of every word of memory.
func TestProbesOfWarpgroups(t *testing.T) {
	be := open(t)
	own, err := be.NewStream()
	require.NoError(t, err)
	probes := moreLimits(t, be, own.(*stream))
	if probes == nil {
		t.Skip("the device has no instructions of 9.0a, or FERRUM_PACK names no pack")
	}
	const words = 3*1000*4 + 4
	memory, err := be.Alloc(backend.U32, words)
	require.NoError(t, err)
	out, err := be.Alloc(backend.F32, 1)
	require.NoError(t, err)
	require.NoError(t, be.Fill(own, memory, 0, words, 7))
	all, err := probes(memory, out)
	require.NoError(t, err)
	require.Len(t, all, 3)
	value := func(p bench.Probe) uint32 {
		require.NoError(t, be.Fill(own, out, 0, 1, 0))
		require.NoError(t, p.Enqueue())
		raw := make([]byte, 4)
		require.NoError(t, be.Download(own, raw, out, 0))
		return binary.NativeEndian.Uint32(raw)
	}
	for _, p := range all[:2] {
		iterations := p.Flops / float64(be.ctx.Device.Units) / wideFlops
		require.Equal(t, float32(128*wideSum*iterations), math.Float32frombits(value(p)), p.Name)
	}
	require.Equal(t, uint32(7*all[2].Bytes/4), value(all[2]), all[2].Name)
	require.NoError(t, be.Free(memory))
	require.NoError(t, be.Free(out))
	require.NoError(t, own.Close())
}
