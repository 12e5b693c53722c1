package backendtest

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// attendChecks are the grid and the cases that lie outside it.
func attendChecks[B backend.Buffer](caps backend.Caps, o Options) []check[B] {
	axes := listedAxes(caps)
	var specs []attendSpec
	for _, row := range o.Grid.rows(axes.grid()) {
		specs = append(specs, axes.spec(row))
	}
	// GPUs have other kernels for activations of 16 bits.
	for _, f := range plainFormats(caps) {
		for _, s := range slices.Concat(maskSpecs(), borderSpecs(), sharedSpecs(), partSpecs(), chunkSpecs(), viewSpecs()) {
			s.format = f
			s.name += " in " + f.Act.String()
			specs = append(specs, s.listed(caps))
		}
	}
	for _, s := range formatSpecs(caps) {
		specs = append(specs, s.listed(caps))
	}
	specs = slices.Concat(specs, dimSpecs(), quantizedSpecs(caps), blockSizeSpecs(caps))
	if o.Grid.strength() >= 2 {
		specs = append(specs, largeSpecs()...)
	}
	var out []check[B]
	for _, s := range specs {
		out = append(out, check[B]{s.name, func(r *rig[B]) {
			if o.MaxWork > 0 && s.work() > o.MaxWork {
				r.skip("%d multiply-adds, and Options.MaxWork is %d", s.work(), o.MaxWork)
			}
			checkAttend(r, s)
		}})
	}
	out = append(append(out, roundedQueryChecks[B](caps)...), splitChecks[B](caps)...)
	out = append(out, check[B]{"attention scores under a log-sum-exp that is undefined", checkUndefinedLSE[B]})
	return append(out, check[B]{"appended, turned and attended", func(r *rig[B]) { checkTurnedStep(r, r.quantized()) }},
		check[B]{"appended, turned and attended, in floats", func(r *rig[B]) { checkTurnedStep(r, r.plain()) }})
}

// checkAttend runs a case and compares it with the reference.
func checkAttend[B backend.Buffer](r *rig[B], s attendSpec) {
	r.needsOf(s.latent, s.format, s.kDim, s.vDim, s.layout.block, s.layout.block > 0)
	r.wants(&s)
	r.seed(s.name)
	a := newAttend(r, s)
	a.attend()
	a.compare(a.expect())
}

var f32 = backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}

// small is a case that the ones outside the grid vary.
func small(name string, seqs ...sequence) attendSpec {
	return attendSpec{name: name, qHeads: 4, kvHeads: 2, kDim: 64, vDim: 64, layout: layoutAxis[1], seqs: seqs,
		output: outputSpec{lse: true, mass: true}, format: f32}
}

// listed is a case that is not about head dims and block sizes, with ones that the device
// lists.
func (s attendSpec) listed(caps backend.Caps) attendSpec {
	s.kDim, s.vDim = listedDimsOf(caps, s.latent, s.kDim, s.vDim)
	if s.layout.block > 0 {
		s.layout.block = listedBlock(caps, s.layout.block)
	}
	return s
}

// with is a case with a change.
func (s attendSpec) with(change func(*attendSpec)) attendSpec {
	change(&s)
	return s
}

// maskSpecs is a small case of every mask, for devices that skip large ones.
func maskSpecs() []attendSpec {
	var out []attendSpec
	for _, m := range maskAxis {
		s := small("mask "+m.name, sequence{1, 37}, sequence{9, 30})
		if m.window > 0 {
			m.window = 7
		}
		s.mask = m
		out = append(out, s)
	}
	return out
}

// fewRows have keys for several tiles of each warp, and where groups are one head, items of 1 to 4 rows.
var fewRows = []sequence{{1, 170}, {2, 161}, {3, 190}, {4, 150}}

// borderSpecs are cases where a rule changes its meaning.
func borderSpecs() []attendSpec {
	var decode []sequence
	for i := range 67 {
		decode = append(decode, sequence{1, i * 3 % 41})
	}
	return []attendSpec{
		small("queries before the context", sequence{5, 2}, sequence{3, 0}, sequence{3, 3}),
		small("many sequences", decode...),
		small("sequences without queries", sequence{0, 0}, sequence{2, 20}, sequence{0, 33}),
		small("window of one key", sequence{9, 40}).with(func(s *attendSpec) { s.mask.window = 1 }),
		small("window as long as the context", sequence{9, 40}).with(func(s *attendSpec) { s.mask.window = 40 }),
		small("window in blocks of 8", sequence{1, 70}, sequence{3, 61}).with(func(s *attendSpec) { s.layout, s.mask.window, s.mask.sinkTokens = layoutAxis[0], 9, 3 }),
		small("window far from the sinks", sequence{1, 170}, sequence{3, 161}).with(func(s *attendSpec) { s.mask.window, s.mask.sinkTokens = 21, 5 }),
		small("window beyond the context", sequence{9, 40}).with(func(s *attendSpec) { s.mask.window = 1 << 30 }),
		small("window of one block", sequence{33, 64}).with(func(s *attendSpec) { s.mask.window = 16 }),
		small("sinks overlap the window", sequence{9, 40}).with(func(s *attendSpec) { s.mask.window, s.mask.sinkTokens = 8, 36 }),
		small("sinks beyond the context", sequence{9, 40}).with(func(s *attendSpec) { s.mask.window, s.mask.sinkTokens = 8, 1000 }),
		small("sinks without a window", sequence{9, 40}).with(func(s *attendSpec) { s.mask.sinkTokens = 4 }),
		small("sink logits and empty contexts", sequence{2, 0}, sequence{1, 3}).with(func(s *attendSpec) { s.mask.sinkLogits = true }),
		small("large scores", sequence{1, 90}, sequence{5, 5}).with(func(s *attendSpec) { s.smallIntegers = true }),
		small("noncausal prefill", sequence{40, 40}).with(func(s *attendSpec) { s.mask.nonCausal = true }),
		small("contexts shorter than a window in blocks of 64", sequence{70, 130}, sequence{1, 3}).with(func(s *attendSpec) {
			s.layout, s.mask.window, s.mask.sinkTokens = layoutAxis[3], 70, 2
		}),
		small("one block shared by whole sequences", sequence{1, 16}, sequence{2, 16}).with(func(s *attendSpec) { s.output.shared = true }),
		small("a query group of three", sequence{3, 20}).with(func(s *attendSpec) { s.qHeads = 6 }),
		small("one to four rows", fewRows...).with(func(s *attendSpec) { s.qHeads = 2 }),
		small("one to four rows with every bias", fewRows...).with(func(s *attendSpec) {
			s.qHeads, s.mask = 2, maskSpec{window: 67, softCap: 1.5, alibi: true, sinkLogits: true}
		}),
		small("no queries", sequence{0, 20}, sequence{0, 0}),
		small("every bias and no causal mask", sequence{3, 20}, sequence{2, 0}).with(func(s *attendSpec) {
			s.mask = maskSpec{nonCausal: true, softCap: 1.5, alibi: true, sinkLogits: true}
		}),
		small("a plan without a window", sequence{1, 700}, sequence{9, 40}).with(func(s *attendSpec) {
			s.mask.window, s.mask.sinkTokens = 20, 3
			s.planned = func(p *backend.AttendShape) { p.Window, p.SinkTokens = 0, 0 }
		}),
		small("a plan for a wider window", sequence{1, 700}, sequence{9, 40}).with(func(s *attendSpec) {
			s.mask.window, s.mask.sinkTokens = 300, 2
			s.planned = func(p *backend.AttendShape) { p.Window, p.SinkTokens = 301, 40 }
		}),
		small("a plan for mass that is not wanted", sequence{1, 700}, sequence{9, 40}).with(func(s *attendSpec) {
			s.output.mass = false
			s.planned = func(p *backend.AttendShape) { p.Scores = true }
		}),
	}
}

// dimSpecs are head dims that few devices list.
func dimSpecs() []attendSpec {
	var out []attendSpec
	for _, d := range [][2]int{{112, 40}, {8, 8}, {112, 112}, {512, 512}, {72, 72}, {576, 512}} {
		for i, f := range []backend.Format{f32, formatAxis[1], formatAxis[2]} {
			s := small(fmt.Sprintf("head dims %d and %d in %s", d[0], d[1], f.Act), sequence{3, 20}, sequence{1, 70})
			s.kDim, s.vDim, s.format, s.layout = d[0], d[1], f, layoutAxis[(2*i+1)%len(layoutAxis)]
			out = append(out, s, s.with(func(s *attendSpec) { // many rows
				s.name += ", a prompt"
				s.seqs = []sequence{{40, 90}}
			}))
		}
	}
	return out
}

// formatSpecs is a small case in the formats that the device lists.
func formatSpecs(caps backend.Caps) []attendSpec {
	var out []attendSpec
	for _, f := range sampled(caps) {
		s := small(fmt.Sprintf("format %s", formatName(f)), sequence{1, 17}, sequence{4, 9})
		s.format = f
		out = append(out, s)
		s.name, s.mask.part, s.mask.recent = "older keys: "+s.name, backend.OlderKeys, 3
		out = append(out, s)
		m := mixed(fmt.Sprintf("format %s", formatName(f)))
		m.format = f
		out = append(out, m)
	}
	return out
}

// largeSpecs are the long contexts with the long chunks, which the grid's budget
// keeps to few heads.
func largeSpecs() []attendSpec {
	large := func(name string, f backend.Format, qHeads, kvHeads, dim int, seqs ...sequence) attendSpec {
		return attendSpec{name: name, qHeads: qHeads, kvHeads: kvHeads, kDim: dim, vDim: dim, layout: layoutAxis[1],
			seqs: seqs, output: outputAxis[1], format: f}
	}
	f16, bf16 := formatAxis[1], formatAxis[2]
	return []attendSpec{
		large("large chunk f32", f32, 8, 2, 128, sequence{257, 2049}),
		large("large chunk f16", f16, 4, 1, 64, sequence{257, 2049}),
		large("large decode bf16", bf16, 32, 8, 128, sequence{1, 2049}, sequence{1, 4097}, sequence{1, 1}),
	}
}
