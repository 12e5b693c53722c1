package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// rotation is a RotaryTable as memory. The zero value rotates nothing.
type rotation struct {
	table     []float32 // [positions, dims/2, 2]: cos and sin
	positions int
	dims      int
	pairing   backend.Pairing
	k         *kernels
}

func rotationOf(r backend.RotaryTable[*Buffer]) rotation {
	if !r.Table.Set {
		return rotation{}
	}
	return rotation{table: view[float32](r.Table.Buf), positions: r.Positions, dims: r.Dims, pairing: r.Pairing, k: r.Table.Buf.be.kernels}
}

// turn rotates the leading dims of each row of dim elements by delta positions and scales
// them. A negative delta turns back: by the transpose of the matrix.
func (r *rotation) turn(rows []float32, dim, delta int, magnitude float32) {
	sign := float32(1)
	if delta < 0 {
		delta, sign = -delta, -1
	}
	r.k.turn(rows, dim, r.table[delta*r.dims:][:r.dims], r.pairing, sign, magnitude)
}

func turnGo(rows []float32, dim int, angles []float32, pairing backend.Pairing, sign, magnitude float32) {
	for ; len(rows) > 0; rows = rows[dim:] {
		if pairing == backend.Interleaved {
			turnPairs(rows, angles, 2, 1, sign, magnitude)
		} else {
			turnPairs(rows, angles, 1, len(angles)/2, sign, magnitude)
		}
	}
}

// turnPairs turns the pairs (i*step, i*step + gap), as many as there are angles. Products are
// rounded before they are added, as in assembly, also where the processor could do without.
func turnPairs(x, angles []float32, step, gap int, sign, magnitude float32) {
	for i := 0; len(angles) >= 2; i, angles = i+step, angles[2:] {
		cos, sin := angles[0], sign*angles[1]
		a, b := x[i], x[i+gap]
		x[i] = (float32(a*cos) - float32(b*sin)) * magnitude
		x[i+gap] = (float32(a*sin) + float32(b*cos)) * magnitude
	}
}

// rotateTask turns cached keys: its parts are runs of slots.
type rotateTask struct {
	keys   plane
	latent int // elements of a key before those that turn
	slots  []int64
	deltas []int32
	rope   rotation
}

// Rotate moves cached keys to other positions by rotating them. A slot outside the cache or a delta
// outside the rotary table is ErrArgument.
func (be *Backend) Rotate(s backend.Stream, p backend.RotateParams[*Buffer]) error {
	ops, err := be.begin("rotate", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Rotate(&p); err != nil {
		return err
	}
	c := be.pool.borrow(extent{vectors: p.Cache.K.Dim})
	defer giveBack(be.pool, c, &c.rotate)
	t := &c.rotate
	*t = rotateTask{keys: planeOf(p.Cache, p.Cache.K), latent: latentOf(&p.Cache), slots: view[int64](p.Slots)[:p.N], deltas: view[int32](p.Deltas)[:p.N], rope: rotationOf(p.Rotary)}
	for i, slot := range t.slots {
		if err := checkSlot("rotate", i, slot, &p.Cache); err != nil {
			return err
		}
		if d := int64(t.deltas[i]); slot >= 0 && (d >= int64(p.Rotary.Positions) || -d >= int64(p.Rotary.Positions)) {
			return backend.ErrArgument{Op: "rotate", What: fmt.Sprintf("deltas: element %d is %d, the rope table has %d positions", i, d, p.Rotary.Positions)}
		}
	}
	return be.pool.run(t, ceilDiv(p.N, rotateRun), 2*p.N*p.Cache.KVHeads*t.keys.row, c.scratch)
}

// latentOf is how many elements of a key do not turn, because they are values of a latent cache.
func latentOf(v *backend.CacheView[*Buffer]) int {
	if v.Latent {
		return v.V.Dim
	}
	return 0
}

// rotateRun is the slots of a part: often a block, a head of which lies in one piece.
const rotateRun = 16

func (t *rotateTask) part(i int, w *scratch) {
	begin := i * rotateRun
	end := min(begin+rotateRun, len(t.slots))
	for head := range t.keys.heads {
		t.turn(t.slots[begin:end], t.deltas[begin:end], head, w)
	}
}

// turn turns one head's rows.
func (t *rotateTask) turn(slots []int64, deltas []int32, head int, w *scratch) {
	x, begin, end := w.vectors[:t.keys.dim], 0, t.keys.row
	turned := x[t.latent:]
	if t.keys.dt.Float() && !t.keys.hadamard { // the other dims stay as they are
		size := t.keys.row / t.keys.dim
		x, begin, end = x[:t.rope.dims], t.latent*size, (t.latent+t.rope.dims)*size
		turned = x
	}
	for i, slot := range slots {
		if slot < 0 || deltas[i] == 0 {
			continue
		}
		row := t.keys.slot(int(slot), head)
		row.data = row.data[begin:end]
		t.keys.k.decode[t.keys.dt](x, row)
		if t.keys.hadamard {
			t.keys.k.hadamard(x, t.keys.dim)
		}
		t.rope.turn(turned, len(turned), int(deltas[i]), 1)
		if t.keys.hadamard {
			t.keys.k.hadamard(x, t.keys.dim)
		}
		if t.keys.k.encode[t.keys.dt](row, x, false) && (t.keys.dt.Quantized() || t.keys.k.finiteStored(t.keys.dt, row, x)) {
			continue
		}
		bound(x, largest(t.keys.dt)) // where the rotation has left the range
		if !t.keys.k.encode[t.keys.dt](row, x, false) {
			row.setNaN() // it was not finite
		}
	}
}

// checkSlot checks a slot read from a buffer; −1 is one to skip.
func checkSlot(op string, i int, slot int64, v *backend.CacheView[*Buffer]) error {
	if n := int64(v.Blocks) * int64(v.BlockSize); slot < -1 || slot >= n {
		return backend.ErrArgument{Op: op, What: fmt.Sprintf("slots: element %d is %d, the cache has %d slots", i, slot, n)}
	}
	return nil
}
