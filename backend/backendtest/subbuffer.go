package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func subBufferChecks[B backend.Buffer](caps backend.Caps, o Options) []check[B] {
	out := []check[B]{
		{"both ways", checkSubBufferShares[B]},
		{"their ends", checkSubBufferEnds[B]},
		{"of an imported buffer", checkSubBufferOfImport[B]},
		{"out of range", checkSubBufferBounds[B]},
		{"freed while work is queued", checkSubBufferQueued[B]},
	}
	out = append(out, inParts(appendChecks[B](caps), 12)...)
	out = append(out, inParts(gatherChecks[B](), 12)...)
	out = append(out, inParts(rotateChecks[B](), 8)...)
	out = append(out, inParts(moveChecks[B](), 8)...)
	out = append(out, inParts(massChecks[B](), 4)...)
	out = append(out, inParts(convertChecks[B](caps), 40)...)
	out = append(out, inParts(mergeChecks[B](), 8)...)
	o.Grid = NoGrid
	return append(out, inParts(attendChecks[B](caps, o), 12)...)
}

// inParts is every n-th of the checks, all of whose operands are sub-buffers.
func inParts[B backend.Buffer](checks []check[B], n int) (out []check[B]) {
	for i := 0; i < len(checks); i += n {
		c := checks[i]
		out = append(out, check[B]{c.name + ", in parts", func(r *rig[B]) {
			r.parts = true
			c.run(r)
		}})
	}
	return out
}

// memory is n elements of dt, of a larger buffer where the rig's regions are parts: integers as
// close to its beginning as they may lie, all else as close as rows are aligned.
func (r *rig[B]) memory(name string, dt backend.DType, n int) B {
	if !r.parts {
		b, err := r.be.Alloc(dt, n)
		require.NoError(r, err, "allocating %s", name)
		return b
	}
	offset := 48
	if dt == backend.U32 || dt == backend.I64 {
		offset = 8
	}
	whole, err := r.be.Alloc(backend.Int8, offset+bytesOf(dt, n)+16)
	require.NoError(r, err, "allocating %s", name)
	r.wholes = append(r.wholes, whole)
	b, err := r.be.SubBuffer(whole, int64(offset), dt, n)
	require.NoError(r, err, "a part for %s", name)
	return b
}

// sub is a sub-buffer that the device gives.
func (r *rig[B]) sub(b B, offset int64, dt backend.DType, n int) B {
	out, err := r.be.SubBuffer(b, offset, dt, n)
	require.NoError(r, err)
	return out
}

// checkSubBufferShares writes through a buffer, a part of it and a part of that, and reads
// through the others.
func checkSubBufferShares[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.U32, 0, 100)
	r.push()
	before := r.be.Info()
	outer := r.sub(reg.buf, 40, backend.U32, 80)
	inner := r.sub(outer, 8, backend.Int8, 20)
	all, empty := r.sub(reg.buf, 0, backend.U32, reg.buf.Len()), r.sub(reg.buf, reg.buf.Bytes(), backend.F32, 0)
	require.Equal(r, 80, outer.Len())
	require.Equal(r, backend.Int8, inner.DType())
	require.EqualValues(r, 20, inner.Bytes())
	require.Equal(r, 0, empty.Len())
	require.Equal(r, reg.buf.Len(), all.Len())
	during := r.be.Info()
	require.Equal(r, before.Buffers+4, during.Buffers)
	require.Equal(r, before.Allocated, during.Allocated)

	require.NoError(r, r.be.Fill(r.s, outer, 0, 2, 7))
	reg.set(10, backend.BytesOf([]uint32{7, 7}))
	require.NoError(r, r.be.Upload(r.s, inner, 3, []byte{1, 2, 3, 4, 5, 6}))
	reg.set(12, backend.BytesOf([]uint32{poisonWord(reg, 12)&0xffffff | 1<<24, 0x05040302, poisonWord(reg, 14)&^0xff | 6}))
	require.NoError(r, r.be.Copy(r.s, outer, 30, reg.buf, 10, 2))
	reg.set(40, backend.BytesOf([]uint32{7, 7}))
	r.verify()
	require.NoError(r, r.be.Copy(r.s, reg.buf, 11, outer, 0, 20), "overlapping in the memory of both")
	reg.set(11, append([]byte(nil), reg.part(reg.image, 10, 20)...))
	require.NoError(r, r.be.Fill(r.s, reg.buf, 12, 1, 0x01020304))
	reg.set(12, backend.BytesOf([]uint32{0x01020304}))
	got := make([]byte, 4)
	require.NoError(r, r.be.Download(r.s, got, inner, 0))
	require.Equal(r, []byte{4, 3, 2, 1}, got)
	r.verify()

	if access, ok := backend.HostAccessOf(r.be); ok {
		require.NoError(r, r.s.Sync())
		mem, err := access.HostBytes(inner)
		require.NoError(r, err)
		require.Equal(r, reg.part(reg.image, 12, 5), mem)
	}

	require.NoError(r, r.be.Free(all))
	require.NoError(r, r.be.Free(empty))
	require.NoError(r, r.be.Free(inner))
	require.NoError(r, r.be.Fill(r.s, outer, 79, 1, 9), "it is there without its part")
	reg.set(89, backend.BytesOf([]uint32{9}))
	require.NoError(r, r.be.Free(outer))
	require.Equal(r, before.Buffers, r.be.Info().Buffers)
	require.Equal(r, before.Allocated, r.be.Info().Allocated)
	r.verify() // the memory is as it was
}

// poisonWord is a word of a region's image.
func poisonWord[B backend.Buffer](reg *region[B], i int) uint32 {
	word := reg.part(reg.image, i, 1)
	return uint32(word[0]) | uint32(word[1])<<8 | uint32(word[2])<<16 | uint32(word[3])<<24
}

// checkSubBufferEnds frees parts before, and with, what they are parts of.
func checkSubBufferEnds[B backend.Buffer](r *rig[B]) {
	p := r.probe(r.be)
	before := r.be.Info()
	whole, err := r.be.Alloc(backend.F32, 2*probeLen)
	require.NoError(r, err)
	freed := r.sub(whole, 0, backend.F32, probeLen)
	require.NoError(r, r.be.Free(freed))
	outer := r.sub(whole, 64, backend.F32, probeLen+100)
	inner, other := r.sub(outer, 64, backend.F32, probeLen), r.sub(whole, 0, backend.U32, 4)
	last := r.sub(inner, 0, backend.F32, probeLen)
	ended := func(parts map[string]B) {
		for part, b := range parts {
			for name, err := range p.uses(r.be, r.s, b) {
				require.ErrorIs(r, err, backend.ErrFreed, "%s: %s", part, name)
			}
		}
	}
	ended(map[string]B{"freed": freed})
	require.NoError(r, r.be.Free(inner))
	ended(map[string]B{"a part": inner, "a part of that": last})
	require.NoError(r, r.be.Fill(r.s, outer, 0, 1, 1), "what it was a part of stays")
	require.Equal(r, before.Buffers+3, r.be.Info().Buffers)

	last = r.sub(outer, 0, backend.F32, probeLen)
	require.NoError(r, r.s.Sync())
	require.NoError(r, r.be.Free(whole))
	ended(map[string]B{"the whole": whole, "a part": outer, "a part of that": last, "another part": other})
	require.Equal(r, before.Buffers, r.be.Info().Buffers)
	require.Equal(r, before.Allocated, r.be.Info().Allocated)
	p.free(r, r.be)

	be := r.open()
	b, err := be.Alloc(backend.F32, 8)
	require.NoError(r, err)
	part, err := be.SubBuffer(b, 0, backend.F32, 4)
	require.NoError(r, err)
	_, err = r.be.SubBuffer(b, 0, backend.F32, 4)
	require.ErrorIs(r, err, backend.ErrOtherDevice)
	require.NoError(r, be.Close())
	for _, b := range []B{b, part} {
		require.ErrorIs(r, be.Free(b), backend.ErrClosed)
		_, err = be.SubBuffer(b, 0, backend.F32, 1)
		require.ErrorIs(r, err, backend.ErrClosed)
	}
	require.Zero(r, be.Info().Buffers)
}

// checkSubBufferOfImport takes a part of memory that is the caller's, and imports a part's handle.
func checkSubBufferOfImport[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.U32, 0, 100)
	r.push()
	h, err := r.be.Handle(reg.buf)
	require.NoError(r, err)
	alias, err := r.be.Import(h, backend.U32, reg.buf.Len())
	require.NoError(r, err)
	part := r.sub(alias, 32, backend.U32, 16)
	require.NoError(r, r.be.Fill(r.s, part, 1, 2, 5))
	reg.set(9, backend.BytesOf([]uint32{5, 5}))
	h, err = r.be.Handle(part)
	require.NoError(r, err)
	again, err := r.be.Import(h, backend.U32, part.Len())
	require.NoError(r, err)
	require.NoError(r, r.be.Fill(r.s, again, 15, 1, 6))
	reg.set(23, backend.BytesOf([]uint32{6}))
	require.NoError(r, r.be.Free(alias))
	require.ErrorIs(r, r.be.Free(part), backend.ErrFreed)
	require.NoError(r, r.be.Free(again))
	r.verify()
}

func checkSubBufferBounds[B backend.Buffer](r *rig[B]) {
	reg := r.region("buffer", backend.U32, 0, 68) // 400 bytes with its guards
	r.push()
	inner := r.sub(reg.buf, 4, backend.U32, 10)
	live := r.be.Info().Buffers
	for name, c := range map[string]struct {
		of     B
		offset int64
		dt     backend.DType
		n      int
	}{
		"too long":                    {reg.buf, 0, backend.U32, 101},
		"too long behind an offset":   {reg.buf, 396, backend.U32, 2},
		"from behind the end":         {reg.buf, 404, backend.U32, 0},
		"longer than its part":        {inner, 0, backend.U32, 11},
		"from before the start":       {inner, -4, backend.U32, 1},
		"an offset that overflows":    {reg.buf, math.MaxInt64 - 3, backend.U32, 1},
		"the least offset":            {reg.buf, math.MinInt64, backend.U32, 1},
		"a count that overflows":      {reg.buf, 4, backend.U32, math.MaxInt},
		"a negative count":            {reg.buf, 4, backend.U32, -1},
		"an odd offset":               {reg.buf, 1, backend.F16, 1},
		"half a word":                 {reg.buf, 2, backend.U32, 1},
		"half of eight bytes":         {reg.buf, 4, backend.I64, 1},
		"half of eight bytes, inside": {inner, 0, backend.I64, 1},
		"no type":                     {reg.buf, 0, backend.Invalid, 1},
	} {
		_, err := r.be.SubBuffer(c.of, c.offset, c.dt, c.n)
		require.ErrorIs(r, err, backend.ErrArgument{}, name)
	}
	var none B
	_, err := r.be.SubBuffer(none, 0, backend.U32, 1)
	require.Error(r, err, "of no buffer")
	require.Equal(r, live, r.be.Info().Buffers)
	require.ErrorIs(r, r.be.Fill(r.s, inner, 9, 2, 0), backend.ErrArgument{}, "beyond the part, in the whole")
	wide := r.sub(inner, 4, backend.I64, 4)
	require.NoError(r, r.be.Fill(r.s, wide, 0, 1, 3), "aligned in memory, whatever its offset")
	reg.set(2, backend.BytesOf([]int64{3}))
	require.NoError(r, r.be.Free(inner))
	r.verify()
}

// checkSubBufferQueued frees a buffer and its part at once: the copies were queued before and may
// still use them.
func checkSubBufferQueued[B backend.Buffer](r *rig[B]) {
	const n = 1 << 17
	dst := r.region("destination", backend.F32, 0, 2*n)
	src, err := r.be.Alloc(backend.F32, 2*n)
	require.NoError(r, err)
	r.push()
	low, high := r.sub(src, 0, backend.F32, n), r.sub(src, 4*n, backend.F32, n)
	require.NoError(r, r.be.Fill(r.s, src, 0, n, 4))
	require.NoError(r, r.be.Fill(r.s, high, 0, n, 5))
	require.NoError(r, r.be.Copy(r.s, dst.buf, 0, high, 0, n))
	require.NoError(r, r.be.Copy(r.s, dst.buf, n, low, 0, n))
	require.NoError(r, r.be.Free(high))
	require.NoError(r, r.be.Free(src))
	again, err := r.be.Alloc(backend.F32, 2*n)
	require.NoError(r, err)
	require.NoError(r, r.be.Fill(r.s, again, 0, 2*n, 6))
	require.NoError(r, r.be.Free(again))
	for i, element := range [][]byte{encode(backend.F32, []float32{5}), encode(backend.F32, []float32{4})} {
		for j := range n {
			dst.set(i*n+j, element)
		}
	}
	r.verify()
}
