package launch

import "math"

// MaxGridY is the most blocks of a grid along y, and so the most KV heads.
const MaxGridY = 65535

const maxGridX = math.MaxInt32

// UnitThreads is the threads of a block of the kernels whose threads share the units
// of a token: append, rotate, and what they are for quantized types.
const UnitThreads = 128

// unitRows is the rows of dim elements that such a block works on at a time where each is one
// warp's, or half of one's, as those are that become quantized.
func unitRows(dim int) int64 {
	if dim > 128 {
		return UnitThreads / 32
	}
	return UnitThreads / 16
}

// What a block of the grid works on at a time. Any grid is right; these keep every
// thread busy.
const (
	blockPieces  = 1024 // of a plane's block
	slotPieces   = 2    // of a slot; Metal: 8
	gatherTokens = 32   // tokens of a head
	mergeRows    = 4
)

// fillGrid bounds the blocks of a fill or a copy: enough to keep any device's memory
// busy, while its threads go on from there.
const fillGrid, fillBytes = 4096, 4096 // blocks, and bytes that one of them sets at once

// gridOf is a grid that strides over x and y units, per a block; per is not 0.
func gridOf(x, perX, y, perY int64) [3]uint32 {
	blocks := func(n, per, most int64) uint32 { return uint32(max(min((n-1)/per+1, most), 1)) }
	return [3]uint32{blocks(x, perX, maxGridX), blocks(y, perY, MaxGridY), 1}
}

// fillGridOf is the grid over a range of bytes.
func fillGridOf(bytes int64) [3]uint32 {
	return [3]uint32{uint32(min((bytes+fillBytes-1)/fillBytes, fillGrid)), 1, 1}
}
