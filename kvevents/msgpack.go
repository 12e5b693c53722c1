// MessagePack as engines write it: msgspec uses the shortest form of everything.

package kvevents

import (
	"encoding/binary"
	"math"
)

var be = binary.BigEndian

const (
	codeNil     = 0xc0
	codeFloat64 = 0xcb
	deepest     = 32 // that values may be nested
)

func appendNil(dst []byte) []byte { return append(dst, codeNil) }

func appendFloat(dst []byte, x float64) []byte {
	return be.AppendUint64(append(dst, codeFloat64), math.Float64bits(x))
}

func appendUint(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(dst, byte(n))
	case n < 1<<8:
		return append(dst, 0xcc, byte(n))
	case n < 1<<16:
		return be.AppendUint16(append(dst, 0xcd), uint16(n))
	case n < 1<<32:
		return be.AppendUint32(append(dst, 0xce), uint32(n))
	}
	return be.AppendUint64(append(dst, 0xcf), n)
}

func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, 0xd0, byte(n))
	case n >= math.MinInt16:
		return be.AppendUint16(append(dst, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return be.AppendUint32(append(dst, 0xd2), uint32(n))
	}
	return be.AppendUint64(append(dst, 0xd3), uint64(n))
}

// appendLength appends the code of a thing of n elements: the short one, where the thing has one, and those with lengths of 8, 16 and 32 bits; a 0 is none.
func appendLength(dst []byte, n int, short byte, most int, codes [3]byte) []byte {
	switch {
	case n < most:
		return append(dst, short|byte(n))
	case n < 1<<8 && codes[0] != 0:
		return append(dst, codes[0], byte(n))
	case n < 1<<16:
		return be.AppendUint16(append(dst, codes[1]), uint16(n))
	}
	return be.AppendUint32(append(dst, codes[2]), uint32(n))
}

func appendString(dst []byte, s string) []byte {
	return append(appendLength(dst, len(s), 0xa0, 32, [3]byte{0xd9, 0xda, 0xdb}), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(appendLength(dst, len(b), 0, 0, [3]byte{0xc4, 0xc5, 0xc6}), b...)
}

func appendArray(dst []byte, n int) []byte {
	return appendLength(dst, n, 0x90, 16, [3]byte{0, 0xdc, 0xdd})
}

func appendMap(dst []byte, n int) []byte {
	return appendLength(dst, n, 0x80, 16, [3]byte{0, 0xde, 0xdf})
}
