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
			out = append(out, check[B]{name, func(r *rig[B]) { checkRotate(r, dt, e) }})
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
	c := r.cache(geometry{2, block, max(4, 64/block), kDim, vDim, f})
	c.fill(r)
	slots := []int64{3, 63, -1, 0, 17, 16, 15, -1, 40}
	deltas := []int32{1, -1, 5, 0, ropePositions - 1, 1 - ropePositions, 100, -7, -200}
	p := rotateParams(r, c, e, slots, deltas)
	p.Rope.Magnitude = 1.25 // must be left out
	r.push()
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.fetch(c.k.region)
	for i, slot := range slots {
		for head := range c.kvHeads {
			if slot >= 0 {
				before := decode(dt, c.k.row(c.k.image, int(slot), head))
				require.NoError(r, e.accept(fmt.Sprintf("key at slot %d, head %d, turned by %d", slot, head, deltas[i]),
					c.k.region, c.k.element(int(slot), head), got, before, int(deltas[i]), coarsest(dt)))
			}
		}
	}
	r.verify()
}

func rotateParams[B backend.Buffer](r *rig[B], c *cache[B], e rotary, slots []int64, deltas []int32) backend.RotateParams[B] {
	return backend.RotateParams[B]{Cache: c.view(), N: len(slots), Rope: r.rope(e, c.kDim, ropePositions),
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
			before := decode(f.K, c.k.row(c.k.image, slot, head))
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
		appends[i] = backend.AppendParams[B]{Cache: c.view(), Tokens: tokens, K: k.rows(), V: v.rows(), Rope: p.Rope,
			Slots:     constant(r, "slots", backend.I64, slots[i]).buf,
			Positions: backend.Some(constant(r, "positions", backend.U32, positions[i]).buf)}
	}
	r.push()
	require.NoError(r, r.be.Append(r.s, appends[0]))
	require.NoError(r, r.be.Append(r.s, appends[1]))
	require.NoError(r, r.be.Rotate(r.s, p))
	got := r.fetch(c.k.region)
	for i := range tokens {
		moved, there := c.k.row(got, int(slots[0][i]), 0), c.k.row(got, int(slots[1][i]), 0)
		require.NoError(r, compareRows(fmt.Sprintf("moved key %d", i), widen(decode(f.K, moved)), widen(decode(f.K, there)),
			kDim, 2*coarsest(f.K)))
	}
}
