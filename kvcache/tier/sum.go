package tier

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Summed returns the CRC32C of the payload and, after it, the key, so that a right payload under another block's key is wrong, too.
func (b *Block) Summed() uint32 { return b.SummedFrom(crc32.Checksum(b.Bytes, castagnoli)) }

// SummedFrom is Summed where the CRC32C of the payload is known.
func (b *Block) SummedFrom(payload uint32) uint32 { return crc32.Update(payload, castagnoli, b.Key[:]) }

// whole returns how many of the first blocks are right. Their keys and bytes are those that a tier was asked for, their sums what it
// returned.
func whole(blocks []Block) int {
	for i := range blocks {
		if blocks[i].Summed() != blocks[i].Sum {
			return i
		}
	}
	return len(blocks)
}
