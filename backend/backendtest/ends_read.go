package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// checkEndsGathered gathers such rows.
func checkEndsGathered[B backend.Buffer](r *rig[B], f backend.Format) {
	kDim, vDim := r.dims(64, 64)
	block := r.blockSize(16)
	r.needs(f, kDim, vDim, block, true)
	c := r.cache(geometry{2, block, 3, kDim, vDim, f})
	p := backend.GatherParams[B]{Cache: c.view(), TableOffset: 1, Len: block}
	var into []*region[B]
	for _, plane := range c.planes() {
		for head := range c.kvHeads {
			rows := make([][]float32, block)
			for slot := range rows {
				rows[slot] = r.endRow(head+slot, plane.dim, largestOf(plane.dt))
			}
			plane.putBlock(1, head, rows)
		}
		into = append(into, r.region("gathered "+plane.name, backend.F32, 0, c.kvHeads*block*plane.dim))
	}
	p.K, p.V = backend.Some(into[0].buf), backend.Some(into[1].buf)
	r.push()
	require.NoError(r, r.be.Gather(r.s, p))
	require.NoError(r, r.s.Sync())
	for i, plane := range c.planes() {
		for head := range c.kvHeads {
			for slot, row := range plane.blockValues(1, head) {
				into[i].set((head*block+slot)*plane.dim, encode(backend.F32, row))
				require.NoError(r, plane.finite(block+slot, head))
			}
		}
	}
	r.verify()
}

// checkEndsRead attends over such rows one by one: each output is a value, and a query of zeros has scores of 0
// with whatever keys.
func checkEndsRead[B backend.Buffer](r *rig[B], f backend.Format) {
	s := small("ends", make([]sequence, endKinds)...).with(func(s *attendSpec) { s.format, s.output = f, outputAxis[1] })
	for i := range s.seqs {
		s.seqs[i] = sequence{1, 1}
	}
	s.kDim, s.vDim = r.dims(64, 64)
	s.layout.block = listedBlock(r.be.Caps(), s.layout.block)
	r.needs(f, s.kDim, s.vDim, s.layout.block, true)
	a := newAttend(r, s)
	for i := range s.seqs {
		block := a.tables[i][0]
		a.q.put(i, make([]float32, a.q.width))
		a.queries[i] = make([]float32, a.q.width)
		for _, p := range a.cache.planes() {
			top := min(exactly(f.Act), largestOf(p.dt)) // of floats, what they hold
			for head := range a.kvHeads {
				rows := make([][]float32, p.block)
				for slot := range rows {
					rows[slot] = r.endRow(i+slot, p.dim, top)
				}
				p.putBlock(block, head, rows)
			}
		}
	}
	r.push()
	require.NoError(r, r.be.Attend(r.s, a.params))
	require.NoError(r, r.s.Sync())
	a.compare(a.expect())
}

// Scales cover magnitudes up to one that is covered, of groups of MX up to another (package quant).
const covered, coveredMX = 0x1.ep127, 0x1.8p127

// checkEndsTurned rotates stored keys whose pairs leave the range of f32 on the way: they end near its ends.
func checkEndsTurned[B backend.Buffer](r *rig[B], dt backend.DType) {
	turnEnds(r, r.storing(dt), math.MaxFloat32, false, func(k *plane[B], got stored, slot, head int, want []float64) error {
		have := k.values(got, slot, head)
		for i, v := range want {
			if far := float64(have[i]); math.Abs(v) > covered && far*math.Copysign(1, v) > 0.99*coveredMX && math.Abs(far) <= math.MaxFloat32 {
				want[i] = far
			}
		}
		return k.settle(got, slot, head, want, 0)
	})
}

// checkEndsTurnedFloats rotates keys that are floats, and that a Hadamard matrix may have turned, whose pairs leave the
// range of their type: they end at its largest number.
func checkEndsTurnedFloats[B backend.Buffer](r *rig[B], dt backend.DType, turned bool) {
	turnEnds(r, backend.Format{Act: dt, K: dt, V: dt}, largestOf(dt), turned, func(k *plane[B], got stored, slot, head int, want []float64) error {
		for i, v := range want {
			want[i] = min(max(v, -float64(largestOf(dt))), float64(largestOf(dt)))
		}
		return k.settleFloats(got, slot, head, want, coarsest(dt))
	})
}

// turnEnds rotates keys whose elements go up to largest, and compares each that is to change: of what a reference without bounds
// makes of it.
func turnEnds[B backend.Buffer](r *rig[B], f backend.Format, largest float32, turned bool, compare func(k *plane[B], got stored, slot, head int, want []float64) error) {
	kDim, vDim := r.dims(80, 80)
	block := r.blockSize(16)
	r.needs(f, kDim, vDim, block, true)
	e := rotary{500000, 64, backend.HalfSplit, 1}
	c := r.cache(geometry{2, block, max(4, 64/block), kDim, vDim, f})
	for slot := range c.slots() {
		for head := range c.kvHeads {
			c.k.put(slot, head, r.endRow(slot, kDim, largest))
			c.v.put(slot, head, r.endRow(slot, vDim, largest))
		}
	}
	c.k.hadamard = turned
	p := rotateParams(r, c, e, rotatedSlots, rotatedBy)
	r.push()
	require.NoError(r, r.be.Rotate(r.s, p))
	require.NoError(r, r.s.Sync())
	got := r.content(c.k)
	eachRotated(c, func(slot, head, delta int, where string) {
		if delta == 0 {
			return // it stays, bit for bit
		}
		want := widen(c.k.values(c.k.now(), slot, head))
		if turned {
			want = hadamard(e.turn(hadamard(want), delta))
		} else {
			want = e.turn(want, delta)
		}
		require.NoError(r, compare(c.k, got, slot, head, want), where)
		require.NoError(r, c.k.finite(slot, head), where)
	})
	r.verify()
}
