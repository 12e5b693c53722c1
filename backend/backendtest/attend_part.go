package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// partSpecs are cases of older and of recent keys: queries on both sides of edges, in blocks, with
// masks that reach beyond the edge, to it, and not as far.
func partSpecs() []attendSpec {
	decode := []sequence{{1, 90}, {1, 0}, {1, 20}, {1, 21}, {1, 35}, {1, 36}, {1, 37}}
	chunks := []sequence{{9, 40}, {33, 64}, {1, 1}, {5, 3}, {0, 50}, {70, 130}}
	var out []attendSpec
	for _, part := range []backend.Part{backend.OlderKeys, backend.ResidualKeys} {
		add := func(name string, recent int, seqs []sequence, changes ...func(*attendSpec)) {
			s := small(fmt.Sprintf("%s: %s", partName(part), name), seqs...)
			s.mask.part, s.mask.recent = part, recent
			for _, change := range changes {
				change(&s)
			}
			out = append(out, s)
		}
		window := func(n, sinks int) func(*attendSpec) {
			return func(s *attendSpec) { s.mask.window, s.mask.sinkTokens = n, sinks }
		}
		for _, recent := range []int{1, 20, 32, 1000, math.MaxInt} {
			add(fmt.Sprintf("by %d", recent), recent, decode)
			add(fmt.Sprintf("by %d in chunks", recent), recent, chunks)
		}
		for i, l := range layoutAxis {
			add("in "+l.name, 20, slices.Concat(decode, chunks), func(s *attendSpec) { s.layout, s.spareSlots = layoutAxis[i], i%3 })
		}
		for _, m := range [][2]int{{7, 0}, {20, 3}, {27, 40}, {36, 17}, {50, 5}, {21, 1000}, {35, 33}} {
			add(fmt.Sprintf("window %d and %d sinks", m[0], m[1]), 20, decode, window(m[0], m[1]))
			add(fmt.Sprintf("window %d and %d sinks in chunks", m[0], m[1]), 20, chunks, window(m[0], m[1]))
		}
		add("every bias", 20, chunks, window(40, 24), func(s *attendSpec) {
			s.mask.softCap, s.mask.alibi, s.mask.sinkLogits = 1.5, true, true
		})
		add("window in blocks of 8", 9, chunks, window(30, 11), func(s *attendSpec) { s.layout = layoutAxis[0] })
		add("far sinks and a window in blocks of 8", 150, []sequence{{1, 170}, {3, 220}}, window(21, 60), func(s *attendSpec) { s.layout = layoutAxis[0] })
		long := []sequence{{1, 1300}, {2, 900}, {40, 700}}
		add("long", 300, long)
		add("long, fixed", 300, long, func(s *attendSpec) { s.fixed = true })
		add("long with a window and sinks", 300, long, window(600, 500))
		add("large scores", 20, chunks, func(s *attendSpec) { s.smallIntegers = true })
		add("many rows", 20, chunks, func(s *attendSpec) { s.qHeads, s.kvHeads = 32, 2 })
		add("a plan without a window", 20, slices.Concat(decode, chunks), window(27, 18), func(s *attendSpec) {
			s.planned = func(p *backend.AttendShape) { p.Window, p.SinkTokens = 0, 0 }
		})
		add("a plan for a wider window", 20, slices.Concat(decode, chunks), window(19, 18), func(s *attendSpec) {
			s.planned = func(p *backend.AttendShape) { p.Window, p.SinkTokens = 60, 40 }
		})
		for _, s := range sharedSpecs() {
			if s.mask.nonCausal {
				continue
			}
			s.name = fmt.Sprintf("%s of %s", partName(part), s.name)
			s.mask.part, s.mask.recent = part, 9
			out = append(out, s)
		}
	}
	return append(out, randomParts()...)
}

// randomParts are cases that nobody thought of, the same in every run.
func randomParts() []attendSpec {
	rng := rand.New(rand.NewPCG(5, 11))
	below := func(n int) int { return rng.IntN(n) }
	var out []attendSpec
	for i := range 24 {
		s := small(fmt.Sprintf("random part %d", i))
		for range 1 + below(5) {
			s.seqs = append(s.seqs, sequence{below(30), below(150)})
		}
		s.layout = layoutAxis[below(len(layoutAxis))]
		s.mask = maskSpec{part: backend.OlderKeys + backend.Part(below(2)), recent: 1 + below(70), alibi: below(4) == 0, sinkLogits: below(3) == 0}
		if below(3) > 0 {
			s.mask.window, s.mask.sinkTokens = 1+below(110), max(below(90)-20, 0)
		}
		s.fixed, s.strided = below(3) == 0, below(3) == 0
		out = append(out, s)
	}
	return out
}

func partName(p backend.Part) string {
	return map[backend.Part]string{backend.OlderKeys: "older keys", backend.ResidualKeys: "recent keys"}[p]
}
