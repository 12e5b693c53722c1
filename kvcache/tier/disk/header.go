package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// What the flags of a header say.
const (
	encrypted = 1 << iota
	bigEndian
)

// header is the first page of the table:
//
//	0   magic 8, version 4, bytes of an entry 4
//	16  largest payload 8, distance of slots 8
//	32  fingerprint 32, group 4
//	68  flags 4: 1 encrypted, 2 payloads of a big-endian machine
//	72  nonce 24 and tag 16 of the bytes before, which only the right key can check
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
	binary.LittleEndian.PutUint32(b[68:], c.flags())
	if c.sealer != nil {
		tag, err := c.sealer.Seal(nil, (*[seal.NonceBytes]byte)(b[72:]), nil, b[:72])
		if err != nil {
			return nil, err
		}
		copy(b[72+seal.NonceBytes:], tag)
	}
	binary.LittleEndian.PutUint32(b[page-4:], crc32c.Sum(b[:page-4]))
	return b, nil
}

func (c *codec) flags() (f uint32) {
	if c.sealer != nil {
		f |= encrypted
	}
	if c.bigEndian {
		f |= bigEndian
	}
	return f
}

// checkHeader says what is wrong with a header; torn: it is not one at all, so that nothing behind it can be used.
func (c *codec) checkHeader(b []byte) (torn bool, wrong string) {
	if len(b) < page || crc32c.Sum(b[:page-4]) != binary.LittleEndian.Uint32(b[page-4:]) || string(b[:8]) != magic {
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
	case (b[68]^want[68])&bigEndian != 0:
		return false, "its payloads are of a machine with the other order of bytes"
	case !bytes.Equal(b[68:72], want[68:72]):
		return false, "its table is encrypted and no secret was given, or the other way round"
	case c.sealer == nil:
		return false, ""
	}
	if _, err := c.sealer.Open(nil, (*[seal.NonceBytes]byte)(b[72:]), b[72+seal.NonceBytes:][:seal.TagBytes], b[:72]); err != nil {
		return false, "it was encrypted by another secret"
	}
	return false, ""
}
