package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// appendTask writes one call's rows. Its parts are the KV heads of K, those of V,
// and the heads of Q: a slot that is named twice keeps its last row.
type appendTask struct {
	slots        []int64
	k, v, q      vectors
	keys, values plane
	rope         rotation
	magnitude    float32
	positions    []uint32 // nil: nothing is rotated
	saturate     bool
	bad          firstRow // by token
}

// Append writes new keys and values into the cache, rotated where Rope is set and
// turned where keys are stored with Hadamard, as Q is for every token, also one whose
// slot is −1. A slot outside the cache or a position outside the rope table is
// ErrShape, a row that is to be quantized and not finite ErrNonFinite.
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
		slots: view[int64](p.Slots)[:p.Tokens], rope: rotationOf(p.Rope), magnitude: p.Rope.Magnitude, saturate: p.Saturate,
		k: vectorsOf(p.K, v.KVHeads*v.K.Dim), keys: planeOf(*v, v.K),
		v: vectorsOf(p.V, v.KVHeads*v.V.Dim), values: planeOf(*v, v.V),
	}
	if p.Rope.Table.Set {
		t.positions = view[uint32](p.Positions.Buf)[:p.Tokens]
	}
	queryHeads := 0 // that have something to do
	if p.QHeads > 0 && (p.Rope.Table.Set || v.K.Hadamard) {
		queryHeads = p.QHeads
		t.q = vectorsOf(p.Q, p.QHeads*v.K.Dim)
	}
	if err := t.check(v, queryHeads > 0); err != nil {
		return err
	}
	cost := 2 * p.Tokens * v.KVHeads * (v.K.Dim + v.V.Dim)
	if !p.Saturate && (t.keys.dt.Quantized() || t.values.dt.Quantized()) {
		t.bad.reset()
		if err := be.pool.run(searching{t}, 2*v.KVHeads, cost, c.scratch); err != nil {
			return err
		}
		if token, name, head, found := t.bad.found(v.KVHeads); found {
			return backend.ErrNonFinite{Op: "append", What: fmt.Sprintf("%s of token %d, head %d", name, token, head)}
		}
	}
	return be.pool.run(t, 2*v.KVHeads+queryHeads, cost+2*p.Tokens*queryHeads*v.K.Dim, c.scratch)
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
	if heads := t.keys.heads; i >= 2*heads {
		t.turnQueries(i-2*heads, w)
		return
	}
	to, from, head := t.side(i)
	x := w.vectors[:to.dim]
	for token, slot := range t.slots {
		if slot < 0 {
			continue
		}
		row := to.slot(int(slot), head)
		if to.dt == from.dt && (to == &t.values || t.positions == nil) {
			copy(row.data, from.at(token, head*to.dim, to.dim)) // no arithmetic: bit for bit
			continue
		}
		t.load(x, i, token)
		to.k.encode[to.dt](row, x, t.saturate)
	}
}

// side is the plane, the rows and the head of part i of [keys and values, heads].
func (t *appendTask) side(i int) (to *plane, from *vectors, head int) {
	if heads := t.keys.heads; i >= heads {
		return &t.values, &t.v, i - heads
	}
	return &t.keys, &t.k, i
}

// load is what a side stores of a token.
func (t *appendTask) load(x []float32, side, token int) {
	to, from, head := t.side(side)
	from.load(x, token, head*to.dim)
	if to == &t.keys {
		t.turn(x, token)
	}
}

// turn turns a key or a query as keys are stored.
func (t *appendTask) turn(x []float32, token int) {
	if t.positions != nil {
		t.rope.turn(x, int(t.positions[token]), t.magnitude)
	}
	if t.keys.hadamard {
		quant.Hadamard(x)
	}
}

func (t *appendTask) turnQueries(head int, w *scratch) {
	x := w.vectors[:t.keys.dim]
	if !t.keys.hadamard {
		x = x[:t.rope.dims] // the others stay as they are
	}
	for token := range t.slots {
		t.q.load(x, token, head*t.keys.dim)
		t.turn(x, token)
		t.q.store(token, head*t.keys.dim, x)
	}
}

// searching looks, before anything is written, for rows that cannot be quantized.
type searching struct{ *appendTask }

func (s searching) part(i int, w *scratch) {
	to, _, _ := s.side(i)
	if !to.dt.Quantized() {
		return
	}
	x := w.vectors[:to.dim]
	for token, slot := range s.slots {
		if slot < 0 {
			continue
		}
		if s.load(x, i, token); !s.bad.look(token*2*to.heads+i, x) {
			return
		}
	}
}
