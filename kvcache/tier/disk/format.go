package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

const (
	name       = "disk"
	magic      = "FKVSLAB1"
	version    = 1
	entryBytes = 256 // a part of a sector, so that one is rarely torn
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is what the table says of a slot.
//
//	0    key 32, parent 32, root 32
//	96   length 4, CRC32C of the payload 4
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
	nonce             [nonceBytes]byte
	tag               [tagBytes]byte
}

const plainBytes = 160

// codec writes and reads the table and the payloads of a namespace.
type codec struct {
	fingerprint tier.Key
	group       uint16
	payload     int64 // the largest
	sealer      *sealer
}

// stride is the distance of slots.
func (c *codec) stride() int64 { return (c.payload + page - 1) / page * page }

// about is what is authenticated with an encrypted entry, or payload: whose it is and where.
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
		var nonce [nonceBytes]byte
		sealed, err := c.sealer.seal(make([]byte, 0, plainBytes+tagBytes), &nonce, plain, c.about('E', slot, nil))
		if err != nil {
			return err
		}
		copy(dst[copy(dst, nonce[:]):], sealed)
	}
	binary.LittleEndian.PutUint32(dst[entryBytes-4:], crc32.Checksum(dst[:entryBytes-4], castagnoli))
	return nil
}

// readEntry reads what writeEntry wrote; false: it did not write that, or not for this slot.
func (c *codec) readEntry(src []byte, slot int) (e entry, ok bool) {
	if allZero(src[:entryBytes]) {
		return entry{}, true
	}
	if crc32.Checksum(src[:entryBytes-4], castagnoli) != binary.LittleEndian.Uint32(src[entryBytes-4:]) {
		return entry{}, false
	}
	plain := src[:plainBytes]
	if c.sealer != nil {
		sealed := src[nonceBytes : nonceBytes+plainBytes+tagBytes]
		var err error
		if plain, err = c.sealer.open(nil, (*[nonceBytes]byte)(src), sealed, c.about('E', slot, nil)); err != nil {
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
	return e, int64(e.length) <= c.payload
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// header is the first page of the table:
//
//	0   magic 8, version 4, bytes of an entry 4
//	16  largest payload 8, distance of slots 8
//	32  fingerprint 32, group 4
//	68  encrypted or not 4, nonce 24 and tag 16 of the bytes before, which only the right key can check
//	112 zeros
//	4092 CRC32C of the bytes before
func (c *codec) header() ([]byte, error) {
	b := make([]byte, page)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint32(b[12:], entryBytes)
	binary.LittleEndian.PutUint64(b[16:], uint64(c.payload))
	binary.LittleEndian.PutUint64(b[24:], uint64(c.stride()))
	copy(b[32:], c.fingerprint[:])
	binary.LittleEndian.PutUint32(b[64:], uint32(c.group))
	if c.sealer != nil {
		binary.LittleEndian.PutUint32(b[68:], 1)
		tag, err := c.sealer.seal(nil, (*[nonceBytes]byte)(b[72:]), nil, b[:72])
		if err != nil {
			return nil, err
		}
		copy(b[72+nonceBytes:], tag)
	}
	binary.LittleEndian.PutUint32(b[page-4:], crc32.Checksum(b[:page-4], castagnoli))
	return b, nil
}

// checkHeader says what is wrong with a header; torn: it is not one at all, so that nothing behind it can be used.
func (c *codec) checkHeader(b []byte) (torn bool, wrong string) {
	if len(b) < page || crc32.Checksum(b[:page-4], castagnoli) != binary.LittleEndian.Uint32(b[page-4:]) || string(b[:8]) != magic {
		return true, ""
	}
	want, err := c.header()
	if err != nil {
		return false, err.Error()
	}
	switch v := binary.LittleEndian.Uint32(b[8:]); {
	case v != version:
		return false, fmt.Sprintf("its table is of version %d, this program writes %d", v, version)
	case !bytes.Equal(b[8:68], want[8:68]):
		return false, "its table is of another fingerprint, group or size of blocks"
	case !bytes.Equal(b[68:72], want[68:72]):
		return false, "its table is encrypted and no secret was given, or the other way round"
	case c.sealer == nil:
		return false, ""
	}
	if _, err := c.sealer.open(nil, (*[nonceBytes]byte)(b[72:]), b[72+nonceBytes:][:tagBytes], b[:72]); err != nil {
		return false, "it was encrypted by another secret"
	}
	return false, ""
}
