package launch

import (
	"encoding/binary"

	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Fill checks a fill and is its launch: n elements from off on are set to v.
func Fill[B Buffer](c *Calls, dst B, off, n int, v float64) error {
	c.clear()
	lo, hi, err := check.Span("fill", "destination", dst, off, n)
	if err != nil {
		return err
	}
	value, err := check.Element("fill", dst.DType(), v)
	if err != nil || n == 0 {
		return err
	}
	bits := dst.DType().Bits()
	args := abi.FillArgs{LastMask: 0xff, Pattern: binary.LittleEndian.Uint64(value[:]), Bytes: int64(hi - lo), Elem: uint32(max(bits/8, 1))}
	if bits < 8 && n%2 != 0 {
		args.LastMask = 0x0f
	}
	at := dst.Place().Plus(int64(lo))
	c.add(Kernel{Op: OpFill}, fillGridOf(args.Bytes), wideAt(at), args.Encode(), at)
	return nil
}

// CopyBits is the launch that copies the bits of mask of one byte.
func CopyBits(c *Calls, dst, src Place, mask uint32) {
	c.clear()
	args := abi.CopyBitsArgs{Mask: mask}
	c.add(Kernel{Op: OpCopyBits}, [3]uint32{1, 1, 1}, 0, args.Encode(), dst, src)
}

// Copy is the launch that copies size bytes, at least one, between places that do not
// overlap. It is for devices whose driver cannot copy any bytes.
func Copy(c *Calls, dst, src Place, size int) {
	c.clear()
	args := abi.CopyArgs{Bytes: int64(size)}
	c.add(Kernel{Op: OpCopy}, fillGridOf(args.Bytes), wideAt(dst, src), args.Encode(), dst, src)
}
