package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// The inner loops, chosen when the program starts: the Go versions of
// kernels_go.go, kernels_int8.go and package quant, which a version for the processor
// at hand may replace. Nothing else in this package is worth writing in assembly. Arrays
// are indexed by the storage type; slices do not overlap and are not retained.
var (
	// score sets dst[r*stride+j] to the product of query row r and key j. q holds rows
	// of the keys' dim; scratch has room for the keys as float32.
	score = forTypes[func(dst []float32, stride int, q []float32, keys stored, scratch []float32)](scoreF32, scoreDecoded)
	// scoreInt8 is score for query rows that are stored as Int8: products of codes are
	// added as integers, exactly, and scales and zero points come after. The types
	// that are here are those of Caps.Int8Query.
	scoreInt8 = [...]func(dst []float32, stride int, q, keys stored, scratch *integers){
		backend.Int8: scoreInt8Go, backend.Int8Asym: scoreInt8Go, backend.Int4: scoreInt8Go, backend.Int4G64: scoreInt8Go,
	}
	// mix adds p[r*stride+j] * (value j) to row r of acc, one value after another, so
	// that the result does not depend on how values are cut into calls. A value whose
	// factor is 0 must not matter, even where it is infinite or NaN.
	mix = forTypes[func(acc []float32, p []float32, stride int, values stored, scratch []float32)](mixF32, mixDecoded)
	// exponentials replaces each s by exp(s − top) and returns their sum. A score of
	// −∞ becomes 0; top is finite or NaN.
	exponentials = exponentialsGo
	// decode sets dst to the values of src.
	decode = [...]func(dst []float32, src stored){
		backend.F32: decodeF32, backend.F16: decodeF16, backend.BF16: decodeBF16,
		backend.Int8: decodeRows, backend.Int8Asym: decodeRows, backend.Int4: decodeRows, backend.Int4G64: decodeRows,
		backend.Int4Channel: decodeChannels, backend.FP8E4M3: decodeFP8, backend.FP8E5M2: decodeFP8,
	}
	// encode stores src in dst, rounded to nearest. It is false, and what it wrote of no
	// use, where dst is quantized and src has a value that is not finite. With saturate it
	// makes such values of src finite. Rows of Int4Channel are a whole block of one head.
	encode = [...]func(dst stored, src []float32, saturate bool) bool{
		backend.F32: encodeF32, backend.F16: encodeF16, backend.BF16: encodeBF16,
		backend.Int8: encodeRows, backend.Int8Asym: encodeRows, backend.Int4: encodeRows, backend.Int4G64: encodeRows,
		backend.Int4Channel: encodeChannels, backend.FP8E4M3: encodeFP8, backend.FP8E5M2: encodeFP8,
	}
)

// forTypes is one function for f32 and another for every other storage type.
func forTypes[F any](f32, others F) (all [backend.Int4Channel + 1]F) {
	for dt := range all {
		all[dt] = others
	}
	all[backend.F32] = f32
	return all
}
