package runner

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/ferrumkv/ferrumkv/cmd/internal/product"
)

// exponents is the bits in eight bytes of numbers that are all set in an infinity and in what is not a number, and in no other number, and the
// lowest bit of each.
var exponents = map[string][2]uint64{
	"F32":  {0x7f800000_7f800000, 0x00800000_00800000},
	"F16":  {0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400},
	"BF16": {0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080},
	float8: {0x7f7f7f7f_7f7f7f7f, 0x01010101_01010101},
}

const (
	largeScale = 1 << 118 // times any number of 4 or 8 bits is finite
	scanRate   = 4        // bytes that a thread looks at in a nanosecond, about
)

// share divides n rows of some bytes among the processors.
func (a *archive) share(bytes, n int, f func(from, to int)) {
	split(a.name, parts(runtime.GOMAXPROCS(0), n, bytes/scanRate), n, f)
}

// allFinite gives the file up for the first element of a tensor, as the matrix m, that is infinite or not a number. Few rows are decoded for it.
func (a *archive) allFinite(t tensor, m *product.Matrix) {
	var lock sync.Mutex
	first, value := math.MaxInt, float32(0)
	a.share(len(t.data), m.Rows, func(from, to int) {
		var row []float32
		for r := from; r < to; r++ {
			if !t.doubtful(r, m.Cols) {
				continue
			}
			row = slices.Grow(row[:0], m.Cols)[:m.Cols]
			m.Row(row, r)
			if i := slices.IndexFunc(row, infinite); i >= 0 {
				lock.Lock()
				defer lock.Unlock()
				if at := r*m.Cols + i; at < first {
					first, value = at, row[i]
				}
				return
			}
		}
	})
	a.need(first == math.MaxInt, "tensor "+t.name, "element %d is %v", first, value)
}

// infinite reports whether a number is infinite or not a number.
func infinite(v float32) bool { return v-v != 0 }

// doubtful is false for a row of a tensor whose scales and exponents tell that all of its elements are finite.
func (t *tensor) doubtful(r, cols int) bool {
	e := encodings[t.encoding]
	stride := cols / e.group * e.bytes
	row, scales := t.data[r*stride:(r+1)*stride], ggml.Scales[t.encoding]
	for col := 0; t.scale != nil && col < cols; col += t.run {
		if !(math.Abs(float64(t.scale(r, col))) < largeScale) {
			return true
		}
	}
	if bits, ok := exponents[t.encoding]; ok {
		return allSet(row, bits[0], bits[1])
	}
	for at := 0; at < len(row) && scales != nil; at += e.bytes {
		for _, s := range scales {
			if row[at+s+1]&0x7c == 0x7c { // the largest exponent
				return true
			}
		}
	}
	if t.encoding == "MXFP4" {
		for at := 0; at < len(row); at += e.bytes {
			if row[at] > 252 { // 6 times 2^(252-127) is finite
				return true
			}
		}
		return false
	}
	return scales == nil && t.encoding != mxfp4
}

// allSet reports whether a number in data has all bits of a mask, of which low has the lowest one: adding that carries into the bit above.
func allSet(data []byte, mask, low uint64) bool {
	var found uint64
	for ; len(data) >= 8; data = data[8:] {
		found |= le.Uint64(data)&mask + low
	}
	var rest [8]byte
	copy(rest[:], data)
	found |= le.Uint64(rest[:])&mask + low
	return found&(mask+low)&^mask != 0
}
