package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// treeSpecs are trees of drafts: with depths and without, of one word and of more.
func treeSpecs() []attendSpec {
	chain := func(n int) (parents []int) {
		for i := range n {
			parents = append(parents, i-1)
		}
		return parents
	}
	bushy := func(n int) (parents []int) {
		for i := range n {
			parents = append(parents, (i-1)/3)
		}
		parents[0] = -1
		return parents
	}
	stars := func(n int) (parents []int) {
		for range n {
			parents = append(parents, -1)
		}
		return parents
	}
	var out []attendSpec
	add := func(name string, change func(*attendSpec), seqs ...sequence) {
		for _, depths := range []bool{false, true} {
			s := small("tree: "+name, seqs...)
			if depths {
				s.name += ", by depth"
				s.look(0, func(i int) view { pos := seqs[0].context - seqs[0].queries + i; return view{pos, pos + 1} })
			}
			change(&s)
			out = append(out, s)
		}
	}
	for _, n := range []int{1, 2, 31, 32, 33, 64, 65, 96} {
		for i, parents := range [][]int{chain(n), bushy(n), stars(n)} {
			add(fmt.Sprintf("%s of %d", [...]string{"a chain", "a bush", "branches"}[i], n), func(s *attendSpec) { s.grow(0, parents...) }, sequence{n, n + 37}, sequence{1, 20})
		}
	}
	masks := []maskSpec{{name: "window 1", window: 1}, {name: "window 6", window: 6}, {name: "window and sinks among the drafts", window: 3, sinkTokens: 12},
		{name: "chunks of 3", chunk: 3}, {name: "chunks of 11", chunk: 11}, {name: "every bias", softCap: 1.5, alibi: true, sinkLogits: true},
		{name: "a window and every bias", window: 4, sinkTokens: 2, softCap: 1.5, alibi: true, sinkLogits: true}}
	for _, part := range []backend.Part{backend.OlderKeys, backend.ResidualKeys} {
		for _, recent := range []int{1, 3, 8, 100} {
			masks = append(masks, maskSpec{name: fmt.Sprintf("%s by %d", partName(part), recent), part: part, recent: recent, alibi: recent == 3})
		}
		masks = append(masks, maskSpec{name: partName(part) + " in windows", part: part, recent: 2, window: 9, sinkTokens: 10})
	}
	for _, m := range masks {
		add(m.name, func(s *attendSpec) {
			s.mask = m
			s.grow(0, bushy(13)...)
			s.grow(1, bushy(9)...)
			s.grow(3, chain(5)...)
		}, sequence{13, 60}, sequence{9, 9}, sequence{20, 33}, sequence{5, 11})
	}
	for i, l := range layoutAxis {
		add("in "+l.name, func(s *attendSpec) {
			s.layout, s.spareSlots = l, i%3
			s.grow(1, bushy(21)...)
		}, sequence{1, 40}, sequence{21, 50}, sequence{40, 40})
	}
	add("many words", func(s *attendSpec) { s.grow(0, bushy(300)...) }, sequence{300, 310})
	add("over a long context", func(s *attendSpec) { s.grow(0, bushy(17)...) }, sequence{17, 1300})
	add("of many heads", func(s *attendSpec) { s.qHeads, s.kvHeads = 32, 2; s.grow(0, bushy(17)...) }, sequence{17, 90})
	add("in a plan for more words", func(s *attendSpec) {
		s.grow(0, bushy(17)...)
		s.tree[0] = append(s.tree[0], 0, 0)
	}, sequence{17, 90})
	out = append(out, small("tree: in a plan of fixed size", sequence{17, 90}, sequence{1, 40}).with(func(s *attendSpec) {
		s.fixed = true
		s.grow(0, bushy(17)...)
	}))
	shared := sharedSpecs()[0]
	shared.name, shared.seqs[1], shared.seqs[4] = "tree: shared prefixes", sequence{9, 57}, sequence{4, 64}
	shared.grow(1, bushy(9)...)
	shared.grow(4, stars(4)...)
	return append(out, shared)
}
