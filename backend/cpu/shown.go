package cpu

import (
	"math"
	"math/bits"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// noDrafts is the first draft of a query that sees none.
const noDrafts = math.MaxInt

// shown is which keys a query sees. A tile works it out once for all that it walks.
type shown struct {
	keys            plan.Keys // but for drafts
	token, position int
	drafts          int // the first, or noDrafts
	before          int // the token whose key that is
}

// shownTo is what a query sees.
func (a *attention) shownTo(q *query) shown {
	first := q.ctx - q.n
	s := shown{token: q.token, position: first + q.number, drafts: noDrafts, before: q.token - q.number}
	end := s.position + 1
	switch {
	case a.views != nil:
		s.position, end = int(a.views[2*q.token]), int(a.views[2*q.token+1])
	case a.see.NonCausal:
		end = q.ctx
	}
	if a.inTree(q.token) {
		if end = first; a.see.Part != backend.OlderKeys {
			s.drafts = first
		}
	}
	s.keys = a.see.See(s.position, end)
	return s
}

// bits is a query's row of the tree.
func (a *attention) bits(token int) []uint32 {
	return a.tree[token*a.treeWords:][:a.treeWords]
}

// inTree reports whether a query is in a tree.
func (a *attention) inTree(token int) bool {
	return a.tree != nil && slices.ContainsFunc(a.bits(token), func(word uint32) bool { return word != 0 })
}

// draftsOf is the keys from the first draft that a query sees to the last.
func (a *attention) draftsOf(s *shown) (k plan.Keys) {
	if s.drafts == noDrafts {
		return k
	}
	for i, word := range a.bits(s.token) {
		if word == 0 {
			continue
		}
		if k.Hi == 0 {
			k.Lo = s.drafts + 32*i + bits.TrailingZeros32(word)
		}
		k.Hi = s.drafts + 32*i + bits.Len32(word)
	}
	return k
}

// lastSeen is the end of the keys that a query sees, 0 where it sees none.
func (a *attention) lastSeen(q *query) int {
	if a.ordinary {
		return a.sees(q).Hi
	}
	s := a.shownTo(q)
	return max(s.keys.Hi, a.draftsOf(&s).Hi)
}

// show lays out which keys the queries of a tile see, together and each.
func (a *attention) show(t *tile, w *scratch) {
	n := t.q1 - t.q0
	w.shown = slices.Grow(w.shown[:0], n)[:n]
	t.shown = w.shown
	for i := range t.shown {
		s, q := &t.shown[i], a.query(t, i)
		*s = a.shownTo(&q)
		if i == 0 {
			t.keys, t.seen = s.keys, s.keys
		}
		t.keys, t.seen = t.keys.Or(s.keys), t.seen.And(s.keys)
		if s.drafts != noDrafts {
			t.keys = t.keys.Or(a.draftsOf(s))
		}
	}
}

// settleShown is settle of rows that are not ordinary, but for the factor. all says that they see all of
// the keys.
func (a *attention) settleShown(t *tile, head, key, n int, scores matrix, all bool) {
	shaped := a.softCap > 0 || a.slopes != nil
	for r := range t.rows {
		s, qHead := &t.shown[r/a.group], head*a.group+r%a.group
		row := scores.data[r*scores.stride:][:n]
		drafts := min(max(s.drafts-key, 0), n) // before them
		if shaped {
			a.shape(s.position, qHead, key, row)
			a.deepen(s, qHead, key+drafts, row[drafts:])
		}
		if !all {
			hide(row[:drafts], key, s.keys)
			a.prune(s, key+drafts, row[drafts:])
		}
	}
}

// deepen gives the scores of drafts, from key on, the bias of their depths in the tree instead of that of
// their places.
func (a *attention) deepen(s *shown, qHead, key int, row []float32) {
	if a.slopes == nil || a.views == nil {
		return
	}
	slope := a.slopes[qHead]
	for j := range row {
		if i := key + j - s.drafts; a.seesDraft(s, i) {
			row[j] += slope * float32(int(a.views[2*(s.before+i)])-(key+j))
		}
	}
}

// prune sets the scores of drafts, from key on, that are not seen to −∞.
func (a *attention) prune(s *shown, key int, row []float32) {
	for j := range row {
		if !a.seesDraft(s, key+j-s.drafts) {
			row[j] = negInf
		}
	}
}

// seesDraft reports whether a query sees the i-th draft.
func (a *attention) seesDraft(s *shown, i int) bool {
	return i < 32*a.treeWords && a.tree[s.token*a.treeWords+i/32]>>(i%32)&1 == 1
}
