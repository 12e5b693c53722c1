package cpu

import (
	"math/bits"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// checkShown checks the views and drafts of a sequence, and that its table has blocks of the cache for
// what its queries see.
func (a *attention) checkShown(seq int, cache *backend.CacheView[*Buffer]) error {
	first, n := a.tokensOf(seq)
	ctx := int(a.lens[seq])
	table, known := a.table(seq), plan.Keys{} // keys whose blocks are right
	for i := range n {
		q := query{first + i, i, ctx, n}
		if err := a.checkQuery(seq, &q); err != nil || table.ids == nil {
			if err != nil {
				return err
			}
			continue
		}
		s := a.shownTo(&q)
		for _, run := range [...][2]int{{s.keys.First, s.keys.Sinks}, {s.keys.Lo, s.keys.Hi}} {
			if err := a.checkRun(&table, seq, run[0], run[1], &known, cache); err != nil {
				return err
			}
		}
		if s.drafts == noDrafts {
			continue
		}
		for drafts, j := a.draftsOf(&s), 0; drafts.Lo+j < drafts.Hi; j++ {
			key := drafts.Lo + j
			if !a.seesDraft(&s, key-s.drafts) {
				continue
			}
			if err := a.checkRun(&table, seq, key, key+1, &known, cache); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRun checks the blocks of keys [from, to) but for known ones, of which these become some where
// they are beside them.
func (a *attention) checkRun(table *blockTable, seq, from, to int, known *plan.Keys, cache *backend.CacheView[*Buffer]) error {
	if from >= to || from >= known.Lo && to <= known.Hi {
		return nil
	}
	if from > known.Hi || to < known.Lo {
		*known = plan.Keys{Lo: from, Hi: to}
		return table.check(a.op, seq, from, to, cache)
	}
	err := table.check(a.op, seq, from, known.Lo, cache)
	if err == nil {
		err = table.check(a.op, seq, known.Hi, to, cache)
	}
	*known = plan.Keys{Lo: min(from, known.Lo), Hi: max(to, known.Hi)}
	return err
}

// checkQuery checks where a query is.
func (a *attention) checkQuery(seq int, q *query) error {
	position, end := q.ctx-q.n+q.number, q.ctx
	if a.viewed {
		position, end = int(a.views[2*q.token]), int(a.views[2*q.token+1])
		if position > backend.MaxPosition || end > q.ctx {
			return a.wrong("views: query %d of sequence %d is at position %d and ends at key %d, need at most %d and its %d tokens",
				q.number, seq, position, end, backend.MaxPosition, q.ctx)
		}
	}
	if !a.inTree(q.token) {
		return nil
	}
	if before := q.ctx - q.n; before < 0 || position < before || end < before {
		return a.wrong("tree: query %d of sequence %d is at position %d and ends at key %d, before the first of the %d drafts of %d tokens",
			q.number, seq, position, end, q.n, q.ctx)
	}
	for i, word := range a.bits(q.token) {
		if last := 32*i + bits.Len32(word); word != 0 && last > q.n {
			return a.wrong("tree: query %d of sequence %d sees draft %d, there are %d", q.number, seq, last-1, q.n)
		}
	}
	return nil
}
