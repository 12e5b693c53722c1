//go:build !noasm

package cpu

import (
	"math"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// scorer is an assembly function that sets dst[r*stride+j] to the product of query row r, of at
// most rowsAtOnce, and key j, of at least keysAtLeast that are row bytes apart. A key's scales are
// scale bytes behind those of the key before, and go with group elements each. As many bytes as
// it reads of keys it fetches from ahead on.
type scorer func(dst *float32, stride, rows, n int, q *float32, dim int, keys *byte, row int, scales *float32, scale, group int, ahead *byte)

const (
	rowsAtOnce  = 4
	keysAtLeast = 4
)

// scorers is the assembly of a tier.
type scorers struct {
	by       [types]scorer
	pairs    func(dst *float32, words *uint32, n int, part float32)
	words    int // what pairs takes a multiple of
	channels func(zeros, scaled *float32, words *uint32, q *float32, dim, rows int, part float32)
}

// scorersOf is that of each tier.
var scorersOf = map[string]*scorers{"avx512": {
	by: [types]scorer{
		backend.F32: scoreF32AVX512, backend.F16: scoreF16AVX512, backend.BF16: scoreBF16AVX512,
		backend.Int8: scoreInt8AVX512, backend.Int8Asym: scoreInt8AsymAVX512, backend.FP8E4M3: scoreE4M3AVX512, backend.FP8E5M2: scoreE5M2AVX512,
		backend.Int4: scoreInt4AVX512, backend.Int4G64: scoreInt4AVX512, backend.Int4Channel: scoreInt4ChannelAVX512,
	},
	pairs: pairsAVX512, words: 8, channels: channelsAVX512,
}, "avx2": {
	by: [types]scorer{
		backend.F32: scoreF32AVX2, backend.F16: scoreF16AVX2, backend.BF16: scoreBF16AVX2,
		backend.Int8: scoreInt8AVX2, backend.Int8Asym: scoreInt8AsymAVX2, backend.FP8E4M3: scoreE4M3AVX2, backend.FP8E5M2: scoreE5M2AVX2,
		backend.Int4: scoreInt4AVX2, backend.Int4G64: scoreInt4AVX2, backend.Int4Channel: scoreInt4ChannelAVX2,
	},
	pairs: pairsAVX2, words: 4, channels: channelsAVX2,
}}

// scores sets score to that of k's tier.
func (k *kernels) scores() {
	s := scorersOf[k.name]
	for dt, by := range s.by {
		if by != nil {
			k.score[dt] = s.score
		}
	}
}

// score is kernels.score. scratch is for chunk keys.
func (s *scorers) score(dst []float32, stride int, q []float32, keys stored, scratch []float32) {
	dim, n := keys.dim, keys.rows()
	rows := len(q) / dim
	switch {
	case dim%unit != 0:
		portable.score[keys.dt](dst, stride, q, keys, scratch)
		return
	case n == 0 || rows == 0:
		return
	case n < keysAtLeast:
		s.few(dst, stride, q, keys, scratch)
		return
	}
	row := dim * keys.dt.Bits() / 8
	_, _ = dst[(rows-1)*stride+n-1], keys.data[n*row-1]
	scales, scale, group, scratch := s.scales(&keys, scratch)
	ahead := keys.ahead
	if ahead == nil {
		ahead = &keys.data[0]
	}
	by := s.by[keys.dt]
	for r := 0; r < rows; r += rowsAtOnce {
		some, x := min(rowsAtOnce, rows-r), &q[r*dim]
		if keys.dt == backend.Int4Channel {
			zeros, scaled := scratch[:dim], scratch[dim:][:rowsAtOnce*dim]
			s.channels(&zeros[0], &scaled[0], &keys.scales[:dim][0], x, dim, some, 1.0/16)
			scales, x = &zeros[0], &scaled[0]
		}
		by(&dst[r*stride], stride, some, n, x, dim, &keys.data[0], row, scales, scale, group, ahead)
		ahead = &keys.data[0] // once is enough
	}
}

// scales is what a scorer needs to know of the scales of keys, and what is left of scratch.
func (s *scorers) scales(keys *stored, scratch []float32) (scales *float32, scale, group int, rest []float32) {
	n := keys.rows()
	switch dt := keys.dt; dt {
	case backend.Int8:
		return &floatsOf(keys.scales[:n])[0], 4, 0, scratch
	case backend.FP8E4M3, backend.FP8E5M2:
		f := math.Float32frombits(keys.scales[0])
		if dt == backend.FP8E4M3 {
			f *= 256 // see loadE4M3 in kernels/asm/amd64
		}
		scratch = scratch[:n]
		for i := range scratch {
			scratch[i] = f
		}
		return &scratch[0], 4, 0, nil
	case backend.Int8Asym, backend.Int4, backend.Int4G64:
		a, _ := quant.AffineOf(dt)
		words := a.Words(keys.dim)
		s.unpack(scratch[:2*n*words], keys.scales[:n*words], a.Bits)
		group = keys.dim
		if a.Group > 0 {
			group = a.Group
		}
		return &scratch[0], 8 * words, group, nil
	}
	return nil, 0, 0, scratch
}

// unpack sets dst to the step of each word, and behind it what its code 0 is worth.
func (s *scorers) unpack(dst []float32, words []uint32, bits int) {
	n := len(words) / s.words * s.words
	if n > 0 {
		s.pairs(&dst[:2*n][0], &words[0], n, 1/float32(int(1)<<(8-bits)))
	}
	for i, w := range words[n:] {
		dst[2*(n+i)], dst[2*(n+i)+1] = quant.Word(w).Step(), quant.Word(w).Value(0, bits)
	}
}

// few scores fewer keys than the assembly does, as if the last one came several times.
func (s *scorers) few(dst []float32, stride int, q []float32, keys stored, scratch []float32) {
	n, dim := keys.rows(), keys.dim
	same := keys
	same.data, scratch = repeated(bytesOf(scratch), keys.data, n), scratch[dim*keysAtLeast:]
	if words := len(keys.scales) / n; keys.dt.Groups(dim) > 0 {
		same.scales, scratch = repeated(of[uint32](bytesOf(scratch)), keys.scales, n), scratch[words*keysAtLeast:]
	}
	sums, scratch := scratch[:rowsAtOnce*keysAtLeast], scratch[rowsAtOnce*keysAtLeast:]
	for ; len(q) > 0; q = q[min(rowsAtOnce*dim, len(q)):] {
		some := q[:min(rowsAtOnce*dim, len(q))]
		s.score(sums, keysAtLeast, some, same, scratch)
		for r := range len(some) / dim {
			copy(dst[r*stride:][:n], sums[r*keysAtLeast:])
		}
		dst = dst[min(rowsAtOnce*stride, len(dst)):]
	}
}

// repeated sets dst to n equal parts of src, and to the last of them again until there are
// keysAtLeast.
func repeated[T any](dst, src []T, n int) []T {
	part := len(src) / n
	dst = dst[:keysAtLeast*part]
	for i := copy(dst, src); i < len(dst); {
		i += copy(dst[i:], src[len(src)-part:])
	}
	return dst
}

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

func floatsOf(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}
