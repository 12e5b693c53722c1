package backendtest

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// latentAppends are the cases of appending: every format, and rotations of what comes after the latent.
func latentAppends(caps backend.Caps) []appendSpec {
	var out []appendSpec
	for i, f := range latentFormats(caps) {
		add := func(name string, kDim, vDim int, change func(*appendSpec)) {
			s := appendSpec{name: fmt.Sprintf("%s %s", name, formatName(f)), qHeads: 6, kvHeads: 1, kDim: kDim, vDim: vDim,
				block: 16, blocks: 3, tokens: 23, format: f, latent: true}
			change(&s)
			out = append(out, s.listed(caps))
		}
		add("stores", 576, 512, func(s *appendSpec) { s.strided = i%2 == 0 })
		add("rotates half-split", 576, 512, func(s *appendSpec) { s.rotary = &rotary{10000, 64, backend.HalfSplit, 1} })
		add("rotates interleaved, of strided rows", 80, 64, func(s *appendSpec) {
			s.kvHeads, s.strided, s.rotary = 3, true, &rotary{10000, 16, backend.Interleaved, 1.25}
		})
		add("rotates keys without queries", 96, 64, func(s *appendSpec) {
			s.kvHeads, s.qHeads, s.rotary = 2, 0, &rotary{500000, 20, backend.HalfSplit, 1}
		})
		add("stores without a rest", 64, 64, func(s *appendSpec) { s.kvHeads, s.qHeads = 2, 0 })
		add("stores odd sizes", 40, 24, func(s *appendSpec) { s.kvHeads, s.qHeads, s.block = 5, 0, 8 })
	}
	return out
}

// latentNotFinite are checks of values that quantized latents do not take, in both operands of a key.
func latentNotFinite[B backend.Buffer]() []check[B] {
	var out []check[B]
	for i, dt := range rowTypes {
		for j, bad := range notFinite {
			f := backend.Format{Act: activations[(i+j)%len(activations)], K: dt, V: dt}
			for _, inRest := range []bool{false, true} {
				out = append(out, check[B]{fmt.Sprintf("%v in the rest %v, %s", bad, inRest, formatName(f)), func(r *rig[B]) {
					checkLatentNotFinite(r, f, inRest, bad)
				}})
			}
		}
	}
	return append(out, check[B]{"saturated", checkLatentSaturated[B]})
}

// finiteLatent is a small call.
func finiteLatent[B backend.Buffer](r *rig[B], f backend.Format) *appendRun[B] {
	s := appendSpec{name: "not finite", kvHeads: 2, kDim: 96, vDim: 64, block: r.blockSize(8), blocks: 3, tokens: 9, format: f, latent: true}
	s.kDim, s.vDim = r.dimsOf(true, s.kDim, s.vDim)
	r.needsOf(true, f, s.kDim, s.vDim, s.block, true)
	return newAppend(r, s)
}

// checkLatentNotFinite is checkNotFinite of a key in two operands: nothing is written, or its group is NaN.
func checkLatentNotFinite[B backend.Buffer](r *rig[B], f backend.Format, inRest bool, bad float32) {
	const token, head = 2, 1
	a := finiteLatent(r, f)
	rows, n, element := a.v, a.vDim, a.vDim-1
	if inRest {
		rows, n, element = a.k, a.kDim-a.vDim, a.kDim-1
	}
	at := token*rows.stride + (head+1)*n - 1
	was := slices.Clone(rows.part(rows.image, at, 1))
	rows.set(at, encode(f.Act, []float32{bad}))
	r.push()
	if r.reportedOnce(r.be.Append(r.s, a.params)) {
		got, slot := r.content(a.cache.k), int(a.slots[token])
		rows.set(at, was)
		a.accept(r)
		rows.set(at, encode(f.Act, []float32{bad}))
		require.NoError(r, undefinedGroup(a.cache.k, got, slot, head, element))
		a.cache.k.take(got, slot, slot, head)
	}
	r.verify()
}

func checkLatentSaturated[B backend.Buffer](r *rig[B]) {
	f := r.quantized()
	f.V = f.K
	a := finiteLatent(r, f)
	a.params.Saturate = true
	for i, rows := range []*vectors[B]{a.k, a.v} {
		for token := range a.tokens {
			values := r.normal(rows.width)
			values[r.rng.IntN(rows.width)], values[token] = notFinite[token%3], notFinite[(token+i)%3]
			rows.put(token, values)
		}
	}
	r.push()
	require.NoError(r, r.be.Append(r.s, a.params))
	require.NoError(r, r.s.Sync())
	a.accept(r)
	r.verify()
}
