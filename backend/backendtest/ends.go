package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// endChecks are about finite keys and values at the ends of a type's range, in every format that the device lists
// with a quantized plane: they are stored as finite values, which are read as such.
func endChecks[B backend.Buffer](caps backend.Caps) []check[B] {
	var out []check[B]
	for _, f := range caps.Formats {
		if !f.Act.Float() || !f.K.Quantized() && !f.V.Quantized() {
			continue
		}
		if name := formatName(f); !byChannel(f.K) {
			out = append(out, check[B]{"stores " + name, func(r *rig[B]) { checkEndsStored(r, f, false) }})
		}
		if name := formatName(f); f.K.Quantized() && f.V.Quantized() {
			out = append(out, check[B]{"packs and unpacks " + name, func(r *rig[B]) { checkEndsConverted(r, f) }})
		}
		out = append(out, check[B]{"gathers " + formatName(f), func(r *rig[B]) { checkEndsGathered(r, f) }},
			check[B]{"reads " + formatName(f), func(r *rig[B]) { checkEndsRead(r, f) }})
	}
	for _, f := range latentFormats(caps) {
		if f.K.Quantized() {
			out = append(out, check[B]{"stores latents in " + formatName(f), func(r *rig[B]) { checkEndsStored(r, f, true) }})
		}
	}
	for _, dt := range rowTypes {
		out = append(out, check[B]{"turns keys of " + dt.String(), func(r *rig[B]) { checkEndsTurned(r, dt) }})
	}
	for _, dt := range activations {
		out = append(out, check[B]{"turns keys of " + dt.String(), func(r *rig[B]) { checkEndsTurnedFloats(r, dt, false) }})
	}
	out = append(out, check[B]{"turns keys of f16, Hadamard", func(r *rig[B]) { checkEndsTurnedFloats(r, backend.F16, true) }})
	return out
}

// largestOf is the largest number of an activation type; quantized ones take any.
func largestOf(dt backend.DType) float32 {
	switch dt {
	case backend.F16:
		return 65504
	case backend.BF16:
		return 0x1.fep127
	}
	return math.MaxFloat32
}

// endKinds is how many rows endRow tells apart.
const endKinds = 10

// endRow is n finite numbers up to a magnitude, some of which have it.
func (r *rig[B]) endRow(kind, n int, top float32) []float32 {
	out := r.normal(n)
	at := r.rng.IntN(n)
	for i := range out {
		switch sign := float32(1 - 2*r.rng.IntN(2)); kind % endKinds {
		case 0:
			out[i] = top
		case 1:
			out[i] = -top
		case 2: // a range that no f32 holds
			out[i] = top * float32(1-2*(i%2))
		case 3:
			out[at] = top
		case 4:
			out[at] = -top
		case 5: // where scales no longer cover what they are rounded for
			out[i] = sign * top * (1 - float32(r.rng.IntN(100))/1000)
		case 6:
			out[i] = top * float32(r.rng.IntN(3)-1) / 2
		case 7:
			out[i] = float32(r.rng.IntN(9)-4) * 0x1p-149
			out[at] = top
		case 8: // any bits
			out[i] = math.Float32frombits(r.rng.Uint32())
			if !(math.Abs(float64(out[i])) <= float64(top)) {
				out[i] = sign * top
			}
		case 9:
			out[i] = top / 2 * (1 + r.rng.Float32())
		}
	}
	return out
}

// endSpec is a small call.
func (r *rig[B]) endSpec(f backend.Format, latent bool) appendSpec {
	s := appendSpec{name: "ends", kvHeads: 2, kDim: 64, vDim: 64, block: 8, blocks: 6, tokens: 2*endKinds + 3, format: f, latent: latent}
	if latent {
		s.kDim = 96
	}
	return s.listed(r.be.Caps())
}

// checkEndsStored appends such rows: they get the bits of the host's codec, which are finite values.
func checkEndsStored[B backend.Buffer](r *rig[B], f backend.Format, latent bool) {
	s := r.endSpec(f, latent)
	r.needsOf(latent, f, s.kDim, s.vDim, s.block, true)
	a := newAppend(r, s)
	for _, rows := range []*vectors[B]{a.k, a.v} {
		for i := range a.tokens {
			rows.put(i, r.endRow(i, rows.width, largestOf(f.Act)))
		}
	}
	r.push()
	require.NoError(r, r.be.Append(r.s, a.params))
	require.NoError(r, r.s.Sync())
	a.accept(r)
	r.verify()
	for _, p := range a.cache.planes() {
		for _, slot := range a.slots {
			for head := range a.kvHeads {
				if slot >= 0 && p.dt.Quantized() {
					require.NoError(r, p.finite(int(slot), head))
				}
			}
		}
	}
}

// finite checks that what the image holds of a row are numbers.
func (p *plane[B]) finite(slot, head int) error {
	for i, v := range p.values(p.now(), slot, head) {
		if !(math.Abs(float64(v)) <= math.MaxFloat32) {
			return fmt.Errorf("element %d of slot %d, head %d of %s is worth %g", i, slot, head, p.name, v)
		}
	}
	return nil
}

// checkEndsConverted quantizes blocks of such rows, and makes floats of them again.
func checkEndsConverted[B backend.Buffer](r *rig[B], f backend.Format) {
	kDim, vDim := r.dims(64, 64)
	a := newConvert(r, convertSpec{format: f, kDim: kDim, vDim: vDim})
	for _, p := range a.from.planes() {
		for slot := range a.from.slots() {
			for head := range p.kvHeads {
				p.put(slot, head, r.endRow(slot, p.dim, largestOf(f.Act)))
			}
		}
	}
	again := r.cache(geometry{2, a.to.block, 2, kDim, vDim, backend.Format{Act: f.Act, K: f.Act, V: f.Act}})
	pairs := [][2]uint32{{5, 1}, {2, 0}}
	back := backend.ConvertBlocksParams[B]{From: a.to.view(), To: again.view(), N: len(pairs), Pairs: constant(r, "pairs back", backend.U32, flat(pairs)).buf}
	r.push()
	require.NoError(r, r.be.ConvertBlocks(r.s, a.params))
	require.NoError(r, r.be.ConvertBlocks(r.s, back))
	require.NoError(r, r.s.Sync())
	a.accept(r)
	for i, from := range a.to.planes() {
		to := again.planes()[i]
		for _, pair := range pairs {
			for head := range to.kvHeads {
				for slot, row := range from.blockValues(int(pair[0]), head) {
					for d, v := range row { // a code may be worth more than the type's largest number
						row[d] = min(max(v, -largestOf(f.Act)), largestOf(f.Act))
					}
					to.put(int(pair[1])*to.block+slot, head, row)
					require.NoError(r, from.finite(int(pair[0])*to.block+slot, head))
					require.NoError(r, to.finite(int(pair[1])*to.block+slot, head))
				}
			}
		}
	}
	r.verify()
}

// exactly is the largest magnitude of what codes are worth that attention reads in every format: as far as f32
// goes; of devices that make elements of 16 bits of codes, as far as that goes.
func exactly(act backend.DType) float32 {
	switch act {
	case backend.F16:
		return 60000
	case backend.BF16:
		return 0x1p119
	}
	return math.MaxFloat32
}
