package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// appendTask writes one call's rows. Its parts are runs of tokens, so that rows are read as
// they lie in memory.
type appendTask struct {
	slots      []int64
	sides      [2]appended // of keys and of values; of a latent cache of keys alone
	planes     int         // how many of them
	latent     int         // elements of a key before those that turn
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
	from, latent vectors // the latter of a latent cache: what comes before from in each head,
	before       int     // and its elements
	to           plane
	turned       bool // by the rope, or as keys are stored
}

// appendRun is the tokens of a part.
const appendRun = 8

// Append writes new keys and values into the cache. A slot outside the cache or a position outside
// the rotary table is ErrArgument; a value that is to be quantized and is not finite is ErrNonFinite.
func (be *Backend) Append(s backend.Stream, p backend.AppendParams[*Buffer]) error {
	ops, err := be.begin("append", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Append(&p); err != nil || p.Tokens == 0 {
		return err // without rows there is no bound on the heads of Q
	}
	v, queryHeads := &p.Cache, 0 // that have something to do
	if p.Rotary.Table.Set || v.K.Hadamard {
		queryHeads = p.QHeads
	}
	c := be.pool.borrow(extent{vectors: max(4*v.KVHeads*max(v.K.Dim, v.V.Dim), queryHeads*v.K.Dim)})
	defer giveBack(be.pool, c, &c.append)
	t := &c.append
	t.slots, t.rope, t.magnitude, t.saturate = view[int64](p.Slots)[:p.Tokens], rotationOf(p.Rotary), p.Rotary.Magnitude, p.Saturate
	keys, values := &t.sides[0], &t.sides[1]
	t.planes, t.latent = planes(v), latentOf(v)
	keys.from.of(&p.K, p.Tokens, v.KVHeads*(v.K.Dim-t.latent))
	keys.to.of(v, &v.K)
	if v.Latent {
		keys.latent.of(&p.V, p.Tokens, v.KVHeads*v.V.Dim)
		keys.before = v.V.Dim
	} else {
		values.from.of(&p.V, p.Tokens, v.KVHeads*v.V.Dim)
		values.to.of(v, &v.V)
	}
	keys.turned = p.Rotary.Table.Set || v.K.Hadamard
	if p.Rotary.Table.Set {
		t.positions = view[uint32](p.Positions.Buf)[:p.Tokens]
	}
	if queryHeads > 0 {
		t.queryHeads = queryHeads
		t.q.of(&p.Q, p.Tokens, p.QHeads*v.K.Dim)
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
			return backend.ErrArgument{Op: "append", What: fmt.Sprintf("positions: element %d is %d, the rope table has %d", i, pos, t.rope.positions)}
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
	for side := range t.planes {
		for token := begin; token < end; token++ {
			if t.slots[token] >= 0 {
				t.store(&t.sides[side], token, w)
			}
		}
	}
	if t.queryHeads > 0 {
		x := w.vectors[:t.queryHeads*t.sides[0].to.dim]
		for token := begin; token < end; token++ {
			if t.q.dt == backend.F32 { // where it is
				t.turn(of[float32](t.q.at(token, 0, len(x))), token)
				continue
			}
			t.q.load(x, token, 0)
			t.turn(x, token)
			t.q.store(token, 0, x)
		}
	}
	if t.around {
		t.sides[0].to.k.fence()
	}
}

// store writes a token's rows of one plane: all heads are made side by side, and then taken
// to where they belong.
func (t *appendTask) store(s *appended, token int, w *scratch) {
	p, n := &s.to, s.to.heads*s.to.dim
	rows := s.rows(token, w)
	switch {
	case s.to.dt == s.from.dt && !s.turned: // bit for bit
	case s.to.dt == backend.F32:
		rows = backend.BytesOf(t.load(s, token, w))
	default:
		rows = backend.BytesOf(w.vectors[n : 2*n])[:p.heads*p.row]
		words := of[uint32](backend.BytesOf(w.vectors[2*n : 3*n]))[:p.heads*p.perRow]
		p.encode(rows, words, t.load(s, token, w), t.saturate)
		for head := range p.headsWithScales() {
			copy(p.scales[p.index(int(t.slots[token]), head)*p.perRow:][:p.perRow], words[head*p.perRow:])
		}
	}
	p.k.scatter(p.mem[p.index(int(t.slots[token]), 0)*p.row:], p.block*p.row, rows, p.row, t.around)
}

// headsWithScales is how many heads have rows with scales of their own.
func (p *plane) headsWithScales() int {
	if p.perRow == 0 {
		return 0
	}
	return p.heads
}

// encode stores a row of each head side by side, with the scales of their own.
func (p *plane) encode(rows []byte, words []uint32, x []float32, saturate bool) {
	if p.shared == 0 && p.factors == nil {
		p.k.encode[p.dt](stored{dt: p.dt, dim: p.dim, n: p.heads, data: rows, scales: words}, x, saturate)
		return
	}
	for head := range p.heads {
		row := stored{dt: p.dt, dim: p.dim, n: 1, data: rows[head*p.row:][:p.row]}
		if p.factors != nil {
			row.scales, row.factor = words[head*p.perRow:][:p.perRow], p.factors[head]
		} else {
			row.scales = p.scales[head*p.perHead:][:p.shared]
		}
		p.k.encode[p.dt](row, x[head*p.dim:][:p.dim], saturate)
	}
}

// load is what a plane stores of a token, for all heads.
func (t *appendTask) load(s *appended, token int, w *scratch) []float32 {
	x := w.vectors[:s.to.heads*s.to.dim]
	if s.latent.n == 0 {
		s.from.load(x, token, 0)
	} else {
		s.to.k.decode[s.from.dt](x, stored{dt: s.from.dt, data: s.rows(token, w)})
	}
	if s.turned {
		t.turn(x, token)
	}
	return x
}

// rows is a token's rows as they came, all heads side by side.
func (s *appended) rows(token int, w *scratch) []byte {
	heads, dim := s.to.heads, s.to.dim
	if s.latent.n == 0 {
		return s.from.at(token, 0, heads*dim)
	}
	rows := backend.BytesOf(w.vectors[3*heads*dim : 4*heads*dim])[:heads*dim*s.from.size]
	latent := s.before
	rest := dim - latent
	for head := range heads {
		row := rows[head*dim*s.from.size:]
		n := copy(row, s.latent.at(token, head*latent, latent))
		copy(row[n:], s.from.at(token, head*rest, rest))
	}
	return rows
}

// turn turns a token's keys or queries as keys are stored.
func (t *appendTask) turn(x []float32, token int) {
	keys := &t.sides[0].to
	if t.positions != nil {
		t.rotate(x, token)
	}
	if keys.hadamard {
		keys.k.hadamard(x, keys.dim)
	}
}

// rotate turns what of each head a token's position turns.
func (t *appendTask) rotate(x []float32, token int) {
	dim, at := t.sides[0].to.dim, int(t.positions[token])
	if t.latent == 0 {
		t.rope.turn(x, dim, at, t.magnitude)
		return
	}
	for ; len(x) > 0; x = x[dim:] {
		t.rope.turn(x[t.latent:dim], dim-t.latent, at, t.magnitude)
	}
}

// sound reports whether a look at a token's halves as they are is enough to know that what is
// stored of them is finite: if they are, and nothing turns them by factors of the caller's, nor
// adds up those that may be large.
func (t searching) sound(s *appended, token int, w *scratch) bool {
	turned := s.turned && (t.positions != nil || s.from.dt != backend.F16)
	return !turned && s.to.k.finiteHalves(s.from.dt, s.rows(token, w))
}

// searching looks, before anything is written, for rows that cannot be quantized.
type searching struct{ *appendTask }

func (t searching) part(i int, w *scratch) {
	begin, end := t.run(i)
	for token := begin; token < end; token++ {
		for side := range t.planes {
			s := &t.sides[side]
			if t.slots[token] < 0 || !s.to.dt.Quantized() || t.sound(s, token, w) {
				continue
			}
			number := (token*len(t.sides) + side) * s.to.heads
			if !t.bad.look(s.to.k, number, t.load(s, token, w), s.to.dim) {
				return
			}
		}
	}
}
