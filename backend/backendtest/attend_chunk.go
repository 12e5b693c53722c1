package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// chunkSpecs are chunks, and windows both ways, on both sides of what they meet.
func chunkSpecs() []attendSpec {
	decode := []sequence{{1, 90}, {1, 0}, {1, 1}, {1, 32}, {1, 33}, {1, 34}}
	prompts := []sequence{{9, 40}, {33, 64}, {5, 3}, {0, 50}}
	var out []attendSpec
	add := func(name string, m maskSpec, change ...func(*attendSpec)) {
		for i, seqs := range [][]sequence{decode, prompts} {
			s := small(fmt.Sprintf("%s of %s", name, [...]string{"tokens", "prompts"}[i]), seqs...)
			s.mask = m
			for _, change := range change {
				change(&s)
			}
			out = append(out, s)
		}
	}
	for _, n := range []int{1, 2, 15, 16, 17, 33, 64, 90, 1000, math.MaxInt} {
		add(fmt.Sprintf("chunks of %d", n), maskSpec{chunk: n})
		add(fmt.Sprintf("whole chunks of %d", n), maskSpec{chunk: n, nonCausal: true})
		add(fmt.Sprintf("windows of %d both ways", n), maskSpec{window: n, nonCausal: true})
		add(fmt.Sprintf("windows of %d both ways and sinks", n), maskSpec{window: n, sinkTokens: 19, nonCausal: true})
	}
	every := maskSpec{chunk: 21, softCap: 1.5, alibi: true, sinkLogits: true}
	add("chunks with every bias", every)
	every.chunk, every.window, every.sinkTokens, every.nonCausal = 0, 21, 4, true
	add("windows both ways with every bias", every)
	for _, part := range []backend.Part{backend.OlderKeys, backend.ResidualKeys} {
		for _, recent := range []int{1, 13, 40} {
			add(fmt.Sprintf("%s by %d in chunks", partName(part), recent), maskSpec{chunk: 29, part: part, recent: recent})
		}
	}
	for i, l := range layoutAxis {
		in := func(s *attendSpec) { s.layout, s.spareSlots, s.strided = l, i%3, i%2 == 1 }
		add("chunks in "+l.name, maskSpec{chunk: 25}, in)
		add("windows both ways in "+l.name, maskSpec{window: 12, sinkTokens: 3, nonCausal: true}, in)
	}
	add("a plan without chunks", maskSpec{chunk: 25}, func(s *attendSpec) {
		s.planned = func(p *backend.AttendShape) { p.Chunk = 0 }
	})
	add("a plan for wider windows both ways", maskSpec{window: 12, nonCausal: true}, func(s *attendSpec) {
		s.planned = func(p *backend.AttendShape) { p.Window, p.SinkTokens = 50, 2 }
	})
	add("chunks in a plan of fixed size", maskSpec{chunk: 25}, func(s *attendSpec) { s.fixed = true })
	long := small("long chunks", sequence{1, 1300}, sequence{2, 900}, sequence{40, 700})
	long.mask.chunk = 512
	wide := long
	wide.name, wide.mask = "long windows both ways", maskSpec{window: 300, sinkTokens: 9, nonCausal: true}
	shared := sharedSpecs()[0]
	shared.name, shared.mask.chunk = "chunks of "+shared.name, 40
	return append(out, long, wide, shared)
}
