//go:build linux && cgo && !nocuda

package cuda

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/internal/standin"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

// trialKernels are kernels of kernels/cuda/variants/wide that no operation has: the stand-in's, or those of the pack that
// FERRUM_PACK names; nil where there are none for the device.
func trialKernels(be *Backend, symbols ...string) (*cudakernels.Set, error) {
	if be.ctx.Device.Major != 9 || be.ctx.Device.Minor != 0 {
		return nil, nil
	}
	c, ok := standin.Open()
	if !ok {
		path := os.Getenv(packVariable)
		if path == "" {
			return nil, nil
		}
		return cudakernels.Open(os.DirFS(filepath.Join(filepath.Dir(path), "variants", "wide")))
	}
	as := map[string]string{}
	for _, have := range c.Kernels() {
		if name, _, _ := strings.Cut(have, "@"); slices.Contains(symbols, name) {
			as[name] = have
		}
	}
	files, err := c.Files(as)
	if err != nil {
		return nil, err
	}
	return cudakernels.Open(files)
}

// trial is a launch of a kernel of a set.
func trial(t testing.TB, be *Backend, set *cudakernels.Set, symbol string) *driver.Launch {
	entry, ok := set.Find(symbol)
	require.True(t, ok, symbol)
	image, err := set.Image(entry.Family)
	require.NoError(t, err)
	module, err := be.ctx.LoadModule(image)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.ctx.UnloadModule(module)) })
	f, err := be.ctx.Function(module, symbol)
	require.NoError(t, err)
	if entry.Shared > freeShared {
		require.NoError(t, be.ctx.AllowShared(f, entry.Shared))
	}
	return &driver.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: uint32(entry.Threads), Shared: uint32(entry.Shared)}
}

// uploaded is a buffer with integers.
func uploaded(t testing.TB, be *Backend, s backend.Stream, dt backend.DType, values []int) *Buffer {
	raw := make([]byte, 2*len(values))
	for i, v := range values {
		bits := math.Float32bits(float32(v))
		if dt == backend.F16 {
			bits = uint32(quant.F16(float32(v))) << 16
		}
		binary.LittleEndian.PutUint16(raw[2*i:], uint16(bits>>16))
	}
	b, err := be.Alloc(dt, len(values))
	require.NoError(t, err)
	require.NoError(t, be.Upload(s, b, 0, raw))
	t.Cleanup(func() { require.NoError(t, be.Free(b)) })
	return b
}

// Each form of product that the kernels of warpgroups have is what the CPU computes, bit for bit.
func TestDescriptors(t *testing.T) {
	be := open(t)
	set, err := trialKernels(be, "x_descriptors_f16", "x_descriptors_bf16")
	require.NoError(t, err)
	if set == nil {
		t.Skip("the device has no instructions of 9.0a, or FERRUM_PACK names no pack")
	}
	own, err := be.NewStream()
	require.NoError(t, err)
	const rows, keys, dim = 64, 128, 128
	small := func(n, seed int) (out []int) {
		for i := range n {
			out = append(out, (i*seed+i/dim*3)%9-4)
		}
		return out
	}
	a, b := small(rows*dim, 5), small(keys*dim, 7)
	product := func(transposed bool) (out []float32) {
		for r := range rows {
			for c := range keys {
				sum := 0
				for k := range dim {
					if transposed {
						sum += a[r*dim+k] * b[c*dim+k]
					} else {
						sum += a[r*dim+k] * b[k*dim+c]
					}
				}
				out = append(out, float32(sum))
			}
		}
		return out
	}
	for _, dt := range []backend.DType{backend.F16, backend.BF16} {
		l := trial(t, be, set, "x_descriptors_"+dt.String())
		abuf, bbuf := uploaded(t, be, own, dt, a), uploaded(t, be, own, dt, b)
		out, err := be.Alloc(backend.F32, 4*rows*keys)
		require.NoError(t, err)
		require.NoError(t, be.Fill(own, out, 0, out.Len(), math.NaN()))
		l.Stream, l.Count = own.(*stream).cu, 3
		for i, buf := range []*Buffer{abuf, bbuf, out} {
			l.Buffers[i] = driver.Ptr(buf.Place().At)
		}
		l.Mapped = 2
		for i := range l.Mapped {
			l.Maps[i], err = be.ctx.EncodeMap(l.Buffers[1], keys, dim, dt == backend.BF16)
			require.NoError(t, err)
		}
		require.NoError(t, be.ctx.Launch(l))
		raw := make([]byte, out.Bytes())
		require.NoError(t, be.Download(own, raw, out, 0))
		got := backendtest.Floats(backend.F32, raw)
		for i, form := range []string{"keys stored by threads", "keys by boxes", "values, rows in registers", "values, rows in shared memory"} {
			require.Equal(t, product(i < 2), got[i*rows*keys:][:rows*keys], "%v: %s", dt, form)
		}
		require.NoError(t, be.Free(out))
	}
	require.NoError(t, own.Close())
}
