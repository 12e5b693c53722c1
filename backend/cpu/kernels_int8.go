package cpu

import (
	"encoding/binary"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// integers is what scoreInt8 works in, for up to chunk keys.
type integers struct {
	codes []byte  // of the keys, one a byte, where they are stored as two
	pairs []int64 // of two query rows, one in the low half and one in the high half
	sums  []int64 // of the pairs of each group
}

func newIntegers(dim int) integers {
	// Scales of short keys of 4 bits take more room in assembly than their codes.
	return integers{codes: make([]byte, chunk*max(dim, 32)), pairs: make([]int64, dim), sums: make([]int64, ceilDiv(dim, groupAtOnce))}
}

var scoreInt8Go = scoreCodes(scoreCodesGo).each()

// scoreCodesGo takes two query rows at a time: one product of 64 bits is one of both rows with a
// code.
func scoreCodesGo(dst []float32, stride int, q stored, keys *stored, w *integers) {
	dim, group := keys.dim, keys.group()
	codes := keys.data
	if keys.dt.Bits() < 8 {
		codes = w.codes[:keys.n*dim]
		expand(codes, keys.data)
	}
	if keys.dt.Coding().Code == backend.E2M1 {
		for i, c := range codes {
			codes[i] = byte(halfSteps[c])
		}
	}
	for row, rows := 0, q.n; row < rows; row += 2 {
		other := min(row+1, rows-1)
		w.pair(q.data[row*dim:][:dim], q.data[other*dim:][:dim], group)
		x, y := math.Float32frombits(q.scales[row]), math.Float32frombits(q.scales[other])
		for j := range keys.n {
			key := keys.row(j)
			key.data = codes[j*dim:][:dim]
			a, b := w.score(&key, group)
			dst[row*stride+j], dst[other*stride+j] = x*a, y*b
		}
	}
}

// halfSteps is what a code of E2M1 is worth, doubled.
var halfSteps = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// expand sets dst to the codes of 4 bits in src, four bytes at a time while there are.
func expand(dst, src []byte) {
	for ; len(src) >= 4; dst, src = dst[8:], src[4:] {
		x := uint64(binary.LittleEndian.Uint32(src))
		x = (x | x<<16) & 0x0000ffff0000ffff
		x = (x | x<<8) & 0x00ff00ff00ff00ff
		x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
		binary.LittleEndian.PutUint64(dst, x)
	}
	for i, c := range src {
		dst[2*i], dst[2*i+1] = c&15, c>>4
	}
}

// pair lays two query rows side by side.
func (w *integers) pair(low, high []byte, group int) {
	pairs := w.pairs
	for g := 0; len(low) > 0; g++ {
		n := min(group, len(low))
		a, b, to := low[:n], high[:n], pairs[:n]
		var sum int64
		for i, c := range a {
			to[i] = int64(int8(c)) + int64(int8(b[i]))<<32
			sum += to[i]
		}
		w.sums[g] = sum
		low, high, pairs = low[n:], high[n:], pairs[n:]
	}
}

// score is the products of a key, its codes one a byte, with the pair of rows: for each
// group its scale times what codes and zero point give, which is one integer.
func (w *integers) score(key *stored, group int) (low, high float32) {
	pairs, codes := w.pairs[:key.dim], key.data
	coding := key.dt.Coding()
	for g := 0; len(codes) > 0; g++ {
		n := min(group, len(codes))
		var a, b int64
		var scale float32
		switch coding.Scale {
		case backend.Factor:
			a, b = products(pairs[:n], of[int8](codes[:n]))
			scale = math.Float32frombits(key.scales[g])
		case backend.Exponents:
			a, b = products(pairs[:n], of[int8](codes[:n]))
			scale = 0.5 * quant.ScaleMX(quant.Exponent(key.scales, g))
		default:
			a, b = products(pairs[:n], codes[:n])
			word := key.scales[g]
			shift, zero := 8-coding.Bits, int64(int16(word>>16))
			sumA, sumB := halves(w.sums[g])
			a, b = a<<shift+zero*sumA, b<<shift+zero*sumB
			scale = quant.Word(word).Step() / float32(int(1)<<shift)
		}
		low += scale * float32(a)
		high += scale * float32(b)
		pairs, codes = pairs[n:], codes[n:]
	}
	return low, high
}

// exactTerms is how many products of a code and half a pair fit that half.
const exactTerms = math.MaxInt32 / (128 * 255)

// products adds the products of pairs and codes, for each half.
func products[C int8 | byte](pairs []int64, codes []C) (low, high int64) {
	for len(codes) > 0 {
		n := min(len(codes), exactTerms)
		part := pairs[:n]
		var sum int64
		for i, c := range codes[:n] {
			sum += part[i] * int64(c)
		}
		a, b := halves(sum)
		low, high = low+a, high+b
		pairs, codes = pairs[n:], codes[n:]
	}
	return low, high
}

// halves takes a sum of pairs apart: the high half has lent to a negative low one.
func halves(sum int64) (low, high int64) {
	low = int64(int32(sum))
	return low, (sum - low) >> 32
}
