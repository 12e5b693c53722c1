//go:build !noasm

package cpu

import (
	"math"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// scorer is an assembly function that sets dst[r*stride+j] to the product of query row r, of at
// most rowsAtOnce that are qRow bytes apart, and key j of runs, each of at least
// keysAtLeast that are row bytes apart. The factors of a key are scale bytes after those of the
// key before, and go with group elements each. As many bytes as it reads of keys it fetches from
// where a run says that the next ones are, and into the second-level cache those after.
type scorer func(dst *float32, stride, rows int, q *float32, qRow int, qScales *float32, keys *byte, runs, row int, zeros *float32, scale, group int)

const (
	rowsAtOnce  = 4
	keysAtLeast = fewKeys
)

// scorers is the assembly of a tier.
type scorers struct {
	scores, products   [types]scorer
	pairs, doublePairs func(dst *float32, words *uint32, n int, part float32)
	words              int // what pairs takes a multiple of
	exponents          func(dst *float32, scales *uint32, rows, words, groups int, step, zero float32)
	minifactors        func(dst *float32, scales *uint32, rows, words, groups int, step, zero float32)
	channels           func(zeros, scaled *float32, words *uint32, q *float32, dim, rows int, part float32)
	rowSums            func(sums *int32, q *byte, dim, rows int)
	splitRows          func(dst, q *byte, dim, rows int)
	unzipRows          func(dst, q *float32, dim, rows int) // nil: keys of 4 bits come in order
	fetch              func(runs *byte, n, words int)
	split, splitBytes  int // codes that splitRows takes at once, and the bytes that it makes of them
}

// scorersOf is that of each tier.
var scorersOf = map[string]*scorers{"avx512": {
	scores: perCode[scorer]{
		f32: scoreF32AVX512, f16: scoreF16AVX512, bf16: scoreBF16AVX512, signed8: scoreInt8AVX512, unsigned8: scoreInt8AsymAVX512,
		unsigned4: scoreInt4AVX512, wide4: scoreInt4AVX512, channels4: scoreInt4ChannelAVX512, float4: scoreE2M1AVX512, scaled4: scoreE2M1AVX512,
		float8e4m3: scoreE4M3AVX512, float8e5m2: scoreE5M2AVX512,
	}.table(),
	products: perCode[scorer]{
		signed8: productInt8AVX512, unsigned8: productInt8AsymAVX512, unsigned4: productInt4AVX512, wide4: productInt4AVX512, float4: productE2M1AVX512,
	}.table(),
	pairs: pairsAVX512, doublePairs: doublePairsAVX512, words: 8, channels: channelsAVX512, exponents: exponentsAVX512, minifactors: minifactorsAVX512,
	rowSums: rowSumsAVX512, splitRows: splitRowsAVX512, unzipRows: unzipRowsAVX512, split: 128, splitBytes: 192, fetch: fetchAVX512,
}, "avx2": {
	scores: perCode[scorer]{
		f32: scoreF32AVX2, f16: scoreF16AVX2, bf16: scoreBF16AVX2, signed8: scoreInt8AVX2, unsigned8: scoreInt8AsymAVX2,
		unsigned4: scoreInt4AVX2, wide4: scoreInt4AVX2, channels4: scoreInt4ChannelAVX2, float4: scoreE2M1AVX2, scaled4: scoreE2M1AVX2,
		float8e4m3: scoreE4M3AVX2, float8e5m2: scoreE5M2AVX2,
	}.table(),
	products: perCode[scorer]{
		signed8: productInt8AVX2, unsigned8: productInt8AsymAVX2, unsigned4: productInt4AVX2, wide4: productInt4AVX2, float4: productE2M1AVX2,
	}.table(),
	pairs: pairsAVX2, doublePairs: doublePairsAVX2, words: 4, channels: channelsAVX2, exponents: exponentsAVX2, minifactors: minifactorsAVX2,
	rowSums: rowSumsAVX2, splitRows: splitRowsAVX2, split: 32, splitBytes: 64, fetch: fetchAVX2,
}}

// scores sets score, scoreInt8 and fetch to those of k's tier.
func (k *kernels) scores() {
	s := scorersOf[k.name]
	k.fetch = func(runs []stored, words int) { s.fetch(addressOf(runs), len(runs), words) }
	for dt := range s.scores {
		if s.scores[dt] != nil {
			k.score[dt] = s.score
		}
		if s.products[dt] != nil {
			k.scoreInt8[dt] = s.scoreInt8
		}
	}
}

// score is kernels.score. scratch is for chunk keys.
func (s *scorers) score(dst []float32, stride int, q []float32, keys []stored, scratch []float32) {
	dt, dim := keys[0].dt, keys[0].dim
	if dim%unit != 0 {
		portable.score[dt](dst, stride, q, keys, scratch)
		return
	}
	if runs, n := together(keys); runs == len(keys) && len(q) > 0 { // the most frequent one, which parts would slow down
		s.runs(dst, stride, q, keys, n, scratch)
		return
	}
	parts(dst, stride, len(q)/dim, keys, scratch, func(dst []float32, stride, from, to int, keys []stored, n int, scratch []float32) {
		s.runs(dst, stride, q[from*dim:to*dim], keys, n, scratch)
	})
}

// parts scores keys for all rows: runs of enough keys together, and others by themselves, repeated,
// for as few rows as a scorer takes. do sets rows of dst to the scores of query rows [from, to) and n
// keys.
func parts(dst []float32, stride, rows int, keys []stored, scratch []float32, do func(dst []float32, stride, from, to int, keys []stored, n int, scratch []float32)) {
	for len(keys) > 0 && rows > 0 {
		runs, n := together(keys)
		if runs > 0 {
			do(dst, stride, 0, rows, keys[:runs], n, scratch)
		} else if runs, n = 1, keys[0].n; n > 0 {
			few := keys[0]
			same, sums, scratch := few.repeated(scratch)
			keys[0] = same
			for r := 0; r < rows; r += rowsAtOnce {
				end := min(r+rowsAtOnce, rows)
				do(sums, keysAtLeast, r, end, keys[:1], keysAtLeast, scratch)
				copyRows(dst[r*stride:], stride, sums, n, end-r)
			}
			keys[0] = few
		}
		keys, dst = keys[runs:], dst[n:]
	}
}

// together is how many runs a scorer takes at once, from the first on, and how many keys they have.
func together(keys []stored) (runs, n int) {
	for ; runs < len(keys) && keys[runs].n >= keysAtLeast; runs++ {
		if runs == 1 && keys[0].dt.Coding().Scope == backend.ByChannel { // whose factors are a block's
			break
		}
		n += keys[runs].n
	}
	return runs, n
}

// inside panics where there is less data than runs of rows say.
func inside(runs []stored) {
	row := runs[0].pitch() * runs[0].dt.Bits() / 8
	for i := range runs {
		_ = runs[i].data[runs[i].n*row-1]
	}
}

// runs is score for n keys of runs that a scorer takes.
func (s *scorers) runs(dst []float32, stride int, q []float32, keys []stored, n int, scratch []float32) {
	dt, dim := keys[0].dt, keys[0].dim
	channels, rows := dt.Coding().Scope == backend.ByChannel, len(q)/dim
	inside(keys)
	_ = dst[(rows-1)*stride+n-1]
	scale, scratch := s.factors(keys, scratch)
	for r := 0; r < rows; r += rowsAtOnce {
		some, x, zeros := min(rowsAtOnce, rows-r), &q[r*dim], (*float32)(nil)
		switch {
		case dt.Bits() == 4 && !channels && s.unzipRows != nil && keys[0].group() >= groupAtOnce:
			unzipped := &scratch[:rowsAtOnce*dim][0]
			s.unzipRows(unzipped, x, dim, some)
			x = unzipped
		case channels:
			zeros = &scratch[:dim][0]
			scaled := scratch[dim:][:rowsAtOnce*dim]
			s.channels(zeros, &scaled[0], &keys[0].scales[:dim][0], x, dim, some, 1.0/16)
			x = &scaled[0]
		}
		s.scores[dt](&dst[r*stride], stride, some, x, 4*dim, nil, addressOf(keys), len(keys), dim*dt.Bits()/8, zeros, scale, keys[0].group())
		if r+some < rows {
			fetched(keys)
		}
	}
}

// fetched notes of runs that what comes after them was asked for: once is enough.
func fetched(runs []stored) {
	for i := range runs {
		runs[i].ahead, runs[i].later = nil, nil
	}
}

// addressOf is that of runs, as assembly takes it.
func addressOf(runs []stored) *byte { return (*byte)(unsafe.Pointer(&runs[0])) }

// factors sets those of runs to what a scorer or mixer needs to know of their scales, as many
// bytes for each row, and is what is left of scratch.
func (s *scorers) factors(runs []stored, scratch []float32) (bytes int, rest []float32) {
	switch c := runs[0].dt.Coding(); {
	case c.Scope == backend.ByHead:
		return repeatedScales(runs, scratch)
	case c.Scope == backend.ByGroup && c.Scale == backend.Factor:
		return asTheyAre(runs), scratch
	case c.Scope == backend.ByGroup && c.Scale == backend.StepZero:
		return s.unpacked(runs, 1, scratch)
	case c.Scale.PerWord() > 1:
		return s.steps(runs, 1, 0, scratch)
	}
	return 0, scratch
}

// asTheyAre is factors of one word for each row.
func asTheyAre(runs []stored) (bytes int) {
	for i := range runs {
		runs[i].factors = &floatsOf(runs[i].scales[:runs[i].n])[0]
	}
	return 4
}

// repeatedScales is factors of a scale that all rows share, one for each.
func repeatedScales(runs []stored, scratch []float32) (bytes int, rest []float32) {
	for i := range runs {
		f, same := math.Float32frombits(runs[i].scales[0]), scratch[:runs[i].n]
		if runs[i].dt.Coding().Code == backend.E4M3 {
			f *= 256 // see loadE4M3 in kernels/asm/amd64
		}
		for j := range same {
			same[j] = f
		}
		runs[i].factors, scratch = &same[0], scratch[len(same):]
	}
	return 4, scratch
}

// unpacked is factors of pairs (see unpack), each once or twice.
func (s *scorers) unpacked(runs []stored, times int, scratch []float32) (bytes int, rest []float32) {
	words, bits := runs[0].dt.ScaleWords(runs[0].pitch()), runs[0].dt.Bits()
	for i := range runs {
		pairs := scratch[:2*runs[i].n*words*times]
		s.unpack(pairs, runs[i].scales[:runs[i].n*words], bits, times)
		runs[i].factors, scratch = &pairs[0], scratch[len(pairs):]
	}
	return 8 * words * times, scratch
}

// unpack sets dst to the step of each word, and after it what its code 0 is worth, once or twice.
func (s *scorers) unpack(dst []float32, words []uint32, bits, times int) {
	by, part := s.pairs, 1/float32(int(1)<<(8-bits))
	if times == 2 {
		by = s.doublePairs
	}
	if n := len(words) / s.words * s.words; n > 0 {
		by(&dst[:2*times*n][0], &words[0], n, part)
		dst, words = dst[2*times*n:], words[n:]
	}
	for _, w := range words {
		for range times {
			dst[0], dst[1] = quant.Word(w).Step(), quant.Word(w).Value(0, bits)
			dst = dst[2:]
		}
	}
}

// steps is factors of pairs: a group's byte, and what the head has, times what a step and what code 0 are
// worth.
func (s *scorers) steps(runs []stored, step, zero float32, scratch []float32) (bytes int, rest []float32) {
	dt, dim := runs[0].dt, runs[0].pitch()
	words, groups, unpack := dt.ScaleWords(dim), ceilDiv(dim, runs[0].group()), s.exponents
	if dt.HeadFactors() {
		unpack = s.minifactors
	}
	for i := range runs {
		step := step
		if dt.HeadFactors() {
			step *= runs[i].factor
		}
		rows := runs[i].n
		pairs := scratch[:2*groups*rows+beyondPairs]
		scales := runs[i].scales[:rows*words]
		if groups == 4*words { // no byte is left over: all are those of one row
			unpack(&pairs[0], &scales[0], 1, len(scales), 4*len(scales), step, zero)
		} else {
			unpack(&pairs[0], &scales[0], rows, words, groups, step, zero)
		}
		runs[i].factors, scratch = &pairs[0], scratch[2*groups*rows:]
	}
	return 8 * groups, scratch
}

// beyondPairs is how many elements exponents writes after the last pair.
const beyondPairs = 6

// repeated is keys of which the last one comes several times, so that there are enough for
// a scorer, room for the scores of a few rows, and what is left of scratch.
func (s stored) repeated(scratch []float32) (same stored, scores, rest []float32) {
	n := s.n
	scores, rest = scratch[:rowsAtOnce*keysAtLeast], scratch[rowsAtOnce*keysAtLeast:]
	if s.dt.ScaleWords(s.dim) > 0 {
		s.scales = repeat(of[uint32](bytesOf(rest)), s.scales, n)
		rest = rest[len(s.scales):]
	}
	s.data, s.n = repeat(bytesOf(rest), s.data, n), keysAtLeast
	return s, scores, rest[len(s.data)/4:]
}

// repeat sets dst to the n parts of src, and to the last of them again until there are enough.
func repeat[T any](dst, src []T, n int) []T {
	part := len(src) / n
	dst = dst[:keysAtLeast*part]
	for i := copy(dst, src); i < len(dst); {
		i += copy(dst[i:], src[len(src)-part:])
	}
	return dst
}

// copyRows sets rows of n elements to the beginnings of those of src.
func copyRows(dst []float32, stride int, src []float32, n, rows int) {
	for r := range rows {
		copy(dst[r*stride:][:n], src[r*keysAtLeast:])
	}
}

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

func floatsOf(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}
