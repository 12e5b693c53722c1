package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// badViewChecks put views and trees into device memory that lead out of their sequences. A device may do the
// rest of the call or nothing of it; it writes nowhere else, and reports where its Caps say that it does.
func badViewChecks[B backend.Buffer]() []check[B] {
	tree := func() attendSpec {
		s := small("bad trees", sequence{2, 30}, sequence{5, 40}, sequence{1, 20})
		s.look(0, func(i int) view { return view{28 + i, 29 + i} })
		s.grow(1, -1, 0, 0, 1, -1)
		return s
	}
	const first = 2 // token of the tree
	var out []check[B]
	add := func(name string, spoil func(s *attendSpec)) {
		for _, mass := range []bool{false, true} {
			title := name
			if mass {
				title += ", attention scores"
			}
			out = append(out, check[B]{title, func(r *rig[B]) { checkBadView(r, tree(), spoil, mass) }})
		}
	}
	for _, n := range []int{41, 48, 49, math.MaxInt32, math.MaxUint32} {
		add(fmt.Sprintf("a view that ends at %d of 40 keys", n), func(s *attendSpec) { s.views[first+3].end = n })
	}
	for _, n := range []int{math.MaxInt32 + 1, math.MaxUint32} {
		add(fmt.Sprintf("a view at position %d", n), func(s *attendSpec) { s.views[0].pos = n })
	}
	add("a draft before the drafts", func(s *attendSpec) { s.views[first].pos = 34 })
	add("a draft that ends before the drafts", func(s *attendSpec) { s.views[first+1].end = 34 })
	for _, bit := range []int{5, 6, 31} {
		add(fmt.Sprintf("draft %d of 5", bit), func(s *attendSpec) { s.tree[first+4] = []uint32{1<<bit | 1<<4} })
	}
	add("a draft beside the last", func(s *attendSpec) { s.tree[first+5] = []uint32{2} })
	return append(out, check[B]{"more drafts than tokens", func(r *rig[B]) { checkTooManyDrafts(r) }})
}

// checkBadView plans a call and then changes what its views and trees hold.
func checkBadView[B backend.Buffer](r *rig[B], s attendSpec, spoil func(s *attendSpec), mass bool) {
	s.output = outputSpec{lse: true, mass: mass}
	s.format, s.layout.block = r.plain(), r.blockSize(16)
	s.kDim, s.vDim = r.dims(64, 64)
	r.wants(&s)
	a := newAttend(r, s)
	spoil(&a.attendSpec)
	a.show(&a.params.Batch)
	a.refuse(mass)
}

// checkTooManyDrafts has a tree of more drafts than its sequence has tokens.
func checkTooManyDrafts[B backend.Buffer](r *rig[B]) {
	s := small("more drafts than tokens", sequence{5, 3})
	s.output = outputSpec{lse: true}
	s.format, s.layout.block = r.plain(), r.blockSize(16)
	s.kDim, s.vDim = r.dims(64, 64)
	s.grow(0, -1, 0, 1, 2, 3)
	r.wants(&s)
	newAttend(r, s).refuse(false)
}

// refuse attends: it is ErrArgument and nothing happens where the device checks, and elsewhere rows may be
// anything.
func (a *attendRun[B]) refuse(mass bool) {
	r, checks := a.r, a.r.be.Caps().ChecksIDs
	if !checks {
		a.out.scratch, a.lse.scratch = true, true
		a.lse.lead, a.lse.n = 0, a.lse.lead+a.lse.n
	}
	if mass {
		a.mass.scratch = !checks
		a.given.set(0, encode(backend.F32, make([]float32, a.given.n)))
	}
	r.push()
	calls := []func() error{func() error { return r.be.Attend(r.s, a.params) }}
	if mass {
		alone := weighing(&a.params, a.given.buf, givenOffset)
		calls = append(calls, func() error { return r.be.AttendScores(r.s, alone) })
	}
	for _, call := range calls {
		err := call()
		if err == nil {
			err = r.s.Sync()
		}
		if checks {
			require.ErrorIs(r, err, backend.ErrArgument{})
		} else {
			require.NoError(r, err)
		}
	}
	r.verify()
}
