package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// The inner loops, chosen when the program starts: the Go versions of
// kernels_go.go, which a version for the processor at hand may replace. Nothing
// else in this package is worth writing in assembly. Arrays are indexed by the
// storage type; slices do not overlap and are not retained.
var (
	// score sets dst[r*stride+j] to the product of query row r and key j, for keys
	// of dim elements back to back as stored. q holds rows of dim elements.
	// scratch has room for the decoded keys.
	score = [...]func(dst []float32, stride int, q []float32, keys []byte, dim int, scratch []float32){
		backend.F32: scoreF32, backend.F16: scoreF16, backend.BF16: scoreBF16,
	}
	// mix adds p[r*stride+j] * (value j) to row r of acc, for values of dim elements
	// back to back as stored, one value after another, so that the result does not
	// depend on how values are cut into calls. A value whose factor is 0 must not
	// matter, even where it is infinite or NaN.
	mix = [...]func(acc []float32, p []float32, stride int, values []byte, dim int, scratch []float32){
		backend.F32: mixF32, backend.F16: mixF16, backend.BF16: mixBF16,
	}
	// exponentials replaces each s by exp(s − top) and returns their sum. A score of
	// −∞ becomes 0; top is finite or NaN.
	exponentials = exponentialsGo
	// decode sets dst to the values stored in src.
	decode = [...]func(dst []float32, src []byte){
		backend.F32: decodeF32, backend.F16: decodeF16, backend.BF16: decodeBF16,
	}
	// encode stores src in dst, rounded to nearest.
	encode = [...]func(dst []byte, src []float32){
		backend.F32: encodeF32, backend.F16: encodeF16, backend.BF16: encodeBF16,
	}
)
