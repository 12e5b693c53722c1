package snapshot

import (
	"encoding/binary"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
)

// Version is that of the streams that a Writer writes.
const Version = 1

// Types of sections.
const (
	typeSeal     = "SEAL"
	typeContent  = "CONT"
	typeScopes   = "SCOP"
	typeStrips   = "STRP"
	typeSequence = "SEQ "
	typeNote     = "NOTE"
	typeChunk    = "CHNK"
	typeEnd      = "END!"
)

// known reports whether this version knows a type.
func known(kind string) bool {
	switch kind {
	case typeSeal, typeContent, typeScopes, typeStrips, typeSequence, typeNote, typeChunk, typeEnd:
		return true
	}
	return false
}

const (
	magic        = "FKVSNAP1"
	headerBytes  = 16
	sectionBytes = 24 // before the payload
	endBytes     = 16
	critical     = 1
	// What of header and heads is summed for the end: not their own sums, for a sum over bytes and their sum says nothing of the bytes.
	summedHeader, summed = headerBytes - 4, sectionBytes - 4
)

var le = binary.LittleEndian

// header is the first bytes of a stream.
func header() (h [headerBytes]byte) {
	copy(h[:], magic)
	le.PutUint16(h[8:], Version)
	le.PutUint16(h[10:], headerBytes)
	le.PutUint32(h[12:], crc32c.Sum(h[:12]))
	return h
}

// section is what stands before a payload.
type section struct {
	kind          string
	flags, coding byte
	length        uint64
	sum           uint32 // of the payload
}

func (s *section) encode() (h [sectionBytes]byte) {
	copy(h[:], s.kind)
	h[4], h[5] = s.flags, s.coding
	le.PutUint64(h[8:], s.length)
	le.PutUint32(h[16:], s.sum)
	le.PutUint32(h[20:], crc32c.Sum(h[:20]))
	return h
}

// decodeSection reports false where the sum or what is reserved is not right.
func decodeSection(h *[sectionBytes]byte) (section, bool) {
	s := section{string(h[:4]), h[4], h[5], le.Uint64(h[8:]), le.Uint32(h[16:])}
	return s, crc32c.Sum(h[:20]) == le.Uint32(h[20:]) && le.Uint16(h[6:]) == 0
}
