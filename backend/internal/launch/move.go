package launch

import "github.com/ferrumkv/ferrumkv/backend/internal/check"

// ScratchSize is the most memory, in bytes, that a copy which overlaps itself takes.
const ScratchSize = 4 << 20

// Mover enqueues copies within a device, one after another.
type Mover interface {
	// CopyBytes copies size bytes, at least one, between places that do not overlap.
	CopyBytes(dst, src Place, size int) error
	// CopyBits copies the bits of mask of one byte.
	CopyBits(dst, src Place, mask uint32) error
	// Scratch returns memory for copies, and DropScratch gives it back once the copies
	// before are done.
	Scratch(size int) (Place, error)
	DropScratch(p Place) error
}

// Move checks a copy of n elements between buffers of one DType and does it with m.
// The places may overlap. An odd number of half-byte elements leaves the upper half of
// the last byte, which is a neighbour's.
func Move[B Buffer, M Mover](m M, dst B, dstOff int, src B, srcOff, n int) error {
	lo, hi, first, err := check.Copied(dst, dstOff, src, srcOff, n)
	if err != nil {
		return err
	}
	to, from, size := dst.Place().Plus(int64(lo)), src.Place().Plus(int64(first)), hi-lo
	if size == 0 || to == from {
		return nil
	}
	if dst.DType().Bits() >= 8 || n%2 == 0 {
		return moveBytes(m, to, from, size)
	}
	last := int64(size - 1)
	if to.At < from.At {
		if err := moveBytes(m, to, from, size-1); err != nil {
			return err
		}
		return m.CopyBits(to.Plus(last), from.Plus(last), 0x0f)
	}
	// The bytes before may cover the source of the last one.
	if err := m.CopyBits(to.Plus(last), from.Plus(last), 0x0f); err != nil {
		return err
	}
	return moveBytes(m, to, from, size-1)
}

// moveBytes copies size bytes. Where the ranges overlap, pieces pass through scratch
// memory, from the end that is not yet needed on.
func moveBytes[M Mover](m M, dst, src Place, size int) error {
	if size == 0 {
		return nil
	}
	apart := max(dst.At, src.At) - min(dst.At, src.At)
	if dst.Memory != src.Memory || apart >= uint64(size) {
		return m.CopyBytes(dst, src, size)
	}
	piece := min(size, ScratchSize)
	scratch, err := m.Scratch(piece)
	if err != nil {
		return err
	}
	for done := 0; done < size && err == nil; done += piece {
		n := min(piece, size-done)
		at := int64(done)
		if dst.At > src.At {
			at = int64(size - done - n)
		}
		if err = m.CopyBytes(scratch, src.Plus(at), n); err == nil {
			err = m.CopyBytes(dst.Plus(at), scratch, n)
		}
	}
	if drop := m.DropScratch(scratch); err == nil {
		err = drop
	}
	return err
}
