package tier

import "github.com/ferrumkv/ferrumkv/internal/crc32c"

// Summed returns the CRC32C of the payload followed by the key, so that a right payload under another block's key is wrong, too.
func (b *Block) Summed() uint32 { return b.SummedFrom(crc32c.Sum(b.Bytes)) }

// SummedFrom is Summed where the CRC32C of the payload is known.
func (b *Block) SummedFrom(payload uint32) uint32 { return crc32c.Update(payload, b.Key[:]) }

// whole returns how many of the first blocks are right. Their keys and bytes are those that were asked for, their sums the tier's.
func whole(blocks []Block) int {
	for i := range blocks {
		if blocks[i].Summed() != blocks[i].Sum {
			return i
		}
	}
	return len(blocks)
}
