package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// latentSpoilt are the checks that bad input of latent caches is a typed error and changes nothing.
func latentSpoilt[B backend.Buffer]() []check[B] {
	in := latently[B]()
	appends, attends, masses := appendOperation(in), attendOperation(in), attendMassOperation(in)
	gathers, copies, moves, rotates := gatherOperation(in), copyOperation(in), moveOperation(in), rotateOperation(in)
	var out []check[B]
	out = append(out, refusals(appends, latentSpoils(appendCache[B]))...)
	out = append(out, refusals(appends, latentAppendSpoils[B]())...)
	out = append(out, refusals(appends, latentRopeSpoils(func(p *backend.AppendParams[B]) *backend.RotaryTable[B] { return &p.Rotary }))...)
	out = append(out, refusals(attends, latentSpoils(attendCache[B]))...)
	out = append(out, refusals(masses, latentSpoils(attendMassCache[B]))...)
	out = append(out, refusals(gathers, latentSpoils(gatherCache[B]))...)
	out = append(out, refusals(gathers, gatherSpoils[B]())...)
	out = append(out, refusals(copies, latentSpoils(copyCache[B]))...)
	copies.name += " from a cache"
	out = append(out, refusals(copies, latentSpoils(copiedCache[B]))...)
	out = append(out, refusals(copies, []spoil[B, backend.CopyBlocksParams[B]]{{"a cache that is not latent", func(r *rig[B], p *backend.CopyBlocksParams[B]) {
		p.To.Latent = false
		p.To.V.Data = r.region("values", p.To.K.Data.DType(), 0, p.To.Blocks*p.To.KVHeads*p.To.BlockSize*p.To.V.Dim).buf
	}}})...)
	out = append(out, refusals(moves, latentSpoils(moveCache[B]))...)
	out = append(out, refusals(rotates, latentSpoils(rotateCache[B]))...)
	out = append(out, refusals(rotates, latentRopeSpoils(func(p *backend.RotateParams[B]) *backend.RotaryTable[B] { return &p.Rotary }))...)
	out = append(out, accepted(appends), accepted(attends), accepted(masses), accepted(gathers), accepted(copies), accepted(moves), accepted(rotates))
	return append(out, check[B]{"blocks whose slots share scales are refused", checkLatentByChannel[B]}, check[B]{"plans are refused", checkLatentPlans[B]})
}

// latentSpoils break a latent cache.
func latentSpoils[B backend.Buffer, P any](view func(p *P) *backend.CacheView[B]) []spoil[B, P] {
	var none B
	var out []spoil[B, P]
	add := func(name string, do func(r *rig[B], v *backend.CacheView[B])) {
		out = append(out, spoil[B, P]{name, func(r *rig[B], p *P) { do(r, view(p)) }})
	}
	plain := func(name string, do func(v *backend.CacheView[B])) {
		add(name, func(_ *rig[B], v *backend.CacheView[B]) { do(v) })
	}
	plain("values wider than their keys", func(v *backend.CacheView[B]) { v.V.Dim = v.K.Dim + 2 })
	plain("no value dim", func(v *backend.CacheView[B]) { v.V.Dim = 0 })
	plain("a negative value dim", func(v *backend.CacheView[B]) { v.V.Dim = -64 })
	plain("a value dim that overflows", func(v *backend.CacheView[B]) { v.V.Dim = math.MaxInt })
	plain("a key dim that overflows", func(v *backend.CacheView[B]) { v.K.Dim = math.MaxInt/2 + 1 })
	plain("more blocks than there are", func(v *backend.CacheView[B]) { v.Blocks += 2 })
	plain("keys stored turned", func(v *backend.CacheView[B]) { v.K.Hadamard = true })
	plain("values stored turned", func(v *backend.CacheView[B]) { v.V.Hadamard = true })
	plain("no keys", func(v *backend.CacheView[B]) { v.K.Data = none })
	plain("no values and no latents", func(v *backend.CacheView[B]) { v.Latent = false })
	add("keys that are too short", func(r *rig[B], v *backend.CacheView[B]) {
		v.K.Data = r.exact("short keys", v.K.Data.DType(), v.Blocks*v.KVHeads*v.BlockSize*v.K.Dim-1).buf
	})
	add("quantized keys without scales", func(r *rig[B], v *backend.CacheView[B]) {
		v.K.Data = r.region("quantized keys", backend.Int8, 0, v.Blocks*v.KVHeads*v.BlockSize*v.K.Dim).buf
	})
	add("values of half a byte", func(r *rig[B], v *backend.CacheView[B]) {
		n := v.Blocks * v.KVHeads * v.BlockSize
		words, scales, _ := backend.Int4.Scales(v.Blocks, v.KVHeads, v.BlockSize, v.K.Dim)
		v.K.Data, v.K.Scales = r.region("keys of int4", backend.Int4, 0, n*v.K.Dim).buf, backend.Some(r.region("scales", words, 0, scales).buf)
		v.V.Dim--
	})
	return out
}

// latentAppendSpoils break the two operands of keys.
func latentAppendSpoils[B backend.Buffer]() []spoil[B, backend.AppendParams[B]] {
	type params = backend.AppendParams[B]
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	rowSpoils(add, "V", func(p *params) *backend.Rows[B] { return &p.V })
	rowSpoils(add, "Q", func(p *params) *backend.Rows[B] { return &p.Q })
	add("a rest that is too short", func(r *rig[B], p *params) {
		p.K.Buf = r.exact("short rest", p.K.Buf.DType(), p.K.Buf.Len()-guard-1).buf
	})
	add("a rest of another type", func(r *rig[B], p *params) { p.K.Buf = r.region("rest of i32", backend.I32, 0, p.K.Buf.Len()).buf })
	return out
}

// latentRopeSpoils break the rotation of what comes after the latent.
func latentRopeSpoils[B backend.Buffer, P any](rope func(p *P) *backend.RotaryTable[B]) []spoil[B, P] {
	return append(ropeSpoils(rope), spoil[B, P]{"a rotation that reaches into the latent", func(r *rig[B], p *P) {
		t := rope(p)
		t.Dims += 2
		t.Table = backend.Some(r.region("wide rope table", backend.F32, 0, t.Positions*t.Dims).buf)
	}})
}

// checkLatentByChannel looks for a refusal of every operation that could meet such blocks.
func checkLatentByChannel[B backend.Buffer](r *rig[B]) {
	kDim, vDim := r.dimsOf(true, 96, 64)
	g := geometry{2, r.blockSize(16), 4, kDim, vDim, backend.Format{Act: backend.F32, K: backend.Int4Channel, V: backend.Int4Channel}}
	c, plain := r.cacheOf(true, g), geometry{2, g.block, 4, kDim, vDim, r.plain()}
	pairs := constant(r, "pairs", backend.U32, []uint32{0, 1}).buf
	gathered := backend.Some(r.region("gathered", backend.F32, 0, 2*kDim).buf)
	from := r.cacheOf(true, plain)
	shape := backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: kDim, VDim: vDim, BlockSize: g.block, Format: g.format, Latent: true}
	r.push()
	_, err := r.be.PlanAttend(shape)
	for name, err := range map[string]error{
		"plan":    err,
		"gather":  r.be.Gather(r.s, backend.GatherParams[B]{Cache: c.view(), Len: 1, K: gathered}),
		"copy":    r.be.CopyBlocks(r.s, backend.CopyBlocksParams[B]{From: c.view(), To: c.view(), Pairs: pairs, N: 1}),
		"convert": r.be.ConvertBlocks(r.s, backend.ConvertBlocksParams[B]{From: from.view(), To: c.view(), Pairs: pairs, N: 1}),
	} {
		require.ErrorIs(r, err, backend.ErrUnsupported{}, name)
	}
	r.verify()
}

// checkLatentPlans asks for plans of what cannot be.
func checkLatentPlans[B backend.Buffer](r *rig[B]) {
	kDim, vDim := r.dimsOf(true, 96, 64)
	f := r.plain()
	good := backend.AttendShape{QHeads: 4, KVHeads: 1, KDim: kDim, VDim: vDim, BlockSize: r.blockSize(16), Format: f, Latent: true}
	_, err := r.be.PlanAttend(good)
	require.NoError(r, err)
	for _, change := range []func(s *backend.AttendShape){
		func(s *backend.AttendShape) { s.VDim = s.KDim + 1 },
		func(s *backend.AttendShape) { s.VDim = 0 },
		func(s *backend.AttendShape) { s.Format.V = backend.Int8 },
		func(s *backend.AttendShape) { s.QHeads = 0 },
	} {
		bad := good
		change(&bad)
		_, err := r.be.PlanAttend(bad)
		r.requireOneOf(err, backend.ErrArgument{}, backend.ErrUnsupported{})
	}
}
