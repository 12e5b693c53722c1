package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// kinds is what awkward values are drawn from; the last three are not finite.
var kinds = []float32{0, float32(math.Copysign(0, -1)), 1, 0x1p-149, -0x1p-140, 0x1p-126, -0x1p-24, 65519, 65520, -448, 464, 57344,
	math.MaxFloat32, -math.MaxFloat32, 0.5, -1.5, 2.5, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

// awkward sets x to values of one magnitude, some of which are drawn from kinds.
func awkward(x []float32, rng *rand.Rand, kinds []float32) {
	magnitude := math.Ldexp(1, rng.IntN(200)-100)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * magnitude)
		if rng.IntN(40) == 0 {
			x[i] = kinds[rng.IntN(len(kinds))]
		}
	}
}

// sameFloats reports whether two slices hold the same bits; every NaN is like any other.
func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// guardedRows is guarded memory for n rows of a type and their scales.
func guardedRows(t testing.TB, dt backend.DType, dim, n int) stored {
	return stored{dt: dt, dim: dim, n: n, data: guarded[byte](t, n*dim*dt.Bits()/8), scales: guarded[uint32](t, scaleWords(dt, dim, n)), factor: headFactor}
}

// What any kernels store and read is, bit for bit, what those in Go do, whatever the
// dim, the number of rows and the values; they touch nothing else.
func TestConvertersAgree(t *testing.T) {
	for _, k := range available {
		for _, dt := range storageTypes {
			t.Run(fmt.Sprint(k.name, dt), func(t *testing.T) { convertersAgree(t, k, dt) })
		}
	}
}

func convertersAgree(t *testing.T, k *kernels, dt backend.DType) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, uint64(dt)))
		dim, n := []int{2, 6, 16, 48, 64, 80, 96, 112, 128, 192, 256}[rng.IntN(11)], rng.IntN(9)+1
		values := kinds[:len(kinds)-3*int(seed%2)]
		src, again := guarded[float32](t, n*dim), guarded[float32](t, n*dim)
		for row := range n {
			if awkward(src[row*dim:][:dim], rng, values); rng.IntN(6) == 0 {
				for i := range dim { // beyond what scales cover, on one side or on both
					src[row*dim+i] = (1 - float32(rng.IntN(50))/500) * kinds[12+row%2*rng.IntN(2)]
				}
			}
		}
		copy(again, src)
		got, want := guardedRows(t, dt, dim, n), guardedRows(t, dt, dim, n)
		if dt == backend.FP8E4M3 || dt == backend.FP8E5M2 {
			scale := []float32{1, 0x1p-20, 1.0 / 3, 1e30, 0x1p-140, 0, -0.7, float32(math.Inf(1))}[rng.IntN(8)]
			got.scales[0], want.scales[0] = math.Float32bits(scale), math.Float32bits(scale)
		}
		saturate := rng.IntN(2) == 0
		ok := portable.encode[dt](want, src, saturate)
		require.Equal(t, ok, k.encode[dt](got, again, saturate), "seed %d", seed)
		require.True(t, sameFloats(src, again), "seed %d", seed)
		if !ok {
			continue
		}
		require.Equal(t, want.scales, got.scales, "seed %d", seed)
		require.Equal(t, want.data, got.data, "seed %d", seed)
		if seed%3 == 0 { // codes that no encoder makes
			for i := range got.data {
				got.data[i] = byte(rng.Uint32())
			}
		}
		portable.decode[dt](src, got)
		k.decode[dt](again, got)
		require.True(t, sameFloats(src, again), "seed %d", seed)
	}
}

// Types of 16 bits are converted as any number of elements, from and to any address.
func TestHalvesAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dt := rapid.SampledFrom([]backend.DType{backend.F16, backend.BF16}).Draw(r, "type")
		n, shift := rapid.IntRange(0, 200).Draw(r, "n"), rapid.IntRange(0, 33).Draw(r, "shift")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		halves, values := make([]uint16, n), make([]float32, n)
		for i := range halves {
			halves[i], values[i] = uint16(rng.Uint32()), math.Float32frombits(rng.Uint32())
		}
		for _, k := range available {
			at, from := make([]uint16, shift+n+9), make([]float32, shift+n+9)
			copy(at[shift:], halves)
			copy(from[shift:], values)
			want, got := make([]float32, n), make([]float32, n)
			portable.decode[dt](want, stored{dt: dt, data: backend.BytesOf(halves)})
			k.decode[dt](got, stored{dt: dt, data: backend.BytesOf(at[shift:][:n])})
			require.True(r, sameFloats(want, got), k.name)

			coded := make([]uint16, n)
			portable.encode[dt](stored{dt: dt, data: backend.BytesOf(coded)}, values, false)
			clear(at)
			k.encode[dt](stored{dt: dt, data: backend.BytesOf(at[shift:][:n])}, from[shift:][:n], false)
			require.Equal(r, coded, at[shift:][:n], k.name)
			require.Zero(r, at[shift+n], k.name)
		}
	})
}

func TestFiniteAgrees(t *testing.T) {
	for _, k := range available {
		for n := range 70 {
			x := guarded[float32](t, n)
			for i := range x {
				x[i] = math.MaxFloat32
			}
			require.True(t, k.finite(x))
			for i := range x {
				for _, bad := range kinds[len(kinds)-3:] {
					x[i] = bad
					require.False(t, k.finite(x), "%s: %v at %d of %d", k.name, bad, i, n)
				}
				x[i] = -1
			}
		}
	}
}

// Quotients are rounded as divisions are, also near the middle between two codes.
func TestConvertersDivide(t *testing.T) {
	const dim = 128
	rng := rand.New(rand.NewPCG(99, 1))
	src := make([]float32, dim)
	for _, dt := range []backend.DType{backend.Int8, backend.Int8Asym, backend.Int4, backend.Int4G64, backend.MXFP4, backend.NVFP4, backend.FP8E4M3, backend.FP8E5M2} {
		got, want := guardedRows(t, dt, dim, 1), guardedRows(t, dt, dim, 1)
		for round := range 1000 {
			unit := math.Exp2(float64(rng.IntN(160) - 90))
			for i := range src {
				switch round % 4 {
				case 0:
					src[i] = float32(rng.NormFloat64() * unit)
				case 1:
					src[i] = float32((float64(rng.IntN(255)-127) + 0.5) * unit * (1 + float64(rng.IntN(3)-1)*0x1p-23))
				case 2:
					src[i] = math.Float32frombits(rng.Uint32()&0x807fffff | uint32(100+rng.IntN(27))<<23)
				case 3:
					src[i] = float32(rng.IntN(31)-15) * float32(unit)
				}
			}
			if dt == backend.FP8E4M3 || dt == backend.FP8E5M2 {
				want.scales[0] = math.Float32bits(float32(unit * (0.5 + rng.Float64())))
				got.scales[0] = want.scales[0]
			}
			require.True(t, portable.encode[dt](want, src, false))
			for _, k := range available {
				require.True(t, k.encode[dt](got, src, false))
				require.Equal(t, want.scales, got.scales, "%s, %s, round %d", k.name, dt, round)
				require.Equal(t, want.data, got.data, "%s, %s, round %d", k.name, dt, round)
			}
		}
	}
}

// Halves are told from those that are not finite wherever they are.
func TestFiniteHalves(t *testing.T) {
	for _, k := range available[:len(available)-1] {
		for _, c := range []struct {
			dt            backend.DType
			largest, more uint16
		}{{backend.F16, 0x7bff, 0x7c00}, {backend.BF16, 0x7f7f, 0x7f80}} {
			mem := guarded[byte](t, 192)
			halves := of[uint16](mem)
			for i := range halves {
				halves[i] = c.largest | uint16(i%2)<<15
			}
			if require.Equal(t, runtime.GOARCH == "amd64", k.finiteHalves(c.dt, mem)); runtime.GOARCH != "amd64" {
				continue // not looked at as they are
			}
			require.False(t, k.finiteHalves(c.dt, guarded[byte](t, 66)), "the last half is not looked at")
			for i := range halves {
				for _, x := range []uint16{c.more, c.more | 1<<15, 0x7fff, 0xffff} {
					before := halves[i]
					halves[i] = x
					require.False(t, k.finiteHalves(c.dt, mem), "%s, %s, %d", k.name, c.dt, i)
					halves[i] = before
				}
			}
		}
	}
}
