package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// blockSizeSpecs are blocks of no power of two, and of one token.
func blockSizeSpecs(caps backend.Caps) []attendSpec {
	var out []attendSpec
	add := func(s attendSpec, block int) {
		s.name = fmt.Sprintf("blocks of %d: %s", block, s.name)
		s.layout = layout{fmt.Sprintf("paged%d", block), block, true}
		out = append(out, s)
	}
	for i, block := range []int{1, 3, 24, 48} {
		for _, f := range plainFormats(caps) {
			for _, s := range maskSpecs() {
				s.format = f
				s.name += " in " + f.Act.String()
				add(s, block)
			}
		}
		for j, f := range sampled(caps) {
			s := small("format "+formatName(f), sequence{1, 90}, sequence{20, 75}, sequence{1, 0})
			if s.format = f; (i+j)%2 == 0 {
				s.mask = maskSpec{part: backend.OlderKeys, recent: 9}
			}
			add(s, block)
		}
		for _, m := range []maskSpec{{}, {window: 9, sinkTokens: 3}, {chunk: 17}, {part: backend.OlderKeys, recent: 4}, {part: backend.ResidualKeys, recent: 4}} {
			s := mixed(fmt.Sprintf("window %d, chunk %d, part %d", m.window, m.chunk, m.part))
			s.mask = m
			add(s, block)
		}
		shared := sharedSpecs()
		for _, s := range []attendSpec{shared[0], shared[4], shared[len(shared)-2]} {
			add(s, block)
		}
	}
	return out
}
