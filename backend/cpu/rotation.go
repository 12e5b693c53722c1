package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// rotation is a Rope as memory. The zero value rotates nothing.
type rotation struct {
	table     []float32 // [positions, dims/2, 2]: cos and sin
	positions int
	dims      int
	step, gap int // pair i is (i*step, i*step + gap)
}

func rotationOf(r backend.Rope[*Buffer]) rotation {
	if !r.Table.Set {
		return rotation{}
	}
	rot := rotation{table: view[float32](r.Table.Buf), positions: r.Positions, dims: r.Dims, step: 1, gap: r.Dims / 2}
	if r.Pairing == backend.Interleaved {
		rot.step, rot.gap = 2, 1
	}
	return rot
}

// turn rotates the leading dims of x by delta positions and scales them. A
// negative delta turns back: by the transpose of the matrix.
func (r *rotation) turn(x []float32, delta int, magnitude float32) {
	sign := float32(1)
	if delta < 0 {
		delta, sign = -delta, -1
	}
	angles := r.table[delta*r.dims:][:r.dims]
	for i := range r.dims / 2 {
		cos, sin := angles[2*i], sign*angles[2*i+1]
		a := i * r.step
		b := a + r.gap
		x[a], x[b] = (x[a]*cos-x[b]*sin)*magnitude, (x[a]*sin+x[b]*cos)*magnitude
	}
}

// rotateTask turns cached keys: part i is KV head i, so that a slot that is named
// twice is turned one time after the other.
type rotateTask struct {
	keys   plane
	slots  []int64
	deltas []int32
	rope   rotation
}

// Rotate turns cached keys by a number of positions. A slot outside the cache or
// a delta outside the table is ErrShape.
func (be *Backend) Rotate(s backend.Stream, p backend.RotateParams[*Buffer]) error {
	ops, err := be.begin("rotate", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Rotate(p); err != nil {
		return err
	}
	c := be.pool.borrow(extent{vectors: p.Cache.K.Dim})
	defer be.pool.giveBack(c)
	t := &c.rotate
	*t = rotateTask{keys: planeOf(p.Cache, p.Cache.K), slots: view[int64](p.Slots)[:p.N], deltas: view[int32](p.Deltas)[:p.N], rope: rotationOf(p.Rope)}
	for i, slot := range t.slots {
		if err := checkSlot("rotate", i, slot, &p.Cache); err != nil {
			return err
		}
		if d := int64(t.deltas[i]); slot >= 0 && (d >= int64(p.Rope.Positions) || -d >= int64(p.Rope.Positions)) {
			return backend.ErrShape{Op: "rotate", What: fmt.Sprintf("deltas: element %d is %d, the rope table has %d positions", i, d, p.Rope.Positions)}
		}
	}
	return be.pool.run(t, p.Cache.KVHeads, 4*p.N*p.Cache.KVHeads*p.Rope.Dims, c.scratch)
}

func (t *rotateTask) part(head int, w *scratch) {
	x, bytes := w.vectors[:t.keys.dim], t.keys.row
	if t.keys.dt.Float() { // the other dims stay as they are
		x, bytes = x[:t.rope.dims], bytes/t.keys.dim*t.rope.dims
	}
	for i, slot := range t.slots {
		if slot < 0 || t.deltas[i] == 0 {
			continue
		}
		row := t.keys.slot(int(slot), head)
		row.data = row.data[:bytes]
		t.keys.k.decode[t.keys.dt](x, row)
		if t.keys.hadamard {
			quant.Hadamard(x)
		}
		t.rope.turn(x, int(t.deltas[i]), 1)
		if t.keys.hadamard {
			quant.Hadamard(x)
		}
		if !t.keys.k.encode[t.keys.dt](row, x, false) {
			row.spoil() // it was not finite, or is no longer
		}
	}
}

// checkSlot checks a slot read from a buffer; −1 is one to skip.
func checkSlot(op string, i int, slot int64, v *backend.CacheView[*Buffer]) error {
	if n := int64(v.Blocks) * int64(v.BlockSize); slot < -1 || slot >= n {
		return backend.ErrShape{Op: op, What: fmt.Sprintf("slots: element %d is %d, the cache has %d slots", i, slot, n)}
	}
	return nil
}
