package backendtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/backend"
)

// randomViews are batches that nobody thought of, the same in every run.
func randomViews() []attendSpec {
	rng := rand.New(rand.NewPCG(7, 23))
	below := func(n int) int { return rng.IntN(n) }
	var out []attendSpec
	for i := range 60 {
		s := small(fmt.Sprintf("random views %d", i))
		for range 1 + below(5) {
			s.seqs = append(s.seqs, sequence{below(30), below(150)})
		}
		s.layout = layoutAxis[below(len(layoutAxis))]
		s.mask = maskSpec{alibi: below(4) == 0, sinkLogits: below(3) == 0}
		switch below(4) {
		case 0:
			s.mask.window, s.mask.sinkTokens = 1+below(110), max(below(90)-20, 0)
		case 1:
			s.mask.chunk = 1 + below(70)
		}
		if part := backend.Part(below(3)); part != backend.AllKeys {
			s.mask.part, s.mask.recent = part, 1+below(70)
		}
		if s.mask.window == 0 && s.mask.chunk == 0 && below(2) == 0 && s.layout.table {
			for j := range s.seqs {
				s.prefixes = append(s.prefixes, prefix{below(j + 1), below(100)})
			}
		}
		for j, seq := range s.seqs {
			if below(3) == 0 {
				continue
			}
			around := below(2) == 0 // as tokens are, or anywhere
			s.look(j, func(i int) view {
				if around {
					pos := max(seq.context-seq.queries+i, 0)
					return view{pos, min(pos+1+below(12), seq.context)}
				}
				return view{below(170), below(seq.context + 1)}
			})
		}
		for j, seq := range s.seqs {
			if seq.queries > 0 && seq.queries <= seq.context && below(3) == 0 {
				var parents []int
				for i := range seq.queries {
					parents = append(parents, below(i+1)-1)
				}
				s.grow(j, parents...)
			}
		}
		s.strided = below(3) == 0
		out = append(out, s)
	}
	return out
}
