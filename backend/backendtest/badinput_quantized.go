package backendtest

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// quantizedRefusals break what only quantized caches have, in every operation.
func quantizedRefusals[B backend.Buffer]() []check[B] {
	in := kind[B]{name: ", quantized,", format: (*rig[B]).quantized}
	appends, attends, masses, converts := appendOperation(in), attendOperation(in), attendMassOperation(in), convertOperation[B]()
	gathers, copies, moves, rotates := gatherOperation(in), copyOperation(in), moveOperation(in), rotateOperation(in)
	var out []check[B]
	out = append(out, refusals(appends, scaleSpoils(appendCache[B]))...)
	out = append(out, refusals(attends, scaleSpoils(attendCache[B]))...)
	out = append(out, refusals(masses, scaleSpoils(attendMassCache[B]))...)
	out = append(out, refusals(gathers, scaleSpoils(gatherCache[B]))...)
	out = append(out, refusals(copies, scaleSpoils(copyCache[B]))...)
	out = append(out, refusals(copies, []spoil[B, backend.CopyBlocksParams[B]]{{"keys of which some are turned",
		func(_ *rig[B], p *backend.CopyBlocksParams[B]) { p.From.K.Hadamard = true }}})...)
	out = append(out, refusals(moves, scaleSpoils(moveCache[B]))...)
	out = append(out, refusals(rotates, scaleSpoils(rotateCache[B]))...)
	out = append(out, refusals(converts, convertSpoils[B]())...)
	out = append(out, refusals(converts, cacheSpoils(func(p *backend.ConvertBlocksParams[B]) *backend.CacheView[B] { return &p.From }))...)
	out = append(out, refusals(converts, scaleSpoils(func(p *backend.ConvertBlocksParams[B]) *backend.CacheView[B] { return &p.To }))...)
	return append(out, accepted(appends), accepted(attends), accepted(masses), accepted(gathers), accepted(copies), accepted(moves), accepted(rotates),
		accepted(converts))
}

// scaleSpoils break the scales of a quantized cache.
func scaleSpoils[B backend.Buffer, P any](view func(p *P) *backend.CacheView[B]) []spoil[B, P] {
	var none B
	var out []spoil[B, P]
	add := func(name string, do func(r *rig[B], v *backend.CacheView[B])) {
		out = append(out, spoil[B, P]{name, func(r *rig[B], p *P) { do(r, view(p)) }})
	}
	for name, scales := range map[string]func(v *backend.CacheView[B]) *backend.Opt[B]{
		"key scales":   func(v *backend.CacheView[B]) *backend.Opt[B] { return &v.K.Scales },
		"value scales": func(v *backend.CacheView[B]) *backend.Opt[B] { return &v.V.Scales },
	} {
		add("no "+name, func(_ *rig[B], v *backend.CacheView[B]) { *scales(v) = backend.Opt[B]{} })
		add("no buffer for "+name, func(_ *rig[B], v *backend.CacheView[B]) { scales(v).Buf = none })
		add(name+" too short", func(r *rig[B], v *backend.CacheView[B]) {
			b := scales(v).Buf
			scales(v).Buf = r.exact("short "+name, b.DType(), b.Len()-guard-1).buf
		})
		add(name+" of another type", func(r *rig[B], v *backend.CacheView[B]) {
			scales(v).Buf = r.region(name+" of i32", backend.I32, 0, scales(v).Buf.Len()).buf
		})
	}
	add("values that are turned", func(_ *rig[B], v *backend.CacheView[B]) { v.V.Hadamard = true })
	add("keys whose blocks are not all there", func(_ *rig[B], v *backend.CacheView[B]) { v.Blocks += 2 })
	return out
}

func convertOperation[B backend.Buffer]() operation[B, backend.ConvertBlocksParams[B]] {
	return operation[B, backend.ConvertBlocksParams[B]]{
		name: "convert blocks",
		good: func(r *rig[B]) backend.ConvertBlocksParams[B] {
			kDim, vDim := r.dims(64, 64)
			a := newConvert(r, convertSpec{format: r.quantized(), kDim: kDim, vDim: vDim, mass: true})
			a.params.N = 2
			a.params.Pairs = constant(r, "two pairs", backend.U32, []uint32{0, 2, 1, 3}).buf
			return a.params
		},
		call: func(r *rig[B], p backend.ConvertBlocksParams[B]) error { return r.be.ConvertBlocks(r.s, p) },
	}
}

func convertSpoils[B backend.Buffer]() []spoil[B, backend.ConvertBlocksParams[B]] {
	type params = backend.ConvertBlocksParams[B]
	out := pairSpoils(backend.U32, backend.I64, func(p *params) (*B, *int) { return &p.Pairs, &p.N })
	out = append(out, massSpoils("attention scores of the source", func(p *params) *backend.Opt[B] { return &p.FromScores })...)
	out = append(out, massSpoils("attention scores", func(p *params) *backend.Opt[B] { return &p.ToScores })...)
	for name, do := range map[string]func(p *params){
		"mass of the source only":  func(p *params) { p.ToScores = backend.Opt[B]{} },
		"mass without its source":  func(p *params) { p.FromScores = backend.Opt[B]{} },
		"mass in one buffer":       func(p *params) { p.FromScores = p.ToScores },
		"other heads":              func(p *params) { p.From.KVHeads = 1 },
		"another block size":       func(p *params) { p.To.BlockSize, p.To.Blocks = p.To.BlockSize/2, 2 },
		"another key dim":          func(p *params) { p.From.K.Dim /= 2 },
		"another value dim":        func(p *params) { p.To.V.Dim /= 2 },
		"two caches of floats":     func(p *params) { p.To = p.From },
		"two quantized caches":     func(p *params) { p.From = p.To },
		"planes of both":           func(p *params) { p.From.V = p.To.V },
		"a cache of no quantities": func(p *params) { p.To.V = p.From.V },
	} {
		out = append(out, spoil[B, params]{name, func(_ *rig[B], p *params) { do(p) }})
	}
	return out
}

// checkScalesOfAnother hands over scales that were freed and those of another device.
func checkScalesOfAnother[B backend.Buffer](r *rig[B]) {
	kDim, vDim := r.dims(64, 64)
	c := r.cache(geometry{2, r.blockSize(16), 4, kDim, vDim, r.quantized()}).fill(r)
	weighed := attendMassOperation(plainly[B]()).good(r)
	other := r.open()
	foreign := r.constantOn(other, 1.5)
	freed, err := r.be.Alloc(backend.F32, probeLen)
	require.NoError(r, err)
	require.NoError(r, r.be.Free(freed))
	pairs := constant(r, "pairs", backend.I64, []int64{0, 2}).buf
	blocks := constant(r, "block pairs", backend.U32, []uint32{0, 2}).buf
	r.push()
	for want, b := range map[error]B{backend.ErrOtherDevice: foreign, backend.ErrFreed: freed} {
		view := c.view()
		view.V.Scales.Buf = b
		underLSE, ofMass := weighed, weighed
		underLSE.LSE, ofMass.Scores = b, b
		errs := map[string]error{
			"log-sum-exp given": r.be.AttendScores(r.s, underLSE),
			"mass to add to":    r.be.AttendScores(r.s, ofMass),
			"scales":            r.be.MoveSlots(r.s, backend.MoveSlotsParams[B]{Cache: view, Pairs: pairs, N: 1}),
			"mass of slots":     r.be.MoveSlots(r.s, backend.MoveSlotsParams[B]{Cache: c.view(), Scores: backend.Some(b), Pairs: pairs, N: 1}),
			"mass of blocks":    r.be.CopyBlocks(r.s, backend.CopyBlocksParams[B]{From: c.view(), To: c.view(), FromScores: backend.Some(b), ToScores: backend.Some(b), Pairs: blocks, N: 1}),
			"scales to convert": r.be.ConvertBlocks(r.s, backend.ConvertBlocksParams[B]{From: c.view(), To: view, Pairs: blocks, N: 1}),
		}
		for name, err := range errs {
			require.ErrorIs(r, err, want, name)
		}
	}
	r.verify()
	require.NoError(r, other.Free(foreign))
	require.NoError(r, other.Close())
}
