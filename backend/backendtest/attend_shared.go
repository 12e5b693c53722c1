package backendtest

import "github.com/ferrumkv/ferrumkv/backend"

// prefix is what a sequence has in common with an earlier one: its first tokens.
type prefix struct{ from, tokens int }

// sharedSpecs are batches whose sequences begin in the same blocks, which a plan may read
// once. They are told by their tables alone: nothing else differs from any other case.
func sharedSpecs() []attendSpec {
	// batch is sequences of one query, all but the first with tokens of the first's.
	batch := func(name string, tokens int, contexts ...int) attendSpec {
		s := small("shared prefixes: "+name, nil...)
		for i, n := range contexts {
			s.seqs, s.prefixes = append(s.seqs, sequence{1, n}), append(s.prefixes, prefix{0, tokens})
			if i == 0 {
				s.prefixes[0].tokens = 0
			}
		}
		return s
	}
	six := batch("six", 32, 50, 57, 49, 33, 64, 41)
	out := []attendSpec{
		six,
		six.with(func(s *attendSpec) { s.name += ", fixed"; s.fixed = true }),
		batch("one head", 48, 50, 57, 49, 90).with(func(s *attendSpec) { s.qHeads, s.kvHeads = 1, 1 }),
		batch("more rows than a tile", 48, 70, 49, 50, 51, 52, 100, 54, 55, 56, 49).with(func(s *attendSpec) { s.qHeads = 16 }),
		batch("in parts", 640, 650, 700, 1000, 641),
		batch("in parts, fixed", 640, 650, 700, 1000, 641).with(func(s *attendSpec) { s.fixed = true }),
		batch("in blocks of 64", 64, 80, 70, 129).with(func(s *attendSpec) { s.layout = layoutAxis[3] }),
		batch("nested", 32, 90, 57, 120, 73, 64, 41).with(func(s *attendSpec) {
			s.prefixes[3], s.prefixes[4] = prefix{2, 64}, prefix{2, 48}
		}),
		batch("a fork in a block", 40, 60, 57, 49),
		batch("with a window that the plan has not", 32, 50, 57, 120, 33).with(func(s *attendSpec) {
			s.mask.window, s.mask.sinkTokens = 20, 3
			s.planned = func(p *backend.AttendShape) { p.Window, p.SinkTokens = 0, 0 }
		}),
		batch("with a window", 32, 50, 57, 120).with(func(s *attendSpec) { s.mask.window = 30 }),
		batch("large scores", 32, 50, 57, 49).with(func(s *attendSpec) { s.smallIntegers = true }),
	}
	for _, m := range maskAxis {
		if m.window == 0 {
			out = append(out, batch(m.name, 32, 50, 57, 49, 40).with(func(s *attendSpec) { s.mask = m }))
		}
	}
	drafts := batch("drafts, prompts and nothing new", 48, 60, 57, 51, 150, 52, 100)
	for i, n := range []int{1, 4, 3, 90, 0, 17} {
		drafts.seqs[i].queries = n
	}
	return append(out, drafts, drafts.with(func(s *attendSpec) { s.name += ", fixed"; s.fixed = true }))
}

// join makes tables begin as the prefixes say.
func (a *attendRun[B]) join() {
	for i, p := range a.prefixes {
		blocks := min(p.tokens/a.block(), len(a.tables[i]), len(a.tables[p.from]))
		copy(a.tables[i][:blocks], a.tables[p.from])
	}
}

// tell tells a plan where the sequences lie, and to read once what is in common.
func (a *attendRun[B]) tell(s *backend.AttendShape) {
	s.Fixed = a.fixed
	if !a.layout.table {
		return
	}
	if a.prefixes != nil || a.output.shared {
		s.MinShared = 1
	}
	s.TableStride = a.params.Batch.TableStride
	s.Table = make([]uint32, len(a.seqs)*s.TableStride)
	for i, blocks := range a.tables {
		for j := range blocks {
			s.Table[i*s.TableStride+j] = a.entry(i, j)
		}
	}
}
