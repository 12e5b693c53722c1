package cpu

import (
	"fmt"
	"os"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
)

// types is how many types there are.
const types = backend.NumDTypes

// kernels is the inner loops for one kind of processor. Nothing else in this package is
// worth writing in assembly. Arrays are indexed by the storage type; slices do not
// overlap and are not retained.
type kernels struct {
	name string // as in Options.Kernels
	// score sets dst[r*stride+j] to the product of query row r and key j. q holds rows
	// of the keys' dim; scratch has room for the keys as float32. Keys are runs of rows, of one
	// type and dim, and count through. A score depends on its row and its key alone, not on what is
	// beside them.
	score [types]scoring
	// scoreInt8 is score for query rows that are rounded to signed codes of 8 bits: products of codes are
	// added as integers, exactly, and scales and zero points come after. The types
	// that are here are those of Caps.Int8Query.
	scoreInt8 [types]scoringInt8
	// weigh turns scores into weights: for each row r, of n scores from r*stride on, it
	// raises top[r] to the largest of scale*score, replaces each score by
	// exp(scale*score − top[r]), and adds those to sum[r], after it has multiplied the sum
	// by shrink[r] = exp(old top − new top), which it sets for mix: 1 where nothing came
	// before. A score of −∞ becomes 0, also where all are; a NaN makes its row's top NaN, and +∞ may.
	weigh func(scores []float32, stride, n int, scale float32, top, shrink []float32, sum []float64)
	// softcap replaces each score by limit*tanh(by*score/limit), within 1e-7 of the limit. The
	// limit is positive.
	softcap func(row []float32, by, limit float32)
	// mix multiplies row r of acc, of the values' dim, by shrink[r], and then adds
	// p[r*stride+j] * (value j) to it, one value after another, so that the result does not
	// depend on how values are cut into runs or calls. Where exact is set, a value whose factor is 0
	// does not matter, even where it is infinite or NaN.
	mix [types]mixing
	// mixInt8 is mix where queries are rounded, too: factors times the values' scales are
	// rounded to 32767 steps up to a row's largest of the call, and products of integers added.
	// A row that has others than finite factors, of values that it sees, is left to mix. It is nil
	// where there is none.
	mixInt8 [types]func(acc, shrink, p []float32, stride int, values []stored, scratch []float32, mix mixing)
	// gemm sets c to a·b, or where shrink is not nil multiplies row r of c by shrink[r] and adds
	// a·b, each element's products one after another. c has a multiple of 16 columns. It and
	// transpose are nil where no kernels are there for them (see tall.go).
	gemm func(c matrix, shrink []float32, a, b matrix)
	// transpose sets dst to src with rows and columns exchanged; both are multiples of 16.
	transpose func(dst, src matrix)
	// fetch asks for the scales that runs want, words for each row; nil where nothing does.
	fetch func(runs []stored, words int)
	// decode sets dst to the values of src.
	decode [types]func(dst []float32, src stored)
	// encode stores src in dst, rounded to nearest. It is false, and what it wrote of no
	// use, where dst is quantized and src has a value that is not finite. With saturate it
	// makes such values of src finite. Rows whose channels share scales are a whole block of one head.
	encode [types]func(dst stored, src []float32, saturate bool) bool
	// scale multiplies x by a number.
	scale func(x []float32, by float32)
	// finite reports whether all values are.
	finite func(x []float32) bool
	// finiteHalves reports whether rows of f16 or bf16 are finite. It may be false where they are, and
	// where there is nothing faster than to look at them as float32.
	finiteHalves func(dt backend.DType, rows []byte) bool
	// turn rotates the first pairs of each row of dim elements, as many as there are angles: each by
	// its cos and sin, the latter times sign, and scales them by magnitude.
	turn func(rows []float32, dim int, angles []float32, pairing backend.Pairing, sign, magnitude float32)
	// hadamard turns rows of dim elements by the Walsh-Hadamard matrix.
	hadamard func(rows []float32, dim int)
	// stream copies src, piece by piece, to dst, where pieces are stride bytes apart. Others
	// neither read nor write dst before fence: where the processor can, stores go around the
	// caches.
	stream func(dst []byte, stride int, src []byte, piece int)
	fence  func()

	ahead distances // of the keys and values that are fetched while others are read

	exact     bool     // see mix
	withExact *kernels // the same results, to the bit, by an exact mix; nil where it is exact
}

// The types of kernels' functions that take runs of rows.
type (
	scoring     func(dst []float32, stride int, q []float32, keys []stored, scratch []float32)
	scoringInt8 func(dst []float32, stride int, q stored, keys []stored, scratch *integers)
	mixing      func(acc, shrink, p []float32, stride int, values []stored, scratch []float32)
)

// portable is the kernels in Go, for every processor, dim and type.
var portable = kernels{
	name:         "go",
	ahead:        usual,
	exact:        true,
	score:        forTypes(scoreRun(scoreF32).each(), scoreRun(scoreDecoded).each()),
	scoreInt8:    perCode[scoringInt8]{signed8: scoreInt8Go, unsigned8: scoreInt8Go, unsigned4: scoreInt8Go, wide4: scoreInt8Go, float4: scoreInt8Go}.table(),
	weigh:        weighGo,
	softcap:      softcapGo,
	mix:          forTypes(mixRun(mixF32).each(scale), mixRun(mixDecoded).each(scale)),
	decode:       decodeGo,
	scale:        scale,
	finite:       finite,
	finiteHalves: func(backend.DType, []byte) bool { return false },
	turn:         turnGo,
	hadamard:     hadamard,
	stream:       scatter,
	fence:        func() {},
	encode: perCode[func(dst stored, src []float32, saturate bool) bool]{
		f32: encodeF32, f16: encodeF16, bf16: encodeBF16, signed8: encodeRows, unsigned8: encodeRows, unsigned4: encodeRows, wide4: encodeRows,
		channels4: encodeChannels, float4: encodeRows, scaled4: encodeNV, float8e4m3: encodeFP8, float8e5m2: encodeFP8,
	}.table(),
}

var decodeGo = perCode[func(dst []float32, src stored)]{
	f32: decodeF32, f16: decodeF16, bf16: decodeBF16, signed8: decodeRows, unsigned8: decodeRows, unsigned4: decodeRows, wide4: decodeRows,
	channels4: decodeChannels, float4: decodeRows, scaled4: decodeNV, float8e4m3: decodeFP8, float8e5m2: decodeFP8,
}.table()

// forTypes is one function for f32 and another for every other storage type.
func forTypes[F any](f32, others F) (all [types]F) {
	for dt := range all {
		all[dt] = others
	}
	all[backend.F32] = f32
	return all
}

// EnvKernels is the environment variable that replaces an empty Options.Kernels.
const EnvKernels = "FERRUM_CPU_KERNELS"

// available is the kernels that this processor runs, the fastest first.
var available = append(native(), &portable)

// kernelsOf is the kernels of a name; the empty one is that of EnvKernels, or the fastest.
func kernelsOf(name string) (*kernels, error) {
	from := "Options.Kernels"
	if name == "" {
		name, from = os.Getenv(EnvKernels), EnvKernels
	}
	if name == "" {
		return available[0], nil
	}
	var names []string
	for _, k := range available {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	return nil, backend.ErrUnsupported{Op: "open", Why: fmt.Sprintf("%s is %q, this processor and build have %s", from, name, strings.Join(names, ", "))}
}
