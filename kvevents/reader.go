// A reader of MessagePack, in all forms that publishers may use.

package kvevents

import (
	"errors"
	"math"
)

var (
	errShort = errors.New("it ends too early")
	errDeep  = errors.New("values are nested too deeply")
	errCode  = errors.New("a byte begins no value of MessagePack")
)

// kind is what a value is.
type kind byte

const (
	isNil kind = iota
	isBool
	isUint
	isInt // negative
	isFloat
	isString
	isBytes
	isArray
	isMap
	isExtension
)

var kindNames = [...]string{"nil", "a bool", "an integer", "a negative integer", "a float", "a string", "bytes", "an array", "a map", "an extension"}

// value is the head of a value: what it is, and its number, or the number of its bytes or elements.
type value struct {
	kind kind
	n    uint64 // an integer in two's complement, the bits of a float64
}

// reader reads values one after another. A length that is longer than the bytes that are there is an error before anything is done with it.
type reader struct {
	b []byte
	i int
}

// take is the next n bytes.
func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.b)-r.i) {
		return nil, errShort
	}
	b := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	return b, nil
}

// number is the next n bytes as a number.
func (r *reader) number(n uint64) (x uint64, err error) {
	b, err := r.take(n)
	for _, c := range b {
		x = x<<8 | uint64(c)
	}
	return x, err
}

// wide has what codes from 0xc4 on are, and the bytes of their number or length.
var wide = [...]struct {
	kind  kind
	bytes uint64
}{
	0: {isBytes, 1}, {isBytes, 2}, {isBytes, 4}, {isExtension, 1}, {isExtension, 2}, {isExtension, 4}, {isFloat, 4}, {isFloat, 8},
	0xcc - 0xc4: {isUint, 1}, {isUint, 2}, {isUint, 4}, {isUint, 8}, {isInt, 1}, {isInt, 2}, {isInt, 4}, {isInt, 8},
	0xd9 - 0xc4: {isString, 1}, {isString, 2}, {isString, 4}, {isArray, 2}, {isArray, 4}, {isMap, 2}, {isMap, 4},
}

// head reads the head of the next value.
func (r *reader) head() (v value, err error) {
	b, err := r.take(1)
	if err != nil {
		return v, err
	}
	switch c := b[0]; {
	case c < 0x80:
		return value{isUint, uint64(c)}, nil
	case c < 0x90:
		v = value{isMap, uint64(c & 15)}
	case c < 0xa0:
		v = value{isArray, uint64(c & 15)}
	case c < 0xc0:
		v = value{isString, uint64(c & 31)}
	case c >= 0xe0:
		return value{isInt, uint64(int64(int8(c)))}, nil
	case c == codeNil:
		return value{isNil, 0}, nil
	case c == 0xc1:
		return v, errCode
	case c < 0xc4:
		return value{isBool, uint64(c & 1)}, nil
	case c >= 0xd4 && c < 0xd9: // extensions of 1, 2, 4, 8 and 16 bytes
		v = value{isExtension, 1 << (c - 0xd4)}
	default:
		w := wide[c-0xc4]
		if v.n, err = r.number(w.bytes); err != nil {
			return v, err
		}
		v.kind = w.kind
		switch {
		case v.kind == isInt:
			shift := 64 - 8*w.bytes
			if v.n = uint64(int64(v.n<<shift) >> shift); int64(v.n) >= 0 {
				v.kind = isUint
			}
		case v.kind == isFloat && w.bytes == 4:
			v.n = math.Float64bits(float64(math.Float32frombits(uint32(v.n))))
		}
	}
	left, need := uint64(len(r.b)-r.i), v.n
	switch v.kind {
	case isMap:
		need *= 2
	case isExtension:
		need++
	case isString, isBytes, isArray:
	default:
		return v, nil
	}
	if need > left {
		return v, errShort
	}
	return v, nil
}

// skip reads what follows the head of a value, to its end.
func (r *reader) skip(v value, depth int) error {
	n := v.n
	switch v.kind {
	case isString, isBytes, isExtension:
		if v.kind == isExtension {
			n++ // its type
		}
		_, err := r.take(n)
		return err
	case isMap:
		n *= 2
	case isArray:
	default:
		return nil
	}
	if depth >= deepest {
		return errDeep
	}
	for ; n > 0; n-- {
		v, err := r.head()
		if err == nil {
			err = r.skip(v, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// raw is the next value as it was sent.
func (r *reader) raw() ([]byte, error) {
	from := r.i
	v, err := r.head()
	if err == nil {
		err = r.skip(v, 0)
	}
	return r.b[from:r.i], err
}
