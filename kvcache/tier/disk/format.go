package disk

import (
	"encoding/binary"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

const (
	name       = "disk"
	magic      = "FKVSLAB1"
	version    = 2   // 1 had sums of payloads without their keys
	entryBytes = 256 // a part of a sector, so that one is rarely torn
)

// entry is what the table says of a slot.
//
//	0    key 32, parent 32, root 32
//	96   length 4, tier.Block.Sum of the payload 4
//	104  generation 8, last use 8
//	120  nonce 24 and tag 16 of the payload, or zeros
//	160  zeros
//	252  CRC32C of the bytes before
//
// Encrypted, it is a nonce of 24, what the first 160 bytes are sealed to, 176, and zeros up to the CRC32C. The key of a slot
// without a block is zero, and so may be its whole entry.
type entry struct {
	key, parent, root tier.Key
	length, sum       uint32
	generation, use   uint64
	nonce             [seal.NonceBytes]byte
	tag               [seal.TagBytes]byte
}

const plainBytes = 160

// codec writes and reads the table and the payloads of a namespace.
type codec struct {
	fingerprint tier.Key
	group       uint16
	payload     int64 // the largest
	bigEndian   bool  // the machine, and so the numbers that payloads are made of
	sealer      *seal.Sealer
}

// stride is the distance of slots.
func (c *codec) stride() int64 { return (c.payload + page - 1) / page * page }

// about is what is authenticated with an encrypted entry, or payload: whose it is and where. No nonce is made of slot and generation,
// which would need no room: a crash may take back the generation in the table and leave the payload that was encrypted under it, and
// a directory that was copied or restored goes on from the same one twice. A nonce that two payloads have gives away the difference of
// the two, and lets others forge more.
func (c *codec) about(what byte, slot int, e *entry) []byte {
	b := make([]byte, 0, 96)
	b = append(append(append(b, magic...), what), c.fingerprint[:]...)
	b = binary.LittleEndian.AppendUint16(b, c.group)
	b = binary.LittleEndian.AppendUint64(b, uint64(slot))
	if e != nil {
		b = append(binary.LittleEndian.AppendUint64(b, e.generation), e.key[:]...)
	}
	return b
}

// writeEntry writes the entry of a slot to dst, which has entryBytes.
func (c *codec) writeEntry(dst []byte, slot int, e *entry) error {
	clear(dst)
	plain := dst[:plainBytes]
	n := copy(plain, e.key[:])
	n += copy(plain[n:], e.parent[:])
	n += copy(plain[n:], e.root[:])
	binary.LittleEndian.PutUint32(plain[n:], e.length)
	binary.LittleEndian.PutUint32(plain[n+4:], e.sum)
	binary.LittleEndian.PutUint64(plain[n+8:], e.generation)
	binary.LittleEndian.PutUint64(plain[n+16:], e.use)
	n += 24
	n += copy(plain[n:], e.nonce[:])
	copy(plain[n:], e.tag[:])
	if c.sealer != nil {
		var nonce [seal.NonceBytes]byte
		sealed, err := c.sealer.Seal(make([]byte, 0, plainBytes+seal.TagBytes), &nonce, plain, c.about('E', slot, nil))
		if err != nil {
			return err
		}
		copy(dst[copy(dst, nonce[:]):], sealed)
	}
	binary.LittleEndian.PutUint32(dst[entryBytes-4:], crc32c.Sum(dst[:entryBytes-4]))
	return nil
}

// readEntry reads what writeEntry wrote; false: it did not write that, or not for this slot.
func (c *codec) readEntry(src []byte, slot int) (e entry, ok bool) {
	if allZero(src[:entryBytes]) {
		return entry{}, true
	}
	if crc32c.Sum(src[:entryBytes-4]) != binary.LittleEndian.Uint32(src[entryBytes-4:]) {
		return entry{}, false
	}
	plain := src[:plainBytes]
	if c.sealer != nil {
		sealed := src[seal.NonceBytes : seal.NonceBytes+plainBytes+seal.TagBytes]
		var err error
		if plain, err = c.sealer.Open(nil, (*[seal.NonceBytes]byte)(src), sealed, c.about('E', slot, nil)); err != nil {
			return entry{}, false
		}
	}
	n := copy(e.key[:], plain)
	n += copy(e.parent[:], plain[n:])
	n += copy(e.root[:], plain[n:])
	e.length, e.sum = binary.LittleEndian.Uint32(plain[n:]), binary.LittleEndian.Uint32(plain[n+4:])
	e.generation, e.use = binary.LittleEndian.Uint64(plain[n+8:]), binary.LittleEndian.Uint64(plain[n+16:])
	n += 24
	n += copy(e.nonce[:], plain[n:])
	copy(e.tag[:], plain[n:])
	return e, int64(e.length) <= c.payload && (e.length > 0) == (e.key != tier.Key{})
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
