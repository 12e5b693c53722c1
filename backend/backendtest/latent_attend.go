package backendtest

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// The axes of the grid of latent caches that are not those of others.
var (
	latentHeadAxis = [][2]int{{1, 1}, {16, 1}, {4, 2}, {128, 1}, {40, 1}}
	latentDimAxis  = [][2]int{{80, 64}, {576, 512}, {64, 64}, {40, 24}, {320, 256}, {144, 80}}
)

// latentGrid is the grid of attention over latent caches, in the order of latentSpec.
func latentGrid(a axes) grid {
	return grid{
		sizes: []int{len(latentHeadAxis), len(latentDimAxis), len(a.layouts), len(contextAxis), len(queryAxis),
			len(a.masks), len(outputAxis), len(a.formats), 2},
		cost:  func(row []int) int { return latentSpec(a, row).work() },
		cheap: make([]int, 9),
	}
}

// latentSpec is a case of the axes with the heads and dims of a latent cache.
func latentSpec(a axes, row []int) attendSpec {
	of := slices.Clone(row)
	of[0], of[1] = 0, 0
	s := a.spec(of)
	heads, dims := latentHeadAxis[row[0]], latentDimAxis[row[1]]
	s.qHeads, s.kvHeads, s.kDim, s.vDim, s.latent = heads[0], heads[1], dims[0], dims[1], true
	s.name = fmt.Sprintf("%s of %d", headName(s), row[0]) + s.name
	return s
}

// latentAttends are the cases of attention: every mask, border, shared prefix and part in small ones, every format, and
// a grid.
func latentAttends(caps backend.Caps, o Options) []attendSpec {
	formats := latentFormats(caps)
	var specs []attendSpec
	axes := listedAxes(caps)
	axes.formats = formats
	for _, row := range o.Grid.rows(latentGrid(axes)) {
		specs = append(specs, latentSpec(axes, row))
	}
	add := func(s attendSpec, f backend.Format, heads [2]int, dims [2]int) {
		s.latent, s.format, s.qHeads, s.kvHeads, s.kDim, s.vDim = true, f, heads[0], heads[1], dims[0], dims[1]
		s.name += fmt.Sprintf(" in %s, %s", formatName(f), headName(s))
		specs = append(specs, s.listed(caps))
	}
	for i, s := range slices.Concat(maskSpecs(), borderSpecs(), sharedSpecs(), partSpecs(), chunkSpecs(), viewSpecs()) {
		add(s, plainFormats(caps)[i%len(plainFormats(caps))], latentHeadAxis[i%3], latentDimAxis[i%2])
	}
	for i, f := range formats {
		s := small("format", sequence{1, 17}, sequence{4, 9}, sequence{1, 140})
		add(s, f, [2]int{16, 1}, [2]int{576, 512})
		add(s, f, [2]int{4, 2}, latentDimAxis[i%len(latentDimAxis)])
		prompt := small("prompt", sequence{40, 70}, sequence{33, 33})
		prompt.layout = layoutAxis[i%len(layoutAxis)]
		add(prompt, f, [2]int{20, 1}, latentDimAxis[i%2])
		if f.K.Quantized() {
			exact := small("against the values before quantizing", sequence{1, 48}, sequence{6, 40})
			exact.unquantized, exact.output = true, outputAxis[0]
			add(exact, f, [2]int{16, 1}, [2]int{80, 64})
		}
	}
	return specs
}

// latentSplits merge older and recent keys.
func latentSplits[B backend.Buffer](caps backend.Caps) []check[B] {
	var out []check[B]
	for i, f := range latentFormats(caps) {
		for _, qHeads := range []int{4, 32} {
			s := small(fmt.Sprintf("older and recent keys in %s, %d query heads", formatName(f), qHeads), sequence{1, 90}, sequence{40, 77}, sequence{3, 150}, sequence{1, 0})
			s.latent, s.format, s.qHeads, s.kvHeads, s.kDim, s.vDim = true, f, qHeads, 1, 80, 64
			s.layout, s.mask.sinkLogits = layoutAxis[i%len(layoutAxis)], true
			s = s.listed(caps)
			out = append(out, check[B]{s.name, func(r *rig[B]) { checkSplit(r, s, 17) }})
		}
	}
	return out
}

// latentRoundedQueries round queries, too, where the device lists that.
func latentRoundedQueries[B backend.Buffer](caps backend.Caps) []check[B] {
	var out []check[B]
	for i, dt := range rowTypes {
		for j, seqs := range [][]sequence{{{1, 37}, {1, 300}, {1, 0}}, {{3, 20}, {40, 70}}} {
			s := small(fmt.Sprintf("queries of int8, %s, %d", dt, j), seqs...)
			s.format = backend.Format{Act: activations[(i+j)%len(activations)], K: dt, V: dt}
			s.latent, s.int8Query, s.qHeads, s.kvHeads, s.kDim, s.vDim = true, true, 16, 1, 96, 64
			s = s.listed(caps)
			out = append(out, check[B]{s.name, func(r *rig[B]) {
				if slices.Contains(caps.Int8Query, dt) {
					checkAttend(r, s)
				} else {
					refuseAttend(r, s)
				}
			}})
		}
	}
	return append(out, check[B]{"appended and attended", checkLatentStep[B]})
}

// checkLatentStep appends queries, latents and what comes after them, with a rotation, and attends: the result
// is that of whole keys which were turned by the reference.
func checkLatentStep[B backend.Buffer](r *rig[B]) {
	f := r.plain()
	s := small("latent step", sequence{5, 5}, sequence{20, 20}, sequence{1, 1})
	s.latent, s.format, s.unquantized, s.output, s.qHeads, s.kvHeads = true, f, true, outputAxis[0], 6, 2
	s.kDim, s.vDim = r.dimsOf(true, 80, 48)
	s.layout.block = r.blockSize(16)
	r.needsOf(true, f, s.kDim, s.vDim, s.layout.block, true)
	a, rest := newAttend(r, s), s.kDim-s.vDim
	e := rotary{10000, rest, backend.Interleaved, 1}
	k := r.vectors("K", f.Act, s.tokens(), s.kvHeads*rest, false)
	v := r.vectors("V", f.Act, s.tokens(), s.kvHeads*s.vDim, false)
	var slots []int64
	var positions []uint32
	for i, seq := range s.seqs {
		for token := range seq.context {
			slot, row := a.slot(i, token), len(slots)
			for head := range s.kvHeads {
				key := a.key(slot, head)
				v.set(row*v.stride+head*s.vDim, encode(f.Act, key[:s.vDim]))
				k.set(row*k.stride+head*rest, encode(f.Act, key[s.vDim:]))
				copy(key[s.vDim:], narrow32(e.turn(widen(key[s.vDim:]), token)))
			}
			for head := range s.qHeads {
				q := a.queries[row][head*s.kDim+s.vDim:][:rest]
				copy(q, narrow32(e.turn(widen(q), token)))
			}
			slots, positions = append(slots, int64(slot)), append(positions, uint32(token))
		}
	}
	appended := backend.AppendParams[B]{Cache: a.cache.view(), Tokens: s.tokens(), K: k.rows(), V: v.rows(),
		Slots: constant(r, "slots", backend.I64, slots).buf, QHeads: s.qHeads, Q: a.q.rows(),
		Rotary: r.rope(e, rest, ropePositions), Positions: backend.Some(constant(r, "positions", backend.U32, positions).buf)}
	r.push()
	require.NoError(r, r.be.Append(r.s, appended))
	require.NoError(r, r.be.Attend(r.s, a.params))
	got := r.fetch(a.out.region)
	require.NoError(r, compareRows("output", a.out.values(got), a.expect().out, s.vDim, 2*coarsest(f.Act),
		axisOf{"token", s.tokens()}, axisOf{"head", s.qHeads}))
}
