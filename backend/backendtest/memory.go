package backendtest

import (
	"errors"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func memoryChecks[B backend.Buffer]() []check[B] {
	var out []check[B]
	for dt := backend.Invalid + 1; dt < backend.NumDTypes; dt++ {
		out = append(out,
			check[B]{"upload and download " + dt.String(), func(r *rig[B]) { checkTransfer(r, dt) }},
			check[B]{"copy " + dt.String(), func(r *rig[B]) { checkCopy(r, dt) }})
	}
	for _, c := range fillCases() {
		out = append(out, check[B]{fmt.Sprintf("fill %s with %v", c.dt, c.value), func(r *rig[B]) { checkFill(r, c) }})
	}
	return append(out,
		check[B]{"buffers know their size", checkSizes[B]},
		check[B]{"buffers are counted", checkCounts[B]},
		check[B]{"out of memory", checkOutOfMemory[B]},
		check[B]{"sizes that overflow", checkOverflow[B]},
		check[B]{"transfers outside a buffer", checkBounds[B]},
		check[B]{"host access", checkHostAccess[B]},
		check[B]{"import of host memory", checkImportHost[B]},
		check[B]{"import of a handle", checkImportHandle[B]},
	)
}

// checkTransfer writes a part of a buffer and reads other parts.
func checkTransfer[B backend.Buffer](r *rig[B], dt backend.DType) {
	reg := r.region("buffer", dt, 0, 100)
	r.push()
	part := r.bytes(bytesOf(dt, 42))
	reg.set(6, part)
	require.NoError(r, r.be.Upload(r.s, reg.buf, 6, part))
	clear(part) // src may be reused at return
	r.verify()

	got := make([]byte, bytesOf(dt, 30))
	require.NoError(r, r.be.Download(r.s, got, reg.buf, 10))
	require.Equal(r, reg.part(reg.image, 10, 30), got)
	require.NoError(r, r.be.Upload(r.s, reg.buf, reg.buf.Len(), nil), "uploading nothing at the end")
	require.NoError(r, r.be.Download(r.s, nil, reg.buf, reg.buf.Len()), "downloading nothing at the end")
	r.verify()
}

// checkCopy copies between buffers and within one, in both directions of overlap.
func checkCopy[B backend.Buffer](r *rig[B], dt backend.DType) {
	src, dst := r.region("source", dt, 0, 5000), r.region("destination", dt, 0, 5000)
	src.set(0, r.bytes(bytesOf(dt, src.n)))
	r.push()
	copyPart := func(to *region[B], toOff int, from *region[B], fromOff, n int) {
		require.NoError(r, r.be.Copy(r.s, to.buf, toOff, from.buf, fromOff, n))
		to.set(toOff, append([]byte(nil), from.part(from.image, fromOff, n)...))
	}
	copyPart(dst, 10, src, 20, 4000)
	copyPart(src, 6, src, 2, 4990) // up, overlapping
	copyPart(src, 30, src, 38, 4900)
	copyPart(src, 8, src, 8, 100)
	copyPart(dst, 0, src, 5000, 0)
	r.verify()
}

type fillCase struct {
	dt    backend.DType
	value float64
	bytes []byte // one element
}

func fillCases() []fillCase {
	var out []fillCase
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		for _, v := range []float64{0, -0.1, 3.14159, 65504, math.Inf(-1), 6e-8} {
			out = append(out, fillCase{dt, v, encode(dt, []float32{float32(v)})})
		}
	}
	return append(out,
		fillCase{backend.U32, math.MaxUint32, backend.BytesOf([]uint32{math.MaxUint32})},
		fillCase{backend.I32, math.MinInt32, backend.BytesOf([]int32{math.MinInt32})},
		fillCase{backend.I64, -1, backend.BytesOf([]int64{-1})},
		fillCase{backend.I64, 1 << 40, backend.BytesOf([]int64{1 << 40})})
}

func checkFill[B backend.Buffer](r *rig[B], c fillCase) {
	reg := r.region("buffer", c.dt, 0, 1000)
	r.push()
	require.NoError(r, r.be.Fill(r.s, reg.buf, 3, 901, c.value))
	for i := range 901 {
		reg.set(3+i, c.bytes)
	}
	require.NoError(r, r.be.Fill(r.s, reg.buf, reg.buf.Len(), 0, c.value), "filling nothing at the end")
	r.verify()
}

func checkSizes[B backend.Buffer](r *rig[B]) {
	for dt := backend.Invalid + 1; dt < backend.NumDTypes; dt++ {
		for _, n := range []int{0, 1, 2, 7, 4097} {
			b, err := r.be.Alloc(dt, n)
			require.NoError(r, err, "%d elements of %s", n, dt)
			require.Equal(r, n, b.Len())
			require.Equal(r, dt, b.DType())
			require.EqualValues(r, bytesOf(dt, n), b.Bytes())
			require.NoError(r, r.be.Free(b))
		}
	}
}

func checkCounts[B backend.Buffer](r *rig[B]) {
	before := r.be.Info()
	b, err := r.be.Alloc(backend.F32, 1<<20)
	require.NoError(r, err)
	during := r.be.Info()
	require.NoError(r, r.be.Free(b))
	after := r.be.Info()
	require.Equal(r, before.Buffers+1, during.Buffers)
	require.GreaterOrEqual(r, during.Allocated, before.Allocated+4<<20)
	require.Equal(r, before.Buffers, after.Buffers)
	require.NotEmpty(r, after.Name)
	require.Positive(r, after.ComputeUnits)
}

// checkOutOfMemory asks for more than any device has and then for little.
func checkOutOfMemory[B backend.Buffer](r *rig[B]) {
	for n := math.MaxInt / 8; int64(n) >= 1<<50; n /= 16 { // an int of 32 bits is never that large
		_, err := r.be.Alloc(backend.F32, n)
		r.requireOneOf(err, backend.ErrOutOfMemory{}, backend.ErrArgument{})
	}
	checkTransfer(r, backend.F32)
}

func checkOverflow[B backend.Buffer](r *rig[B]) {
	bad := func(dt backend.DType, n int) {
		_, err := r.be.Alloc(dt, n)
		require.ErrorIs(r, err, backend.ErrArgument{}, "%d elements of %s", n, dt)
	}
	bad(backend.F32, -1)
	bad(backend.F32, math.MinInt)
	bad(backend.I64, math.MaxInt)
	bad(backend.F16, math.MaxInt/2+1)
	bad(backend.Invalid, 4)
	bad(backend.DType(200), 4)
}

// checkBounds tries to reach beyond a buffer with every transfer.
func checkBounds[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.F32, 0, 10)
	other := r.region("buffer of another type", backend.U32, 0, 10)
	packed := r.region("packed buffer", backend.Int4, 0, 10)
	r.push()
	n := reg.buf.Len()
	data := make([]byte, 8)
	errs := map[string]error{
		"upload beyond the end":     r.be.Upload(r.s, reg.buf, n-1, data),
		"upload before the start":   r.be.Upload(r.s, reg.buf, -1, data),
		"upload at an overflow":     r.be.Upload(r.s, reg.buf, math.MaxInt, data),
		"upload of half an element": r.be.Upload(r.s, reg.buf, 0, data[:6]),
		"upload inside a byte":      r.be.Upload(r.s, packed.buf, 1, data[:1]),
		"download beyond the end":   r.be.Download(r.s, data, reg.buf, n-1),
		"download before the start": r.be.Download(r.s, data, reg.buf, -1),
		"download at an overflow":   r.be.Download(r.s, data, reg.buf, math.MaxInt),
		"download of half":          r.be.Download(r.s, data[:6], reg.buf, 0),
		"copy beyond the source":    r.be.Copy(r.s, reg.buf, 0, reg.buf, n-1, 2),
		"copy beyond the end":       r.be.Copy(r.s, reg.buf, n-1, reg.buf, 0, 2),
		"copy of a negative count":  r.be.Copy(r.s, reg.buf, 4, reg.buf, 0, -1),
		"copy at an overflow":       r.be.Copy(r.s, reg.buf, math.MaxInt, reg.buf, 0, math.MaxInt),
		"copy before the start":     r.be.Copy(r.s, reg.buf, -1, reg.buf, 0, 2),
		"copy between types":        r.be.Copy(r.s, reg.buf, 0, other.buf, 0, 2),
		"fill beyond the end":       r.be.Fill(r.s, reg.buf, n-1, 2, 0),
		"fill of a negative count":  r.be.Fill(r.s, reg.buf, 0, -1, 0),
		"fill at an overflow":       r.be.Fill(r.s, reg.buf, math.MaxInt, 1, 0),
		"fill before the start":     r.be.Fill(r.s, reg.buf, -1, 2, 0),
	}
	for name, err := range errs {
		require.ErrorIs(r, err, backend.ErrArgument{}, name)
	}
	require.Equal(r, make([]byte, 8), data)
	r.verify()
}

// checkHostAccess writes and reads a buffer past the device.
func checkHostAccess[B backend.Buffer](r *rig[B]) {
	access, ok := backend.HostAccessOf(r.be)
	if !ok {
		r.skip("the device's memory is not host memory")
	}
	reg := r.region("buffer", backend.F32, 0, 50)
	r.push()
	require.NoError(r, r.s.Sync())
	mem, err := access.HostBytes(reg.buf)
	require.NoError(r, err)
	require.Equal(r, reg.image, mem)
	copy(mem[40:], "written by the host")
	copy(reg.image[40:], "written by the host")
	r.verify()
}

// checkImportHost uses a slice of the host as a buffer.
func checkImportHost[B backend.Buffer](r *rig[B]) {
	if !r.be.Info().HostVisible {
		r.skip("the device's memory is not host memory")
	}
	mine := make([]float32, 64)
	b, err := r.be.Import(backend.HostHandle(mine), backend.F32, len(mine))
	if err != nil {
		r.requireOneOf(err, backend.ErrUnsupported{})
		r.skip("the device imports no host slices: %v", err)
	}
	require.NoError(r, r.be.Fill(r.s, b, 10, 4, 2.5))
	require.NoError(r, r.s.Sync())
	require.Equal(r, []float32{0, 2.5, 2.5, 2.5, 2.5, 0}, mine[9:15], "the memory was copied")
	mine[0] = 7
	got := make([]float32, 1)
	require.NoError(r, backend.Download(r.be, r.s, got, b, 0))
	require.Equal(r, mine[0], got[0], "the memory was copied")
	h, err := r.be.Handle(b)
	require.NoError(r, err)
	require.Same(r, &backend.BytesOf(mine)[0], &h.Host[0])
	require.NoError(r, r.be.Free(b))
	mine[63] = 8 // still ours

	for name, n := range map[string]int{"too many elements": 65, "negative": -1, "overflow": math.MaxInt} {
		_, err := r.be.Import(backend.HostHandle(mine), backend.F32, n)
		require.ErrorIs(r, err, backend.ErrArgument{}, name)
	}
}

// checkImportHandle imports a buffer's own handle: two buffers of one memory.
func checkImportHandle[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.U32, 0, 50)
	r.push()
	h, err := r.be.Handle(reg.buf)
	require.NoError(r, err)
	allocated := r.be.Info().Allocated
	alias, err := r.be.Import(h, backend.U32, reg.buf.Len())
	require.NoError(r, err)
	require.Equal(r, allocated, r.be.Info().Allocated, "imported memory is not the device's")
	require.NoError(r, r.be.Fill(r.s, alias, 5, 3, 11))
	reg.set(5, backend.BytesOf([]uint32{11, 11, 11}))
	require.NoError(r, r.be.Free(alias))
	r.verify() // Free has forgotten the alias and left the memory
}

// requireOneOf fails unless err is one of the targets.
func (r *rig[B]) requireOneOf(err error, targets ...error) {
	if errorOf(err, targets...) {
		return
	}
	var want []string
	for _, target := range targets {
		want = append(want, fmt.Sprintf("%T %v", target, target))
	}
	require.Fail(r, "wrong error", "have %v, want one of %q", err, want)
}

func errorOf(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
