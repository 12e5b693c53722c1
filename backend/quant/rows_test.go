package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// perRow are the types whose rows have scales of their own.
var perRow = func() (all []backend.DType) {
	for dt := range backend.StorageTypes {
		if dt.Coding().Scope == backend.ByGroup {
			all = append(all, dt)
		}
	}
	return all
}()

// largest is the largest magnitude that formats store as a finite value: any.
const largest = math.MaxFloat32

// kinds of rows that quantizers are known to get wrong.
var kinds = map[string]func(r *rand.Rand, n int) []float32{
	"noise":     func(r *rand.Rand, n int) []float32 { return noise(r, n, 1, 0) },
	"zeros":     func(*rand.Rand, int) []float32 { return nil },
	"constant":  func(r *rand.Rand, n int) []float32 { return noise(r, n, 0, anyFloat(r)) },
	"tiny":      func(r *rand.Rand, n int) []float32 { return noise(r, n, 1e-9, 0) },
	"near":      func(r *rand.Rand, n int) []float32 { return noise(r, n, 1e-3, float32(r.NormFloat64()*200)) },
	"one step":  func(r *rand.Rand, n int) []float32 { return neighbours(r, n, anyFloat(r)) },
	"subnormal": func(r *rand.Rand, n int) []float32 { return noise(r, n, math.Ldexp(1, -149+r.IntN(24)), 0) },
	"near subnormal": func(r *rand.Rand, n int) []float32 {
		return noise(r, n, 0x1p-149, float32(math.Ldexp(1, -149+r.IntN(24))))
	},
	"positive": func(r *rand.Rand, n int) []float32 { return signed(noise(r, n, 3, 0), 1) },
	"negative": func(r *rand.Rand, n int) []float32 { return signed(noise(r, n, 3, 0), -1) },
	"outlier": func(r *rand.Rand, n int) []float32 {
		x := noise(r, n, 1, 0)
		x[r.IntN(n)] = float32(206 * r.NormFloat64())
		return x
	},
	"huge": func(r *rand.Rand, n int) []float32 {
		x := noise(r, n, 0x1p124, 0)
		x[r.IntN(n)], x[r.IntN(n)] = largest, -largest
		return x
	},
	"end": func(r *rand.Rand, n int) []float32 { // of the range, alone or at both sides of what else is there
		x := noise(r, n, []float64{0, 1, 0x1p120, largest}[r.IntN(4)], 0)
		for range 1 + r.IntN(n) {
			v := largest * (1 - float32(r.IntN(64))*0x1p-9*float32(r.IntN(2)))
			for range r.IntN(4) {
				v = math.Nextafter32(v, 0)
			}
			x[r.IntN(n)] = v * float32(1-2*r.IntN(2))
		}
		return x
	},
	"any": func(r *rand.Rand, n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = anyFloat(r)
		}
		return x
	},
}

// noise is normally distributed around centre.
func noise(r *rand.Rand, n int, width float64, centre float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = centre + float32(r.NormFloat64()*width)
	}
	return clipped(x)
}

// neighbours are a float32 and the next one.
func neighbours(r *rand.Rand, n int, v float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = v
		if r.IntN(2) == 1 {
			x[i] = math.Nextafter32(v, 0)
		}
	}
	return x
}

func signed(x []float32, sign float64) []float32 {
	for i, v := range x {
		x[i] = float32(math.Copysign(float64(v), sign))
	}
	return x
}

func clipped(x []float32) []float32 {
	for i, v := range x {
		x[i] = min(max(v, -largest), largest)
	}
	return x
}

// anyFloat has any bits that are a finite float32 in range.
func anyFloat(r *rand.Rand) float32 {
	for {
		if v := math.Float32frombits(r.Uint32()); abs(v) <= largest {
			return v
		}
	}
}

// near fails where got is further than bound from want. It is called for every element:
// require's own comparisons are slow.
func near(t require.TestingT, want, got float32, bound float64, what string, args ...any) {
	if !(math.Abs(float64(want)-float64(got)) <= bound) {
		require.Failf(t, "beyond its bound", "%s: %g reads as %g, bound %g", fmt.Sprintf(what, args...), want, got, bound)
	}
}

// drawRow is a row of one of the kinds, and of any length.
func drawRow(t *rapid.T) []float32 {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	kind := rapid.SampledFrom(names).Draw(t, "kind")
	n := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 200)).Draw(t, "n")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
	if x := kinds[kind](r, n); x != nil {
		return x
	}
	return make([]float32, n)
}

// A tool that measures calibration runs wrote them down: the largest magnitude that went
// into each cache, some lists deep.
var measured = regexp.MustCompile(`_cache"\s*:\s*\{\s*"inputs"\s*:[\s\[]*([0-9.]+)`)

// kvRanges are the largest keys and values of each layer of some models, or skips.
func kvRanges(t testing.TB) (ranges []float64) {
	files, err := filepath.Glob(filepath.Join(external.Path(t, "kvstats", "inc"), "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range measured.FindAllSubmatch(data, -1) {
			v, err := strconv.ParseFloat(string(m[1]), 64)
			require.NoError(t, err)
			ranges = append(ranges, v)
		}
	}
	require.Equal(t, 206.0, slices.Max(ranges), "the largest key of gpt-oss-20b")
	return ranges
}
