package check

import (
	"encoding/binary"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Element is v as one element of dt, in the first bytes of what it returns: the
// value of a fill, rounded to the type. An integer type, signed codes
// among them, must be able to hold it (ErrArgument); other codes take 0 only (ErrUnsupported).
func Element(op string, dt backend.DType, v float64) (element [8]byte, err error) {
	c := checker{op: op}
	switch dt {
	case backend.F32:
		binary.NativeEndian.PutUint32(element[:], math.Float32bits(float32(v)))
	case backend.F16:
		binary.NativeEndian.PutUint16(element[:], quant.F16(float32(v)))
	case backend.BF16:
		binary.NativeEndian.PutUint16(element[:], quant.BF16(float32(v)))
	default:
		if code := dt.Coding().Code; code != backend.Integer && code != backend.Signed {
			if v != 0 {
				c.unsupported("%v in a buffer of %s", v, dt)
			}
			break
		}
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
