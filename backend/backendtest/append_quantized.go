package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// quantizedAppends are the cases of caches that quantize what is appended to them.
func quantizedAppends(caps backend.Caps) []appendSpec {
	var specs []appendSpec
	add := func(name string, act, dt backend.DType, change func(*appendSpec)) {
		s := appendSpec{qHeads: 4, kvHeads: 2, kDim: 64, vDim: 64, block: 8, blocks: 6, tokens: 19, format: storedAs(act, dt)}
		change(&s)
		s.name = fmt.Sprintf("%s, %s", name, formatName(s.format))
		s.block = listedBlock(caps, s.block)
		specs = append(specs, s)
	}
	full := rotary{theta: 10000, dims: 64, magnitude: 1}
	for i, dt := range rowTypes {
		for _, act := range activations {
			add("adversarial rows", act, dt, func(s *appendSpec) { s.adversarial, s.qHeads, s.tokens = true, 0, 39 })
			add("adversarial rows, turned", act, dt, func(s *appendSpec) { s.adversarial, s.hadamard, s.tokens = true, true, 39 })
			add("rotates", act, dt, func(s *appendSpec) { s.rotary = &full })
			add("rotates and turns", act, dt, func(s *appendSpec) { s.rotary, s.hadamard, s.strided = &full, true, true })
		}
		act := activations[i%len(activations)]
		add("rotates, interleaved", act, dt, func(s *appendSpec) { s.rotary = &rotary{500000, 32, backend.Interleaved, 1.25} })
		add("turns keys without queries", act, dt, func(s *appendSpec) { s.hadamard, s.qHeads = true, 0 })
		add("rotates and turns dims 80x80", act, dt, func(s *appendSpec) { s.kDim, s.vDim, s.rotary, s.hadamard = 80, 80, &full, true })
		for j, dims := range [][2]int{{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}} {
			act := activations[(i+j)%len(activations)]
			add(fmt.Sprintf("dims %dx%d", dims[0], dims[1]), act, dt, func(s *appendSpec) { s.kDim, s.vDim = dims[0], dims[1] })
			add(fmt.Sprintf("turns dims %dx%d", dims[0], dims[1]), act, dt, func(s *appendSpec) {
				s.kDim, s.vDim, s.hadamard, s.strided = dims[0], dims[1], true, true
			})
		}
	}
	return specs
}

// faint reports whether rounding these values divides by numbers near the smallest ones.
func faint(values []float32) bool {
	for _, v := range values {
		if math.Abs(float64(v)) > 0x1p-100 {
			return false
		}
	}
	return true
}

// resist replaces keys and values by rows on which careless quantizing fails: constants,
// whose range is nothing, values close to each other, an outlier among small ones,
// and the borders of the floats. Each head of a token has such a row.
func (a *appendRun[B]) resist(r *rig[B]) {
	scaled := func(by, plus float64) func() float32 {
		return func() float32 { return float32(r.rng.NormFloat64()*by + plus) }
	}
	constant := func(v float64) func() float32 { return scaled(0, v) }
	outlier := func(at *int) func() float32 {
		return func() float32 {
			if *at++; *at%37 == 5 {
				return float32(206 - 400*(*at%2))
			}
			return float32(r.rng.NormFloat64() * 0.1)
		}
	}
	kinds := []func() float32{
		constant(0.5), constant(-0.3), constant(100), constant(7), constant(0), constant(math.Copysign(0, -1)),
		scaled(1e-9, 0), scaled(1e-3, 1), scaled(0.25, 61), scaled(0.1, -206), scaled(1e-5, 0), scaled(1e-7, 3e-7), outlier(new(int)),
	}
	if a.format.Act != backend.F16 {
		kinds = append(kinds, scaled(1e-30, 0), scaled(1e-30, 1e-26), scaled(1e-40, 0), constant(1e-40), scaled(1e30, 0), constant(-1e30))
	}
	if a.format.Act != backend.F16 && !a.turns() {
		ends := 0
		kinds = append(kinds, func() float32 { // a range that no f32 holds
			ends++
			return float32(3e38 - 6e38*float64(ends%2))
		})
	}
	for _, rows := range []struct {
		*vectors[B]
		dim int
	}{{a.k, a.kDim}, {a.v, a.vDim}} {
		for i := range a.tokens {
			row := make([]float32, 0, rows.width)
			for head := range a.kvHeads {
				for range rows.dim {
					row = append(row, kinds[(i+head)%len(kinds)]())
				}
			}
			rows.put(i, row)
		}
	}
}
