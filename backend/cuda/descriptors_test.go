//go:build linux && cgo && !nocuda

package cuda

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	for _, symbol := range symbols {
		as[symbol] = symbol + "@wide"
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

// form is a product of the kernel x_descriptors, of a's first columns with a matrix that the elements of b are.
type form struct {
	name           string
	columns, depth int
	transposed     bool // b is [columns, depth], else [depth, columns]
}

// formsOfProducts are those that the kernels of warpgroups have, in the order in which x_descriptors writes them.
var formsOfProducts = []form{
	{"keys stored by threads", 128, 128, true},
	{"keys by boxes", 128, 128, true},
	{"64 keys", 64, 128, true},
	{"values, rows in registers", 128, 128, false},
	{"values, rows in shared memory", 128, 128, false},
	{"values of 256 elements, rows in registers", 256, 64, false},
	{"values of 256 elements, rows in shared memory", 256, 64, false},
}

// products are of small integers, whose sums are exact: in each form as the device computes them, and as the CPU does.
func products(t *testing.T, be *Backend, s *stream, set *cudakernels.Set, dt backend.DType) (got, want [][]float32) {
	const rows, keys, dim = 64, 128, 128
	small := func(n, seed int) (out []int) {
		for i := range n {
			out = append(out, (i*seed+i/dim*3)%9-4)
		}
		return out
	}
	a, b := small(rows*dim, 5), small(keys*dim, 7)
	total := 0
	for _, f := range formsOfProducts {
		var sums []float32
		for r := range rows {
			for c := range f.columns {
				sum := 0
				for k := range f.depth {
					if f.transposed {
						sum += a[r*dim+k] * b[c*f.depth+k]
					} else {
						sum += a[r*dim+k] * b[k*f.columns+c]
					}
				}
				sums = append(sums, float32(sum))
			}
		}
		want, total = append(want, sums), total+len(sums)
	}
	l := trial(t, be, set, "x_descriptors_"+dt.String())
	abuf, bbuf := uploaded(t, be, s, dt, a), uploaded(t, be, s, dt, b)
	out, err := be.Alloc(backend.F32, total)
	require.NoError(t, err)
	require.NoError(t, be.Fill(s, out, 0, total, math.NaN()))
	l.Stream, l.Count = s.cu, 3
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
	require.NoError(t, be.Download(s, raw, out, 0))
	require.NoError(t, be.Free(out))
	rest := backendtest.Floats(backend.F32, raw)
	for _, sums := range want {
		got, rest = append(got, rest[:len(sums)]), rest[len(sums):]
	}
	return got, want
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
	for _, dt := range matrixTypes {
		got, want := products(t, be, own.(*stream), set, dt)
		for i, f := range formsOfProducts {
			require.Equal(t, want[i], got[i], "%v: %s", dt, f.name)
		}
	}
	require.NoError(t, own.Close())
}

// A device that reads shared memory in another way than descriptors are taken to say is found: by groups of rows in each form, by
// columns of elements in each that has several.
func TestWrongDescriptors(t *testing.T) {
	c, ok := standin.Open()
	if !ok {
		t.Skip("descriptors are wrong in the stand-in alone")
	}
	be := open(t)
	own, err := be.NewStream()
	require.NoError(t, err)
	for _, wrong := range []string{"rows", "columns"} {
		files, err := c.Files(map[string]string{"x_descriptors_f16": "trial_" + wrong + "_f16", "x_descriptors_bf16": "trial_" + wrong + "_bf16"})
		require.NoError(t, err)
		set, err := cudakernels.Open(files)
		require.NoError(t, err)
		for _, dt := range matrixTypes {
			got, want := products(t, be, own.(*stream), set, dt)
			for i, f := range formsOfProducts {
				found := !slices.Equal(want[i], got[i])
				require.Equal(t, wrong == "rows" || !f.transposed, found, "%v, %s: %s", dt, wrong, f.name)
			}
		}
	}
	require.NoError(t, own.Close())
}
