package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func rotateChecks[B backend.Buffer]() []check[B] {
	var out []check[B]
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		for _, e := range []rotary{
			{10000, 64, backend.HalfSplit, 1},
			{10000, 64, backend.Interleaved, 1},
			{500000, 32, backend.HalfSplit, 1},
			{500000, 32, backend.Interleaved, 1},
		} {
			name := fmt.Sprintf("%s %d dims, pairing %d", dt, e.dims, e.pairing)
			out = append(out, check[B]{name, func(r *rig[B]) { checkRotate(r, dt, e) }},
				check[B]{name + ", Hadamard", func(r *rig[B]) { checkRotateTurned(r, dt, e) }})
		}
	}
	for i, dt := range rowTypes {
		for _, turned := range []bool{false, true} {
			e := rotary{500000, 64, backend.Pairing(i % 2), 1}
			name := fmt.Sprintf("%s, Hadamard %v", dt, turned)
			out = append(out, check[B]{name, func(r *rig[B]) { checkRotateQuantized(r, dt, e, turned) }})
		}
	}
	return append(out, check[B]{"there and back", checkRoundTrip[B]}, check[B]{"as if appended there", checkShift[B]})
}

// checkRotate turns some keys forward and back, by all distances that the table
// reaches, and leaves everything else bit by bit as it was.
func checkRotate[B backend.Buffer](r *rig[B], dt backend.DType, e rotary) {
	f := backend.Format{Act: dt, K: dt, V: dt}
	kDim, vDim := r.dims(64, 64)
	block := r.blockSize(16)
	r.needs(f, kDim, vDim, block, true)
	c := r.cache(geometry{2, block, max(4, 64/block), kDim, vDim, f}).fill(r)
	p := rotateParams(r, c, e, rotatedSlots, rotatedBy)
	p.Rotary.Magnitude = 1.25 // must be left out
	r.push()
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.fetch(c.k.region)
	eachRotated(c, func(slot, head, delta int, where string) {
		require.NoError(r, e.accept(where, c.k.region, c.k.element(slot, head), got, c.k.values(c.k.now(), slot, head), delta, coarsest(dt)))
	})
	r.verify()
}

// checkRotateTurned does that with keys that are stored turned by a Hadamard matrix.
func checkRotateTurned[B backend.Buffer](r *rig[B], dt backend.DType, e rotary) {
	f := backend.Format{Act: dt, K: dt, V: dt}
	kDim, vDim := r.dims(80, 80)
	block := r.blockSize(16)
	r.needs(f, kDim, vDim, block, true)
	c := r.cache(geometry{2, block, max(4, 64/block), kDim, vDim, f}).fill(r)
	c.k.hadamard = true
	p := rotateParams(r, c, e, rotatedSlots, rotatedBy)
	p.Rotary.Magnitude = 1.25 // must be left out
	r.push()
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.content(c.k)
	eachRotated(c, func(slot, head, delta int, where string) {
		if delta == 0 {
			return // it stays, bit for bit
		}
		want := hadamard(e.turn(hadamard(widen(c.k.values(c.k.now(), slot, head))), delta))
		require.NoError(r, c.k.settleFloats(got, slot, head, want, coarsest(dt)), where)
	})
	r.verify()
}

// Slots that are turned, and how far.
var (
	rotatedSlots = []int64{3, 63, -1, 0, 17, 16, 15, -1, 40}
	rotatedBy    = []int32{1, -1, 5, 0, ropePositions - 1, 1 - ropePositions, 100, -7, -200}
)

func eachRotated[B backend.Buffer](c *cache[B], do func(slot, head, delta int, where string)) {
	for i, slot := range rotatedSlots {
		for head := range c.kvHeads {
			if slot >= 0 {
				do(int(slot), head, int(rotatedBy[i]), fmt.Sprintf("key at slot %d, head %d, turned by %d", slot, head, rotatedBy[i]))
			}
		}
	}
}

// checkRotateQuantized turns keys that are quantized, and that may be turned by a Hadamard
// matrix, too: what they are worth is turned, and then rounded once.
func checkRotateQuantized[B backend.Buffer](r *rig[B], dt backend.DType, e rotary, turned bool) {
	kDim, vDim := r.dims(80, 80)
	block := r.blockSize(16)
	c := r.cache(geometry{2, block, max(4, 64/block), kDim, vDim, r.storing(dt)}).fill(r)
	c.k.hadamard = turned
	p := rotateParams(r, c, e, rotatedSlots, rotatedBy)
	p.Rotary.Magnitude = 1.25 // must be left out
	r.push()
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.content(c.k)
	eachRotated(c, func(slot, head, delta int, where string) {
		want := widen(c.k.values(c.k.now(), slot, head))
		if turned {
			want = hadamard(e.turn(hadamard(want), delta))
		} else {
			want = e.turn(want, delta)
		}
		require.NoError(r, c.k.settle(got, slot, head, want, 0), where)
	})
	r.verify()
}

func rotateParams[B backend.Buffer](r *rig[B], c *cache[B], e rotary, slots []int64, deltas []int32) backend.RotateParams[B] {
	return backend.RotateParams[B]{Cache: c.view(), N: len(slots), Rotary: r.rope(e, c.kDim-c.behind(), ropePositions),
		Slots: constant(r, "slots", backend.I64, slots).buf, Deltas: constant(r, "deltas", backend.I32, deltas).buf}
}

// checkRoundTrip turns every key forward and back: two roundings away from where
// it was.
func checkRoundTrip[B backend.Buffer](r *rig[B]) {
	f := r.plain()
	kDim, vDim := r.dims(64, 64)
	c := r.cache(geometry{2, r.blockSize(16), 3, kDim, vDim, f})
	c.fill(r)
	slots := make([]int64, c.slots())
	there, back := make([]int32, len(slots)), make([]int32, len(slots))
	for i := range slots {
		slots[i], there[i], back[i] = int64(i), int32(i), int32(-i)
	}
	e := rotary{10000, kDim, backend.HalfSplit, 1}
	first, second := rotateParams(r, c, e, slots, there), rotateParams(r, c, e, slots, back)
	r.push()
	require.NoError(r, r.be.Rotate(r.s, first))
	require.NoError(r, r.be.Rotate(r.s, second))
	got := r.fetch(c.k.region)
	for slot := range slots {
		for head := range c.kvHeads {
			before := c.k.values(c.k.now(), slot, head)
			require.NoError(r, e.accept(fmt.Sprintf("key at slot %d, head %d", slot, head), c.k.region,
				c.k.element(slot, head), got, before, 0, 2*coarsest(f.K)))
		}
	}
	r.verify()
}

// checkShift appends the same keys at two places, turns those of the first by the
// distance, and finds them equal: what moving a sequence's tokens relies on.
func checkShift[B backend.Buffer](r *rig[B]) {
	const tokens, delta = 8, -41
	f := r.plain()
	kDim, vDim := r.dims(64, 64)
	e := rotary{10000, kDim, backend.Interleaved, 1.25}
	c := r.cache(geometry{1, r.blockSize(16), 2, kDim, vDim, f})
	k := r.vectors("K", f.Act, tokens, kDim, false).fill(r)
	v := r.vectors("V", f.Act, tokens, vDim, false).fill(r)
	var slots [2][]int64
	var positions [2][]uint32
	deltas := make([]int32, tokens)
	for i := range tokens {
		slots[0], slots[1] = append(slots[0], int64(i)), append(slots[1], int64(c.block+i))
		positions[0], positions[1] = append(positions[0], uint32(100+i)), append(positions[1], uint32(100+delta+i))
		deltas[i] = delta
	}
	p := rotateParams(r, c, e, slots[0], deltas)
	var appends [2]backend.AppendParams[B]
	for i := range appends {
		appends[i] = backend.AppendParams[B]{Cache: c.view(), Tokens: tokens, K: k.rows(), V: v.rows(), Rotary: p.Rotary,
			Slots:     constant(r, "slots", backend.I64, slots[i]).buf,
			Positions: backend.Some(constant(r, "positions", backend.U32, positions[i]).buf)}
	}
	r.push()
	require.NoError(r, r.be.Append(r.s, appends[0]))
	require.NoError(r, r.be.Append(r.s, appends[1]))
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.content(c.k)
	for i := range tokens {
		moved, there := c.k.values(got, int(slots[0][i]), 0), c.k.values(got, int(slots[1][i]), 0)
		require.NoError(r, compareRows(fmt.Sprintf("moved key %d", i), widen(moved), widen(there), kDim, 2*coarsest(f.K)))
	}
}
