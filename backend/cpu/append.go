package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// appendTask writes one call's rows. Its parts are the KV heads of K, those of V,
// and the heads of Q: a slot that is named twice keeps its last row.
type appendTask struct {
	slots        []int64
	k, v, q      vectors
	keys, values plane
	rope         rotation
	magnitude    float32
	positions    []uint32
}

// Append writes new keys and values into the cache, rotated where Rope is set. Q
// is rotated for every token, also one whose slot is −1. A slot outside the cache
// or a position outside the rope table is ErrShape.
func (be *Backend) Append(s backend.Stream, p backend.AppendParams[*Buffer]) error {
	ops, err := be.begin("append", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Append(p); err != nil {
		return err
	}
	c := be.pool.borrow(extent{vectors: max(p.Cache.K.Dim, p.Cache.V.Dim)})
	defer be.pool.giveBack(c)
	v := &p.Cache
	t := &c.append
	*t = appendTask{
		slots: view[int64](p.Slots)[:p.Tokens], rope: rotationOf(p.Rope), magnitude: p.Rope.Magnitude,
		k: vectorsOf(p.K, v.KVHeads*v.K.Dim), keys: planeOf(*v, v.K),
		v: vectorsOf(p.V, v.KVHeads*v.V.Dim), values: planeOf(*v, v.V),
	}
	queryHeads := 0 // that have something to do
	if p.Rope.Table.Set {
		t.positions = view[uint32](p.Positions.Buf)[:p.Tokens]
		if queryHeads = p.QHeads; queryHeads > 0 {
			t.q = vectorsOf(p.Q, p.QHeads*v.K.Dim)
		}
	}
	if err := t.check(v, queryHeads > 0); err != nil {
		return err
	}
	cost := 2 * p.Tokens * (v.KVHeads*(v.K.Dim+v.V.Dim) + queryHeads*v.K.Dim)
	return be.pool.run(t, 2*v.KVHeads+queryHeads, cost, c.scratch)
}

// check looks at the contents of slots and positions.
func (t *appendTask) check(v *backend.CacheView[*Buffer], withQ bool) error {
	for i, slot := range t.slots {
		if err := checkSlot("append", i, slot, v); err != nil {
			return err
		}
		if t.positions == nil || slot < 0 && !withQ {
			continue
		}
		if pos := t.positions[i]; uint64(pos) >= uint64(t.rope.positions) {
			return backend.ErrShape{Op: "append", What: fmt.Sprintf("positions: element %d is %d, the rope table has %d", i, pos, t.rope.positions)}
		}
	}
	return nil
}

func (t *appendTask) part(i int, w *scratch) {
	heads := t.keys.heads
	switch {
	case i < heads:
		t.write(&t.keys, &t.k, i, t.positions != nil, w)
	case i < 2*heads:
		t.write(&t.values, &t.v, i-heads, false, w)
	default:
		x := w.vectors[:t.rope.dims]
		for token, pos := range t.positions {
			col := (i - 2*heads) * t.keys.dim
			t.q.load(x, token, col)
			t.rope.turn(x, int(pos), t.magnitude)
			t.q.store(token, col, x)
		}
	}
}

// write stores one head's rows. What needs no arithmetic is copied bit for bit.
func (t *appendTask) write(to *plane, from *vectors, head int, rotate bool, w *scratch) {
	x := w.vectors[:to.dim]
	for token, slot := range t.slots {
		if slot < 0 {
			continue
		}
		row, col := to.slot(int(slot), head), head*to.dim
		if !rotate && to.dt == from.dt {
			copy(row, from.at(token, col, to.dim))
			continue
		}
		from.load(x, token, col)
		if rotate {
			t.rope.turn(x, int(t.positions[token]), t.magnitude)
		}
		encode[to.dt](row, x)
	}
}
