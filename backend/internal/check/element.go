package check

import (
	"encoding/binary"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Element is v as one element of dt, in the first bytes of what it returns: the
// value of a fill, rounded to the type. An integer type must be able to hold it
// (ErrShape); the types that need a scale beside them take 0 only (ErrUnsupported).
func Element(op string, dt backend.DType, v float64) (element [8]byte, err error) {
	c := checker{op: op}
	switch dt {
	case backend.F32:
		binary.NativeEndian.PutUint32(element[:], math.Float32bits(float32(v)))
	case backend.F16:
		binary.NativeEndian.PutUint16(element[:], quant.F16(float32(v)))
	case backend.BF16:
		binary.NativeEndian.PutUint16(element[:], quant.BF16(float32(v)))
	case backend.FP8E4M3, backend.FP8E5M2, backend.Int8Asym, backend.Int4, backend.Int4G64, backend.Int4Channel:
		if v != 0 {
			c.unsupported("%v in a buffer of %s", v, dt)
		}
	default:
		lowest, limit := integers(dt)
		whole := math.RoundToEven(v)
		if !(whole >= lowest && whole < limit) {
			c.shape("value: have %v, need one that %s holds", v, dt)
			break
		}
		switch bits := int64(whole); dt.Bits() {
		case 8:
			element[0] = byte(bits)
		case 32:
			binary.NativeEndian.PutUint32(element[:], uint32(bits))
		default:
			binary.NativeEndian.PutUint64(element[:], uint64(bits))
		}
	}
	return element, c.err
}

// integers is the lowest value of an integer type, and the first one above its highest.
func integers(dt backend.DType) (lowest, limit float64) {
	if dt == backend.U32 {
		return 0, 1 << 32
	}
	limit = math.Ldexp(1, dt.Bits()-1)
	return -limit, limit
}
