package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// appendSpec is a case of appending, complete and without a device.
type appendSpec struct {
	name                        string
	qHeads, kvHeads, kDim, vDim int
	block, blocks, tokens       int
	format                      backend.Format
	strided                     bool
	rotary                      *rotary // nil: keys are stored as they come
	hadamard                    bool    // keys and queries are turned, after the rotation
	adversarial                 bool    // rows that quantizing might get wrong
	latent                      bool
}

// behind is how many elements of a key come before those that turn, in an operand of their own.
func (s appendSpec) behind() int {
	if s.latent {
		return s.vDim
	}
	return 0
}

// turns reports whether keys and queries are not stored as they come.
func (s appendSpec) turns() bool { return s.rotary != nil || s.hadamard }

// ropePositions is the rows of the tables that checks make; positions lie
// anywhere below.
const ropePositions = 300

func appendChecks[B backend.Buffer](caps backend.Caps) []check[B] {
	var specs []appendSpec
	for i, f := range sampled(caps) {
		if !byChannel(f.K) {
			specs = append(specs, appendSpec{name: "stores " + formatName(f), kvHeads: 2, kDim: 64, vDim: 64,
				block: 8, blocks: 6, tokens: 19, format: f, strided: i%2 == 0}.listed(caps))
		}
	}
	rotate := func(name string, e rotary, change func(*appendSpec)) {
		for _, f := range formatAxis[:4] {
			s := appendSpec{name: fmt.Sprintf("rotates %s %s", name, formatName(f)), qHeads: 6, kvHeads: 3, kDim: 64, vDim: 64,
				block: 16, blocks: 5, tokens: 23, format: f, rotary: &e}
			if change != nil {
				change(&s)
			}
			specs = append(specs, s.listed(caps))
		}
	}
	full := rotary{theta: 10000, dims: 64, magnitude: 1}
	rotate("half-split", full, nil)
	rotate("interleaved", rotary{10000, 64, backend.Interleaved, 1}, nil)
	rotate("keys without queries", full, func(s *appendSpec) { s.qHeads = 0 })
	rotate("strided rows", full, func(s *appendSpec) { s.strided = true })
	rotate("half the dims, half-split", rotary{500000, 32, backend.HalfSplit, 1}, nil)
	rotate("half the dims, interleaved", rotary{10000, 32, backend.Interleaved, 1}, func(s *appendSpec) { s.strided = true })
	rotate("with a magnitude", rotary{10000, 48, backend.HalfSplit, 1.25}, nil)
	rotate("K wider than V", rotary{10000, 64, backend.Interleaved, 1.25}, func(s *appendSpec) { s.kDim, s.vDim = 192, 128 })

	block := listedBlock(caps, 16)
	for _, dim := range dimAxis {
		specs = append(specs, appendSpec{name: fmt.Sprintf("dims %dx%d", dim[0], dim[1]), kvHeads: 4, kDim: dim[0], vDim: dim[1],
			block: block, blocks: 4, tokens: 11, format: plainFormat(caps)})
	}
	kDim, vDim := listedDims(caps, 64, 64)
	for _, block := range []int{8, 16, 32, 64, 37} {
		specs = append(specs, appendSpec{name: fmt.Sprintf("block of %d", block), kvHeads: 1, kDim: kDim, vDim: vDim,
			block: block, blocks: 3, tokens: block + 1, format: plainFormat(caps)})
	}
	specs = append(specs, turnedAppends(caps)...)
	specs = append(specs, quantizedAppends(caps)...)
	var out []check[B]
	for _, s := range specs {
		out = append(out, check[B]{s.name, func(r *rig[B]) { checkAppend(r, s) }})
	}
	out = append(out, finiteChecks[B](caps)...)
	one := appendSpec{kvHeads: 8, kDim: 128, vDim: 128, block: 16, blocks: 2, tokens: 1, format: plainFormat(caps)}.listed(caps)
	return append(out, check[B]{"one token", func(r *rig[B]) { checkAppend(r, one) }},
		check[B]{"no tokens", func(r *rig[B]) { checkAppendNothing(r, r.plain()) }},
		check[B]{"no tokens of a quantized cache", func(r *rig[B]) { checkAppendNothing(r, r.quantized()) }})
}

// listed is a case that is not about head dims and block sizes, with ones that
// the device lists.
func (s appendSpec) listed(caps backend.Caps) appendSpec {
	s.kDim, s.vDim = listedDimsOf(caps, s.latent, s.kDim, s.vDim)
	s.block = listedBlock(caps, s.block)
	return s
}

// appendRun is a case of appending on a device.
type appendRun[B backend.Buffer] struct {
	appendSpec
	cache     *cache[B]
	k, v, q   *vectors[B] // q is nil where the case has none
	slots     []int64
	positions []uint32
	params    backend.AppendParams[B]
}

// newAppend allocates and fills the operands. Slots are anywhere in the cache,
// each at most once, and every fifth row is skipped.
func newAppend[B backend.Buffer](r *rig[B], s appendSpec) *appendRun[B] {
	a := &appendRun[B]{appendSpec: s}
	a.cache = r.cacheOf(s.latent, geometry{s.kvHeads, s.block, s.blocks, s.kDim, s.vDim, s.format})
	a.cache.k.hadamard = s.hadamard
	a.k = r.vectors("K", s.format.Act, s.tokens, s.kvHeads*(s.kDim-s.behind()), s.strided).fill(r)
	a.v = r.vectors("V", s.format.Act, s.tokens, s.kvHeads*s.vDim, s.strided).fill(r)
	a.v.put(0, borderValues(a.v.width, s.format.V)) // conversion at its borders, where no rotation blurs it
	if s.adversarial {
		a.resist(r)
	}
	order := r.rng.Perm(a.cache.slots())
	for i := range s.tokens {
		slot := int64(order[i])
		if i%5 == 3 {
			slot = -1
		}
		a.slots = append(a.slots, slot)
		a.positions = append(a.positions, uint32(r.rng.IntN(ropePositions)))
	}
	a.positions[0], a.positions[len(a.positions)-1] = 0, ropePositions-1
	a.params = backend.AppendParams[B]{Cache: a.cache.view(), Tokens: s.tokens, K: a.k.rows(), V: a.v.rows(),
		Slots: constant(r, "slots", backend.I64, a.slots).buf}
	if s.rotary != nil {
		a.params.Rotary = r.rope(*s.rotary, s.kDim-s.behind(), ropePositions)
		a.params.Positions = backend.Some(constant(r, "positions", backend.U32, a.positions).buf)
	}
	if s.qHeads > 0 {
		a.q = r.vectors("Q", s.format.Act, s.tokens, s.qHeads*s.kDim, s.strided).fill(r)
		a.params.QHeads, a.params.Q = s.qHeads, a.q.rows()
	}
	return a
}

// turnedAppends are the cases of keys that are stored turned and not quantized.
func turnedAppends(caps backend.Caps) []appendSpec {
	var specs []appendSpec
	for _, f := range formatAxis {
		add := func(name string, change func(*appendSpec)) {
			s := appendSpec{name: name + " " + formatName(f), qHeads: 6, kvHeads: 3, kDim: 64, vDim: 64, block: 8, blocks: 6, tokens: 19, format: f, hadamard: true}
			change(&s)
			specs = append(specs, s.listed(caps))
		}
		add("turns", func(*appendSpec) {})
		add("turns keys without queries", func(s *appendSpec) { s.qHeads = 0 })
		add("turns strided rows", func(s *appendSpec) { s.strided = true })
		add("turns dims 80x80", func(s *appendSpec) { s.kDim, s.vDim, s.strided = 80, 80, true })
		add("turns dims 192x128", func(s *appendSpec) { s.kDim, s.vDim = 192, 128 })
		add("turns dims 256x256", func(s *appendSpec) { s.kDim, s.vDim = 256, 256 })
		add("rotates and turns", func(s *appendSpec) { s.rotary = &rotary{theta: 10000, dims: 64, magnitude: 1} })
		add("rotates, interleaved, and turns dims 80x80", func(s *appendSpec) {
			s.kDim, s.vDim, s.strided, s.rotary = 80, 80, true, &rotary{500000, 32, backend.Interleaved, 1.25}
		})
	}
	return specs
}

// borderValues is n values at which rounding to a half type changes its rule; finite
// ones in every type where they are to be quantized.
func borderValues(n int, dt backend.DType) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), 1 + 1./1024, 1 + 1./2048, 1 + 3./2048, 1 + 1./256, 1 + 3./256,
		65504, 6.1e-5, 6.0e-5, 5.9e-8, 2.9e-8, 3.0e-8, 1e-12}
	if !dt.Quantized() {
		special = append(special, 65519, 65520, -1e6, float32(math.Inf(1)), float32(math.Inf(-1)))
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = special[i%len(special)]
	}
	return out
}

// checkAppend compares the cache bit by bit, but for the dims that rotate.
func checkAppend[B backend.Buffer](r *rig[B], s appendSpec) {
	r.needsOf(s.latent, s.format, s.kDim, s.vDim, s.block, s.block&(s.block-1) == 0)
	r.seed(s.name)
	a := newAppend(r, s)
	r.push()
	require.NoError(r, r.be.Append(r.s, a.params))
	a.accept(r)
	r.verify()
}

// checkAppendNothing appends none of the rows of a good call.
func checkAppendNothing[B backend.Buffer](r *rig[B], f backend.Format) {
	p := appendOperation(kind[B]{format: func(*rig[B]) backend.Format { return f }}).good(r)
	p.Tokens = 0
	r.push()
	require.NoError(r, r.be.Append(r.s, p))
	r.verify()
}

// accept brings the images to what the cache and the queries must hold now: the values
// of the call, with the bits that the host's codec makes of them where nothing turns them.
func (a *appendRun[B]) accept(r *rig[B]) {
	gotK, gotV := r.content(a.cache.k), r.content(a.cache.v)
	for i, slot := range a.slots {
		for head := range a.kvHeads {
			if slot < 0 {
				continue
			}
			k, v := a.key(i, head), a.value(i, head)
			where := fmt.Sprintf("of token %d, head %d", i, head)
			if !a.latent {
				require.NoError(r, a.acceptRow(r, a.cache.v, gotV, int(slot), head, v), "value %s", where)
			}
			switch k64 := widen(k); {
			case !a.turns():
				require.NoError(r, a.acceptRow(r, a.cache.k, gotK, int(slot), head, k), "key %s", where)
			case a.format.K.Quantized():
				require.NoError(r, a.cache.k.settle(gotK, int(slot), head, a.turned(k64, i), r.lost()), "key %s", where)
			case a.hadamard:
				require.NoError(r, a.cache.k.settleFloats(gotK, int(slot), head, a.turned(k64, i), coarsest(a.format.Act, a.format.K)), "key %s", where)
			default:
				a.cache.k.put(int(slot), head, k)
				require.NoError(r, a.rotary.accept("key "+where, a.cache.k.region, a.cache.k.element(int(slot), head)+a.behind(), gotK.data,
					k[a.behind():], int(a.positions[i]), coarsest(a.format.Act, a.format.K)))
			}
		}
	}
	if a.q == nil || !a.turns() {
		return
	}
	gotQ := r.fetch(a.q.region)
	for i := range a.tokens {
		for head := range a.qHeads {
			at := i*a.q.stride + head*a.kDim
			where := fmt.Sprintf("query of token %d, head %d", i, head)
			q := decode(a.q.dt, a.q.part(a.q.image, at, a.kDim))
			if a.hadamard {
				have := a.q.part(gotQ, at, a.kDim)
				require.NoError(r, compareRows(where, widen(decode(a.q.dt, have)), a.turned(widen(q), i), a.kDim, coarsest(a.format.Act)))
				a.q.set(at, have)
				continue
			}
			require.NoError(r, a.rotary.accept(where, a.q.region, at+a.behind(), gotQ, q[a.behind():], int(a.positions[i]), coarsest(a.format.Act)))
		}
	}
}

// key is a key of the call, all of it.
func (a *appendRun[B]) key(token, head int) []float32 {
	n := a.kDim - a.behind()
	k := decode(a.k.dt, a.k.part(a.k.image, token*a.k.stride+head*n, n))
	if a.latent {
		return append(a.value(token, head), k...)
	}
	return k
}

// value is a value of the call.
func (a *appendRun[B]) value(token, head int) []float32 {
	return decode(a.v.dt, a.v.part(a.v.image, token*a.v.stride+head*a.vDim, a.vDim))
}

// acceptRow is a row that nothing turns.
func (a *appendRun[B]) acceptRow(r *rig[B], p *plane[B], got stored, slot, head int, values []float32) error {
	if r.flushes && p.dt.Quantized() && faint(values) {
		return p.settle(got, slot, head, widen(values), r.lost())
	}
	p.put(slot, head, values)
	return nil
}

// turned is a head of token i as it is stored.
func (a *appendRun[B]) turned(head []float64, i int) []float64 {
	if a.rotary != nil {
		head = slices.Concat(head[:a.behind()], a.rotary.turn(head[a.behind():], int(a.positions[i])))
	}
	if a.hadamard {
		head = hadamard(head)
	}
	return head
}
