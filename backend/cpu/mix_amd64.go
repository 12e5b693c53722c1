//go:build !noasm

package cpu

// mixer is an assembly function for kernels.mix: runs of values of a dim that is a multiple of 16, row bytes apart.
// The factors of a value are scale bytes after those of the value before; a scale of a whole
// value is in p. It fetches as a scorer does.
type mixer func(acc, shrink, p *float32, stride int, values *byte, runs, dim, rows, scale, row int)

// mixers is the assembly of a tier.
type mixers struct {
	by [types]mixer
	// fold sets rows of dst, width elements apart, to rows of p times the factors of values.
	fold func(dst, p *float32, stride, width, rows int, values *byte, runs int)
	// words is a mixer of Int8 by weights of 16 bits, which round makes in steps.
	words func(acc, shrink, steps *float32, weights *uint16, stride int, values *byte, runs, dim, rows, row int)
	round func(dst *uint16, steps, src *float32, stride, n, rows int)
	*scorers
}

// mixersOf is that of each tier.
var mixersOf = map[string]*mixers{"avx512": {
	by: perCode[mixer]{
		f32: mixF32AVX512, f16: mixF16AVX512, bf16: mixBF16AVX512, signed8: mixInt8AVX512, unsigned8: mixInt8AsymAVX512,
		unsigned4: mixInt4AVX512, wide4: mixInt4G64AVX512, float4: mixE2M1AVX512, scaled4: mixE2M1G16AVX512, float8e4m3: mixE4M3AVX512, float8e5m2: mixE5M2AVX512,
	}.table(),
	fold: foldAVX512, words: mixWordsAVX512, round: roundRowsAVX512, scorers: scorersOf["avx512"],
}, "avx2": {
	by: perCode[mixer]{
		f32: mixF32AVX2, f16: mixF16AVX2, bf16: mixBF16AVX2, signed8: mixInt8AVX2, unsigned8: mixInt8AsymAVX2,
		unsigned4: mixInt4AVX2, wide4: mixInt4G64AVX2, float4: mixE2M1AVX2, scaled4: mixE2M1G16AVX2, float8e4m3: mixE4M3AVX2, float8e5m2: mixE5M2AVX2,
	}.table(),
	fold: foldAVX2, words: mixWordsAVX2, round: roundRowsAVX2, scorers: scorersOf["avx2"],
}}

// mixes sets mix to that of k's tier.
func (k *kernels) mixes() {
	m := mixersOf[k.name]
	k.exact = false
	for dt, by := range m.by {
		if by != nil {
			k.mix[dt] = m.mix
		}
	}
	for dt, by := range (perCode[bool]{signed8: true}).table() {
		if by {
			k.mixInt8[dt] = m.mixInt8
		}
	}
}

// count is how many rows runs have.
func count(runs []stored) (n int) {
	for i := range runs {
		n += runs[i].n
	}
	return n
}

// mixInt8 is kernels.mixInt8, for values of a dim that is a multiple of 32.
func (m *mixers) mixInt8(acc, shrink, p []float32, stride int, values []stored, scratch []float32, mix mixing) {
	dim, n := values[0].dim, count(values)
	if dim%32 != 0 || n == 0 || n > chunk {
		mix(acc, shrink, p, stride, values, scratch)
		return
	}
	inside(values)
	m.factors(values, scratch)
	steps, rest := scratch[:rowsAtOnce], scratch[rowsAtOnce:]
	folded, rest := rest[:rowsAtOnce*n], rest[rowsAtOnce*n:]
	words := of[uint16](bytesOf(rest[:rowsAtOnce*chunk/2]))
	for r := 0; r < len(shrink); r += rowsAtOnce {
		some := min(rowsAtOnce, len(shrink)-r)
		if r > 0 {
			fetched(values)
		}
		_, _ = acc[(r+some)*dim-1], p[(r+some-1)*stride+n-1]
		m.fold(&folded[0], &p[r*stride], stride, n, some, addressOf(values), len(values))
		m.round(&words[0], &steps[0], &folded[0], chunk, n, some)
		if finite(steps[:some]) {
			m.words(&acc[r*dim], &shrink[r], &steps[0], &words[0], chunk, addressOf(values), len(values), dim, some, values[0].pitch())
			continue
		}
		var others [rowsAtOnce]bool
		for i := range some {
			at, row := r+i, folded[i*n:][:n]
			if isNaN(steps[i]) { // maybe only for values that the row does not see
				clearUnseen(row, p[at*stride:])
				m.round(&words[i*chunk], &steps[i], &row[0], chunk, n, 1)
			}
			if others[i] = isNaN(steps[i]); !others[i] {
				m.words(&acc[at*dim], &shrink[at], &steps[i], &words[i*chunk], chunk, addressOf(values), len(values), dim, 1, values[0].pitch())
			}
		}
		for i, other := range others { // which needs the scratch
			if at := r + i; other {
				mix(acc[at*dim:][:dim], shrink[at:at+1], p[at*stride:][:n], n, values, scratch)
			}
		}
	}
}

func isNaN(x float32) bool { return x != x }

// clearUnseen sets the products of weights that are 0 to 0, whatever they were multiplied with.
func clearUnseen(products, weights []float32) {
	for j := range products {
		if weights[j] == 0 {
			products[j] = 0
		}
	}
}

// mix is kernels.mix. scratch is for as many values.
func (m *mixers) mix(acc, shrink, p []float32, stride int, values []stored, scratch []float32) {
	dt, dim, rows, n := values[0].dt, values[0].dim, len(shrink), count(values)
	if dim%unit != 0 || n == 0 || rows == 0 {
		portable.mix[dt](acc, shrink, p, stride, values, scratch)
		return
	}
	inside(values)
	_, _ = acc[rows*dim-1], p[(rows-1)*stride+n-1]
	scale, folded := m.factors(values, scratch)
	row := values[0].pitch() * dt.Bits() / 8
	most := rows
	if scale == 4 { // a factor for each value goes into its weights
		most = len(folded) / n
	}
	for done := 0; done < rows; {
		some := min(most, rows-done)
		if done == 0 {
			some = min(some, rowsAtOnce) // which fetch
		} else {
			fetched(values)
		}
		weights, stride, scale := &p[done*stride], stride, scale
		if scale == 4 {
			m.fold(&folded[:some*n][0], weights, stride, n, some, addressOf(values), len(values))
			weights, stride, scale = &folded[0], n, 0
		}
		m.by[dt](&acc[done*dim], &shrink[done], weights, stride, addressOf(values), len(values), dim, some, scale, row)
		done += some
	}
}
