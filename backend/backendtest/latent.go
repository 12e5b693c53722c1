package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// latentChecks are those of latent caches. They skip where the device does not list what they are about, and one that
// lists no latent caches has to refuse them by name.
func latentChecks[B backend.Buffer](caps backend.Caps, o Options) []check[B] {
	if !caps.Latent {
		return latentRefusals[B]()
	}
	var out []check[B]
	for _, s := range latentAppends(caps) {
		out = append(out, check[B]{"append " + s.name, func(r *rig[B]) { checkAppend(r, s) }})
	}
	for _, s := range latentAttends(caps, o) {
		out = append(out, check[B]{"attend " + s.name, func(r *rig[B]) {
			if o.MaxWork > 0 && s.work() > o.MaxWork {
				r.skip("%d multiply-adds, and Options.MaxWork is %d", s.work(), o.MaxWork)
			}
			checkAttend(r, s)
		}})
	}
	out = append(out, latentSplits[B](caps)...)
	out = append(out, latentRoundedQueries[B](caps)...)
	for dt := range latentTypes {
		out = append(out, latentMoves[B](dt)...)
	}
	out = append(out, latentConversions[B](caps)...)
	return append(append(out, latentNotFinite[B]()...), latentSpoilt[B]()...)
}

// latentRefusals are what a device without latent caches answers: ErrUnsupported, with the word.
func latentRefusals[B backend.Buffer]() []check[B] {
	in := latently[B]()
	var out []check[B]
	add := func(name string, call func(r *rig[B]) error) {
		out = append(out, check[B]{name + " is refused", func(r *rig[B]) {
			err := call(r)
			require.ErrorIs(r, err, backend.ErrUnsupported{})
			require.ErrorContains(r, err, "latent")
			r.verify()
		}})
	}
	add("append", func(r *rig[B]) error { return pushed(r, appendOperation(in)) })
	add("gather", func(r *rig[B]) error { return pushed(r, gatherOperation(in)) })
	add("copy blocks", func(r *rig[B]) error { return pushed(r, copyOperation(in)) })
	add("move slots", func(r *rig[B]) error { return pushed(r, moveOperation(in)) })
	add("rotate", func(r *rig[B]) error { return pushed(r, rotateOperation(in)) })
	add("plan", func(r *rig[B]) error {
		_, err := r.be.PlanAttend(backend.AttendShape{QHeads: 4, KVHeads: 2, KDim: 64, VDim: 48, BlockSize: 16, Format: r.plain(), Latent: true})
		return err
	})
	return out
}

// pushed is what a good call returns.
func pushed[B backend.Buffer, P any](r *rig[B], op operation[B, P]) error {
	p := op.good(r)
	r.push()
	return op.call(r, p)
}

// latently is a latent cache that stores what is computed with.
func latently[B backend.Buffer]() kind[B] {
	return kind[B]{name: ", latent,", format: (*rig[B]).plain, latent: true}
}

// latentMoves are the checks of what reads, moves and turns rows of one storage type.
func latentMoves[B backend.Buffer](dt backend.DType) []check[B] {
	var out []check[B]
	add := func(name string, run func(r *rig[B])) {
		out = append(out, check[B]{fmt.Sprintf("%s of %s", name, dt), run})
	}
	for _, s := range []gatherSpec{
		{name: "a whole sequence", block: 8, n: 45, table: true},
		{name: "from inside a block", block: 16, begin: 13, n: 40, table: true, tableOffset: 5},
		{name: "values alone", block: 8, n: 20, table: true, noK: true},
		{name: "keys alone", block: 8, n: 20, table: true, noV: true},
		{name: "a contiguous sequence", block: 61, begin: 2, n: 50, tableOffset: 2},
	} {
		s.latent = true
		if s.widen = dt.Quantized(); !s.widen {
			add("gather "+s.name, func(r *rig[B]) { checkGather(r, s, dt) })
		}
		s.widen = true
		add("gather as f32: "+s.name, func(r *rig[B]) { checkGather(r, s, dt) })
	}
	for _, mass := range []bool{false, true} {
		add(fmt.Sprintf("blocks, mass %v,", mass), func(r *rig[B]) {
			f := r.storingOf(true, dt)
			c, larger := r.movedAs(true, f, mass, 0), r.movedAs(true, f, mass, 3)
			c.copyBlocks(r, c, [][2]uint32{{0, 5}, {3, 2}, {0, 4}})
			c.copyBlocks(r, larger, [][2]uint32{{0, uint32(larger.blocks - 1)}, {backend.NoBlock, 1}, {5, 5}})
		})
		add(fmt.Sprintf("slots, mass %v,", mass), func(r *rig[B]) {
			r.movedAs(true, r.storingOf(true, dt), mass, 0).moveSlots(r, append(gaps(48), [2]int64{7, 1}, [2]int64{1, 2}, [2]int64{5, 5}))
		})
	}
	for _, e := range []rotary{{10000, 64, backend.HalfSplit, 1}, {500000, 32, backend.Interleaved, 1}} {
		add(fmt.Sprintf("turn %d dims, %s,", e.dims, e.pairing), func(r *rig[B]) { checkRotateLatent(r, dt, e) })
	}
	return out
}

// checkRotateLatent turns what keys have behind their latents.
func checkRotateLatent[B backend.Buffer](r *rig[B], dt backend.DType, e rotary) {
	f := r.storingOf(true, dt)
	kDim, vDim := r.dimsOf(true, 192, 128)
	block := r.blockSize(16)
	r.needsOf(true, f, kDim, vDim, block, true)
	c := r.cacheOf(true, geometry{2, block, max(4, 64/block), kDim, vDim, f}).fill(r)
	p := rotateParams(r, c, e, rotatedSlots, rotatedBy)
	p.Rotary.Magnitude = 1.25 // must be left out
	r.push()
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.content(c.k)
	eachRotated(c, func(slot, head, delta int, where string) {
		before := c.k.values(c.k.now(), slot, head)
		if dt.Quantized() {
			want := append(widen(before[:vDim]), e.turn(widen(before[vDim:]), delta)...)
			require.NoError(r, c.k.settle(got, slot, head, want, 0), where)
			return
		}
		require.NoError(r, e.accept(where, c.k.region, c.k.element(slot, head)+vDim, got.data, before[vDim:], delta, coarsest(dt)))
	})
	r.verify()
}

// latentConversions are the checks of blocks that change their storage type.
func latentConversions[B backend.Buffer](caps backend.Caps) []check[B] {
	var out []check[B]
	for _, f := range latentFormats(caps) {
		if !f.K.Quantized() {
			continue
		}
		s := convertSpec{format: f, latent: true, mass: true}
		for i, dims := range [][2]int{{576, 512}, {80, 64}, {192, 128}} {
			s.kDim, s.vDim = listedDimsOf(caps, true, dims[0], dims[1])
			s.unpack, s.saturate = i%2 == 1, i == 2
			s.name = fmt.Sprintf("convert %s, dims %dx%d, unpack %v, saturate %v", formatName(f), dims[0], dims[1], s.unpack, s.saturate)
			out = append(out, check[B]{s.name, func(r *rig[B]) { checkConvert(r, s) }})
		}
	}
	return out
}
