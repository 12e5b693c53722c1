package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// tile is queries [q0, q1) of a sequence, or of several, and KV heads [head, head+heads): the rows of a
// head, the group's query heads of one token after another, walk its keys together.
type tile struct {
	seq, q0, q1 int
	head, heads int
	first       int // token of the sequence's query 0
	ctx, n      int // tokens and queries of the sequence
	rows        int // of a head
	table       blockTable
	keys        plan.Keys // that any of the rows sees
	seen        plan.Keys // that all of them do
	many        bool      // of several sequences: q0 and q1 are of the plan's list, and seq, first, ctx and n are not set
	shown       []shown   // of each query, where the call is not ordinary
}

// lay sets t, which is zero, to the tile of an item for some heads, and ends the item where its rows
// see no more.
func (a *attention) lay(t *tile, it *item, head, heads int, w *scratch) {
	t.head, t.heads, t.q0, t.q1, t.rows = head, heads, it.q0, it.q1, (it.q1-it.q0)*a.group
	if it.many() {
		a.layMany(t, it, w)
		return
	}
	t.seq, t.ctx, t.table = it.seq, int(a.lens[it.seq]), a.table(it.seq)
	t.first, t.n = a.tokensOf(it.seq)
	if !a.ordinary {
		a.show(t, w)
		it.k1 = min(it.k1, t.keys.Hi)
		return
	}
	t.keys = a.see.Of(t.ctx, t.n, t.q0, t.q1)
	t.seen = a.see.Of(t.ctx, t.n, t.q0, t.q0+1)
	if t.q1-t.q0 > 1 {
		t.seen = t.seen.And(a.see.Of(t.ctx, t.n, t.q1-1, t.q1))
	}
	it.k1 = min(it.k1, t.keys.Hi)
}

// query is one of a tile's: its token in the call, its number in its sequence, and that one's
// tokens and queries.
type query struct{ token, number, ctx, n int }

// query is number i of a tile's.
func (a *attention) query(t *tile, i int) query {
	if !t.many {
		return query{t.first + t.q0 + i, t.q0 + i, t.ctx, t.n}
	}
	m := a.listedAt(t.q0 + i)
	first, n := a.tokensOf(m.seq)
	return query{first + m.query, m.query, int(a.lens[m.seq]), n}
}

// sees is the keys that a query of an ordinary call sees.
func (a *attention) sees(q *query) plan.Keys { return a.see.Of(q.ctx, q.n, q.number, q.number+1) }

// together is how many KV heads walk the keys of a tile of that many rows side by side. Of a small
// call all do: one walk begins and ends sooner than several.
func (a *attention) together(rows int) int {
	if a.small && rows <= fewRows {
		return min(a.kvHeads, maxTogether)
	}
	return a.workload.together(rows, a.abreast)
}

// row is the query and the query head of a head's row.
func (a *attention) row(t *tile, head, r int) (q query, qHead int) {
	return a.query(t, r/a.group), head*a.group + r%a.group
}

// queries is the query rows of one head of a tile.
type queries struct {
	rows    []float32
	rounded stored // as Int8, where the call rounds them
}

// of is head i of a tile's.
func (a *attention) queries(t *tile, w *scratch, i int) queries {
	n := t.rows * a.keys.dim
	q := queries{rows: w.q[i*n:][:n]}
	if a.int8Query {
		q.rounded = stored{dt: backend.Int8, dim: a.keys.dim, n: t.rows, data: w.rounded[i*n:][:n], scales: w.steps[i*t.rows:][:t.rows]}
	}
	return q
}

// load decodes the tile's queries: of a single one all heads, which lie side by side, at once.
func (a *attention) load(t *tile, w *scratch) {
	width, heads := a.group*a.keys.dim, 1
	if t.q1-t.q0 == 1 {
		heads = t.heads
	}
	for h := 0; h < t.heads; h += heads {
		rows := w.q[h*t.rows*a.keys.dim:]
		for i := range t.q1 - t.q0 {
			a.q.load(rows[i*width:][:heads*width], a.query(t, i).token, (t.head+h)*width)
		}
	}
	if !a.int8Query {
		return
	}
	for h := range t.heads {
		q := a.queries(t, w, h)
		for i := range q.rounded.scales {
			row := q.rounded.row(i)
			if !a.q.k.encode[row.dt](row, q.rows[i*row.dim:][:row.dim], false) {
				row.setNaN()
			}
		}
	}
}

// run is the keys from position key on that lie in one block, at most n.
func (a *attention) run(t *tile, key, n int) (block, offset, length int) {
	offset = key % a.keys.block
	if block = t.table.at(key / a.keys.block); block >= a.blocks {
		block = 0 // between keys that are seen there may be blocks without any, of which tables say what they like
	}
	return block, offset, min(n, a.keys.block-offset)
}

// cut is how many keys from key on are walked at once, before end and size at most: such runs
// end at multiples of size, and where sink tokens do.
func (a *attention) cut(key, end, size int) int {
	end = min(key-key%size+size, end)
	if key < a.see.SinkTokens {
		end = min(end, a.see.SinkTokens)
	}
	return end - key
}
