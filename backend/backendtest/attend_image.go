package backendtest

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// imageSpecs are prompts with images, long enough for tiles of many rows, and batches that share blocks.
func imageSpecs() []attendSpec {
	prompt := small("views: a prompt with two images", sequence{150, 170}, sequence{1, 90}).with(func(s *attendSpec) {
		s.look(0, func(i int) view {
			switch pos := 20 + i; {
			case pos >= 30 && pos < 62:
				return view{pos, 62}
			case pos >= 100 && pos < 165:
				return view{pos, 165}
			default:
				return view{pos, pos + 1}
			}
		})
	})
	whole := small("views: an encoder beside decoders", sequence{1, 60}, sequence{90, 90}, sequence{1, 33})
	whole.look(1, func(i int) view { return view{i, 90} })
	scattered := small("views: places far apart", sequence{40, 700}, sequence{3, 1300})
	scattered.look(0, func(i int) view { pos := i * 337 % 700; return view{pos, pos + 1} })
	scattered.look(1, func(i int) view { return view{1299 - 600*i, 1300 - 600*i} })
	var out []attendSpec
	for _, s := range []attendSpec{prompt, whole, scattered} {
		for _, m := range []maskSpec{{}, {name: ", windows", window: 40, sinkTokens: 5}, {name: ", chunks", chunk: 64}} {
			out = append(out, s.with(func(s *attendSpec) { s.name += m.name; s.mask = m }))
		}
	}
	for i, base := range sharedSpecs() {
		if base.mask.nonCausal {
			continue
		}
		s := base.with(func(s *attendSpec) {
			s.fixed = false
			s.name = fmt.Sprintf("views %d of %s", i, s.name)
			s.look(0, func(i int) view { pos := s.seqs[0].context - s.seqs[0].queries + i; return view{pos, pos + 1} })
			s.look(2, func(i int) view { return view{7, s.seqs[2].context} })
		})
		out = append(out, s, s.with(func(s *attendSpec) { // one that sees a part of what is shared
			s.name += ", and one sees less"
			s.look(1, func(int) view { return view{s.seqs[1].context, 29} })
		}))
	}
	decoders := small("views: decoders that share an encoder", sequence{1, 90}, sequence{3, 90}, sequence{1, 90}, sequence{2, 77})
	for i := range decoders.seqs {
		decoders.look(i, func(int) view { return view{5, decoders.seqs[i].context} })
		if i > 0 {
			decoders.twins = append(decoders.twins, twin{seq: i, of: 0})
			decoders.prefixes = append(decoders.prefixes, prefix{0, 90})
		} else {
			decoders.prefixes = append(decoders.prefixes, prefix{})
		}
	}
	return append(out, decoders, decoders.with(func(s *attendSpec) {
		s.name += ", older keys"
		s.mask.part, s.mask.recent = backend.OlderKeys, 3
	}))
}
