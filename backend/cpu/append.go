package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// appendTask writes one call's rows. Its parts are runs of tokens, so that rows are read as
// they lie in memory.
type appendTask struct {
	slots      []int64
	sides      [2]appended // of keys and of values
	q          vectors
	queryHeads int // that have something to do
	rope       rotation
	magnitude  float32
	positions  []uint32 // nil: nothing is rotated
	saturate   bool
	around     bool     // what is stored goes around the caches
	bad        firstRow // by token
}

// appended is one plane's share of a call.
type appended struct {
	from   vectors
	to     plane
	turned bool // by the rope, or as keys are stored
}

// appendRun is the tokens of a part.
const appendRun = 8

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
	c := be.pool.borrow(extent{vectors: 2 * max(p.Cache.K.Dim, p.Cache.V.Dim)})
	defer be.pool.giveBack(c)
	v := &p.Cache
	t := &c.append
	*t = appendTask{
		slots: view[int64](p.Slots)[:p.Tokens], rope: rotationOf(p.Rope), magnitude: p.Rope.Magnitude, saturate: p.Saturate,
		sides: [2]appended{
			{vectorsOf(p.K, v.KVHeads*v.K.Dim), planeOf(*v, v.K), p.Rope.Table.Set || v.K.Hadamard},
			{vectorsOf(p.V, v.KVHeads*v.V.Dim), planeOf(*v, v.V), false},
		},
	}
	keys, values := &t.sides[0], &t.sides[1]
	if p.Rope.Table.Set {
		t.positions = view[uint32](p.Positions.Buf)[:p.Tokens]
	}
	if p.QHeads > 0 && keys.turned {
		t.queryHeads = p.QHeads
		t.q = vectorsOf(p.Q, p.QHeads*v.K.Dim)
	}
	if err := t.check(v); err != nil {
		return err
	}
	written := p.Tokens * v.KVHeads * (keys.to.row + values.to.row)
	t.around = written >= largeCopy
	read := p.Tokens * keys.from.size * (v.KVHeads*(v.K.Dim+v.V.Dim) + t.queryHeads*v.K.Dim)
	parts := ceilDiv(p.Tokens, appendRun)
	if !p.Saturate && (keys.to.dt.Quantized() || values.to.dt.Quantized()) {
		t.bad.reset()
		if err := be.pool.run(searching{t}, parts, read, c.scratch); err != nil {
			return err
		}
		if token, name, head, found := t.bad.found(v.KVHeads); found {
			return backend.ErrNonFinite{Op: "append", What: fmt.Sprintf("%s of token %d, head %d", name, token, head)}
		}
	}
	return be.pool.run(t, parts, read+written, c.scratch)
}

// check looks at the contents of slots and positions.
func (t *appendTask) check(v *backend.CacheView[*Buffer]) error {
	for i, slot := range t.slots {
		if err := checkSlot("append", i, slot, v); err != nil {
			return err
		}
		if t.positions == nil || slot < 0 && t.queryHeads == 0 {
			continue
		}
		if pos := t.positions[i]; uint64(pos) >= uint64(t.rope.positions) {
			return backend.ErrShape{Op: "append", What: fmt.Sprintf("positions: element %d is %d, the rope table has %d", i, pos, t.rope.positions)}
		}
	}
	return nil
}

// run is the tokens of part i.
func (t *appendTask) run(i int) (begin, end int) {
	return i * appendRun, min((i+1)*appendRun, len(t.slots))
}

func (t *appendTask) part(i int, w *scratch) {
	begin, end := t.run(i)
	for side := range t.sides {
		for token := begin; token < end; token++ {
			if t.slots[token] >= 0 {
				t.store(&t.sides[side], token, w)
			}
		}
	}
	for token := begin; token < end; token++ {
		t.turnQueries(token, w)
	}
	if t.around {
		t.sides[0].to.k.fence()
	}
}

// store writes a token's rows of one plane.
func (t *appendTask) store(s *appended, token int, w *scratch) {
	dim, k := s.to.dim, s.to.k
	x, staged := w.vectors[:dim], backend.BytesOf(w.vectors[dim : 2*dim])[:s.to.row]
	for head := range s.to.heads {
		row := s.to.slot(int(t.slots[token]), head)
		if s.to.dt == s.from.dt && !s.turned { // no arithmetic: bit for bit
			k.move(row.data, s.from.at(token, head*dim, dim), t.around)
			continue
		}
		t.load(s, x, token, head)
		if !t.around {
			k.encode[row.dt](row, x, t.saturate)
			continue
		}
		at := row.data
		row.data = staged
		k.encode[row.dt](row, x, t.saturate)
		k.stream(at, staged)
	}
}

// load is what a plane stores of a token and a head.
func (t *appendTask) load(s *appended, x []float32, token, head int) {
	s.from.load(x, token, head*s.to.dim)
	if s.turned {
		t.turn(x, token)
	}
}

// turn turns a key or a query as keys are stored.
func (t *appendTask) turn(x []float32, token int) {
	if t.positions != nil {
		t.rope.turn(x, int(t.positions[token]), t.magnitude)
	}
	if keys := &t.sides[0].to; keys.hadamard {
		keys.k.hadamard(x, keys.dim)
	}
}

func (t *appendTask) turnQueries(token int, w *scratch) {
	keys := &t.sides[0].to
	x := w.vectors[:keys.dim]
	if !keys.hadamard {
		x = x[:t.rope.dims] // the others stay as they are
	}
	for head := range t.queryHeads {
		t.q.load(x, token, head*keys.dim)
		t.turn(x, token)
		t.q.store(token, head*keys.dim, x)
	}
}

// searching looks, before anything is written, for rows that cannot be quantized.
type searching struct{ *appendTask }

func (t searching) part(i int, w *scratch) {
	begin, end := t.run(i)
	for token := begin; token < end; token++ {
		for side := range t.sides {
			s := &t.sides[side]
			if t.slots[token] < 0 || !s.to.dt.Quantized() {
				continue
			}
			for head := range s.to.heads {
				x := w.vectors[:s.to.dim]
				t.load(s, x, token, head)
				if !t.bad.look(s.to.k, (token*len(t.sides)+side)*s.to.heads+head, x) {
					return
				}
			}
		}
	}
}
