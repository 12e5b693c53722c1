package check

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Size is the bytes of n elements of dt, as a number that a slice can have.
func Size(op string, dt backend.DType, n int) (int, error) {
	bytes, ok := dt.Size(n)
	if !ok || bytes > math.MaxInt {
		c := checker{op: op}
		c.shape("%d elements of %s: the type is invalid, or the size is negative or overflows", n, dt)
		return 0, c.err
	}
	return int(bytes), nil
}

// SubBuffer is the bytes of n elements of dt from a byte of b on, where b lies at that address:
// of a device whose memory has none, at that offset in what is aligned to every element.
func SubBuffer[B backend.Buffer](b B, address uint64, offset int64, dt backend.DType, n int) (int, error) {
	const op = "sub-buffer"
	size, err := Size(op, dt, n)
	if err != nil {
		return 0, err
	}
	c := checker{op: op}
	align := uint64(max(dt.Bits()/8, 1))
	switch {
	case offset < 0 || offset > b.Bytes() || int64(size) > b.Bytes()-offset:
		c.shape("offset %d: %d elements of %s have %d bytes, the buffer has %d", offset, n, dt, size, b.Bytes())
	case (address+uint64(offset))%align != 0:
		c.shape("offset %d: is not aligned to the %d bytes of %s", offset, align, dt)
	}
	return size, c.err
}

// Span is the bytes [lo, hi) of n elements of b from element off on. For a type
// of less than a byte, off must lie at a byte's start; an odd n ends within the
// last byte of the span.
func Span[B backend.Buffer](op, name string, b B, off, n int) (lo, hi int, err error) {
	c := checker{op: op}
	if off < 0 || n < 0 {
		c.shape("%s: have %d elements from offset %d on, need no negative number", name, n, off)
	}
	if c.err == nil && (off > b.Len() || n > b.Len()-off) {
		c.shape("%s: %d elements, need %d from offset %d on", name, b.Len(), n, off)
	}
	bits := b.DType().Bits()
	if bits < 8 && off%2 != 0 {
		c.shape("%s offset: have %d, need an even one for %s", name, off, b.DType())
	}
	if c.err != nil {
		return 0, 0, c.err
	}
	if bits < 8 {
		return off / 2, off/2 + (n+1)/2, nil
	}
	return off * (bits / 8), (off + n) * (bits / 8), nil
}

// Transfer is the byte of b at which a transfer of that many bytes from or to
// element off starts.
func Transfer[B backend.Buffer](op, name string, b B, off, bytes int) (int, error) {
	bits := b.DType().Bits()
	c := checker{op: op}
	if bits > 8 && bytes%(bits/8) != 0 {
		c.shape("%s: %d bytes are not whole elements of %s", name, bytes, b.DType())
		return 0, c.err
	}
	n := bytes
	switch {
	case bits > 8:
		n = bytes / (bits / 8)
	case bits < 8 && off >= 0 && off <= b.Len():
		n = min(2*bytes, max(b.Len()-off, 2*bytes-1)) // the last byte may hold one element
	}
	lo, _, err := Span(op, name, b, off, n)
	return lo, err
}

// Copied is where a copy of n elements from one buffer to another writes, the bytes
// [to, toEnd), and from which byte on it reads.
func Copied[B backend.Buffer](dst B, dstOff int, src B, srcOff, n int) (to, toEnd, from int, err error) {
	if dst.DType() != src.DType() {
		return 0, 0, 0, backend.ErrArgument{Op: "copy", What: fmt.Sprintf("source: elements are %s, need %s", src.DType(), dst.DType())}
	}
	if to, toEnd, err = Span("copy", "destination", dst, dstOff, n); err != nil {
		return 0, 0, 0, err
	}
	from, _, err = Span("copy", "source", src, srcOff, n)
	return to, toEnd, from, err
}

// Blocks verifies what backend.BlockAccess is called with: host has the bytes of blocks of all planes.
func Blocks[B backend.Buffer](op string, planes []backend.BlockPlane[B], blocks []uint32, host []byte) error {
	each, have, err := backend.CheckPlanes(planes)
	if err != nil {
		return err
	}
	c := checker{op: op}
	if int64(len(host)) != int64(len(blocks))*each {
		c.shape("%d bytes of host memory for %d blocks of %d", len(host), len(blocks), each)
	}
	for _, b := range blocks {
		if int64(b) >= int64(have) {
			c.shape("block %d of %d", b, have)
		}
	}
	return c.err
}

// BlockBytes is the bytes of a block of a plane that was checked (backend.CheckPlanes).
func BlockBytes[B backend.Buffer](p *backend.BlockPlane[B]) int {
	bytes, _ := p.Buf.DType().Size(p.Each)
	return int(bytes)
}
