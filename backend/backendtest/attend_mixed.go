package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// mixed is a batch in which every query has its reason to see what it sees.
func mixed(name string) attendSpec {
	s := small("views: "+name,
		sequence{1, 37},  // a token
		sequence{12, 40}, // a prompt with an image
		sequence{5, 41},  // queries of another sequence: cross attention
		sequence{7, 29},  // a tree of drafts
		sequence{3, 33},  // nothing is appended
		sequence{4, 30},  // the prompt's sequence, at an earlier place
		sequence{0, 12},  // nothing is asked
		sequence{2, 5})   // nothing is seen
	s.twins = []twin{{seq: 5, of: 1}}
	s.look(1, func(i int) view {
		if i >= 3 && i < 9 {
			return view{28 + i, 37}
		}
		return view{28 + i, 29 + i}
	})
	s.look(2, func(i int) view { return view{60 - 13*i, 41} })
	s.look(4, func(i int) view { return view{40 + i, 33} })
	s.look(5, func(i int) view { return view{10 + i, 11 + i} })
	s.look(7, func(i int) view { return view{i, 0} })
	s.grow(3, -1, 0, 0, 1, 1, 2, -1)
	return s
}

// viewSpecs are batches whose queries have views and trees.
func viewSpecs() []attendSpec {
	var out []attendSpec
	masks := []maskSpec{
		{name: "every key"}, {name: "window 7", window: 7}, {name: "window 1", window: 1}, {name: "window 7 and sinks", window: 7, sinkTokens: 4},
		{name: "window 30 and sinks beyond it", window: 30, sinkTokens: 33}, {name: "a window beyond all", window: math.MaxInt},
		{name: "chunks of 1", chunk: 1}, {name: "chunks of 8", chunk: 8}, {name: "chunks of 29", chunk: 29}, {name: "chunks beyond the context", chunk: 1000},
		{name: "every bias", softCap: 1.5, alibi: true, sinkLogits: true},
		{name: "every bias and a window", window: 11, sinkTokens: 3, softCap: 1.5, alibi: true, sinkLogits: true},
	}
	for _, part := range []backend.Part{backend.OlderKeys, backend.ResidualKeys} {
		for _, recent := range []int{1, 5, 20, 1000} {
			masks = append(masks, maskSpec{name: fmt.Sprintf("%s by %d", partName(part), recent), part: part, recent: recent})
		}
		masks = append(masks, maskSpec{name: partName(part) + " and a window", part: part, recent: 3, window: 12, sinkTokens: 9},
			maskSpec{name: partName(part) + " in chunks", part: part, recent: 3, chunk: 21})
	}
	for _, m := range masks {
		s := mixed(m.name)
		s.mask = m
		out = append(out, s)
	}
	for i, l := range layoutAxis {
		for j, m := range []maskSpec{{}, {window: 9, sinkTokens: 3}, {chunk: 17}, {part: backend.OlderKeys, recent: 4}, {part: backend.ResidualKeys, recent: 4}} {
			s := mixed(fmt.Sprintf("mask %d in %s", j, l.name))
			s.mask, s.layout, s.spareSlots, s.strided = m, l, i%3, j%2 == 1
			out = append(out, s)
		}
	}
	out = append(out, mixed("a query group of one").with(func(s *attendSpec) { s.qHeads = 2 }),
		mixed("many heads").with(func(s *attendSpec) { s.qHeads, s.kvHeads = 32, 4 }),
		mixed("large scores").with(func(s *attendSpec) { s.smallIntegers = true }),
		mixed("rows alone").with(func(s *attendSpec) { s.output = outputSpec{} }),
		mixed("one token each").with(func(s *attendSpec) {
			s.seqs, s.views, s.tree, s.omitOffsets, s.twins = []sequence{{1, 30}, {1, 50}, {1, 0}}, []view{{3, 20}, {49, 50}, {0, 0}}, nil, true, nil
		}),
		mixed("the last position").with(func(s *attendSpec) {
			s.look(0, func(int) view { return view{backend.MaxPosition, 37} })
			s.mask.alibi = false
		}))
	for _, part := range []backend.Part{backend.AllKeys, backend.OlderKeys, backend.ResidualKeys} {
		s := small(fmt.Sprintf("views: the last position, part %d", part), sequence{3, 40})
		s.look(0, func(i int) view { return view{[]int{backend.MaxPosition, 0, backend.MaxPosition - 1}[i], 40} })
		if s.mask.part = part; part != backend.AllKeys {
			s.mask.recent = 7
		}
		out = append(out, s, s.with(func(s *attendSpec) { s.name += ", a window"; s.mask.window, s.mask.sinkTokens = 5, 3 }),
			s.with(func(s *attendSpec) { s.name += ", chunks"; s.mask.chunk = 9 }))
	}
	return append(append(append(out, imageSpecs()...), treeSpecs()...), randomViews()...)
}
