package backendtest

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// quantizedSpecs are small cases of every kind in every pair of quantized types, which
// the grid has once in large ones, for devices that skip those.
func quantizedSpecs(caps backend.Caps) []attendSpec {
	oneGroup := func(s *attendSpec) { s.qHeads, s.kvHeads = 2, 1 }
	kinds := []attendSpec{
		small("decode", sequence{1, 37}, sequence{1, 5}, sequence{1, 0}).with(func(s *attendSpec) { s.omitOffsets, s.output = true, outputAxis[0] }),
		small("decode, shared", sequence{1, 40}, sequence{1, 25}).with(func(s *attendSpec) { s.layout, s.output = layoutAxis[2], outputAxis[3] }),
		small("decode over a long context", sequence{1, 900}).with(oneGroup),
		small("three queries, contiguous", sequence{3, 20}, sequence{1, 9}).with(func(s *attendSpec) { s.layout = layoutAxis[4] }),
		small("prefill, contiguous with a table", sequence{24, 24}, sequence{17, 30}).with(oneGroup).with(func(s *attendSpec) { s.layout = layoutAxis[5] }),
		small("prefill, shared", sequence{17, 40}, sequence{2, 30}).with(oneGroup).with(func(s *attendSpec) {
			s.layout, s.output = layoutAxis[0], outputAxis[3]
		}),
		small("decode, a shared prefix", sequence{1, 50}, sequence{1, 57}, sequence{1, 49}).with(func(s *attendSpec) {
			s.prefixes = []prefix{{0, 0}, {0, 32}, {0, 48}}
		}),
		small("every mask", sequence{5, 40}, sequence{1, 33}).with(func(s *attendSpec) {
			s.mask = maskAxis[len(maskAxis)-1]
			s.mask.window = 17
		}),
		small("noncausal, strided", sequence{5, 30}).with(func(s *attendSpec) { s.mask.nonCausal, s.strided = true, true }),
		small("dims 80", sequence{3, 20}, sequence{1, 33}).with(func(s *attendSpec) { s.kDim, s.vDim = 80, 80 }),
		small("dims 80, prefill", sequence{18, 24}).with(oneGroup).with(func(s *attendSpec) { s.kDim, s.vDim = 80, 80 }),
		small("dims 96", sequence{1, 20}).with(func(s *attendSpec) { s.kDim, s.vDim = 96, 96 }),
		small("dims 192x128", sequence{1, 20}, sequence{4, 18}).with(func(s *attendSpec) { s.kDim, s.vDim = 192, 128 }),
		small("dims 256", sequence{1, 20}, sequence{17, 17}).with(oneGroup).with(func(s *attendSpec) { s.kDim, s.vDim = 256, 256 }),
		small("keys and queries turned before", sequence{3, 20}).with(func(s *attendSpec) { s.hadamard = true }),
		small("against the values before quantizing", sequence{1, 48}, sequence{6, 40}).with(func(s *attendSpec) {
			s.unquantized, s.output = true, outputAxis[0]
		}),
	}
	var out []attendSpec
	for i, f := range quantizedFormats(1) {
		for j, s := range kinds {
			s.format = f
			s.format.Act = activations[(i+j)%len(activations)]
			s.name = fmt.Sprintf("%s in %s", s.name, formatName(s.format))
			s.layout.block = listedBlockOf(caps, s.layout.block)
			out = append(out, s)
		}
	}
	return out
}

// listedBlockOf leaves the blocks of a contiguous cache, which are of any size.
func listedBlockOf(caps backend.Caps, block int) int {
	if block == 0 {
		return 0
	}
	return listedBlock(caps, block)
}

// coarse is how far attention over quantized values of the normal distribution may be
// from attention over the values themselves. An error of the standard deviation e in each
// key changes scores by e (queries have unit variance, the scale is 1/√d) and so an
// output by e of its norm; errors in values add as much again: √2·e in all, where e is
// a step/√12. int8 has steps of 2·3/254, which makes 0.01. int4 has 15 of them over
// the 4.1 to 5 that 32 to 128 normal values span, which makes 0.11 to 0.14. Channels get
// spans of 5 to 7 from the suite: 0.18. fp8 rounds by 1/16 of a value at most, 0.025
// on the average: 0.04, and e5m2 by twice that. e2m1 rounds a normal value of 32 by
// 0.115 on the average: 0.16. A single row of few keys may be twice as far.
func coarse(dt backend.DType) float64 {
	switch c := dt.Coding(); {
	case c.Scope == backend.Unscaled:
		return 0
	case c.Scope == backend.ByChannel, c.Code == backend.E2M1:
		return 4e-1
	case c.Code == backend.E4M3:
		return 1e-1
	case c.Code == backend.E5M2:
		return 2e-1
	case c.Bits == 8:
		return 2e-2
	}
	return 3e-1
}

const (
	// roundedQuery is the limit where queries are rounded to int8, too. A query whose
	// elements are spread evenly up to m is rounded by m/127/√12: 0.4 % of its standard
	// deviation, which is m/√3, so that scores of unit keys and m = 1 are wrong by 0.0023
	// and an output row by as much of its norm. Queries with outliers are rounded more:
	// of unit variance and normal, as elsewhere in the suite, by 0.006.
	roundedQuery = 5e-3
	// roundedLSE is the limit of log-sum-exps then: twice a score's error, which is the
	// error where there is one key.
	roundedLSE = 5e-3
)

// limits are the largest error of an output row and of a log-sum-exp.
func (s attendSpec) limits() (row, lse float64) {
	row, lse = coarsest(s.format.Act), lseLimit
	if s.format.K.Quantized() {
		lse = max(lse, row) // devices may compute with what codes are worth in Act
	}
	if s.unquantized {
		row += max(coarse(s.format.K), coarse(s.format.V))
	}
	if s.int8Query {
		row, lse = max(row, roundedQuery), roundedLSE
	}
	return row, lse
}

// roundedQueryChecks try the mode that also rounds queries where a device lists it,
// and that the others refuse it.
func roundedQueryChecks[B backend.Buffer](caps backend.Caps) []check[B] {
	kinds := []attendSpec{
		small("decode", sequence{1, 37}, sequence{1, 300}, sequence{1, 0}),
		small("three queries", sequence{3, 20}, sequence{1, 9}).with(func(s *attendSpec) { s.layout = layoutAxis[4] }),
		small("prefill", sequence{40, 70}).with(func(s *attendSpec) { s.strided = true }),
		small("dims 80", sequence{3, 20}, sequence{1, 90}).with(func(s *attendSpec) { s.kDim, s.vDim = 80, 80 }),
		small("every mask", sequence{9, 60}).with(func(s *attendSpec) {
			s.mask = maskAxis[len(maskAxis)-1]
			s.mask.window = 17
		}),
		mixed("of int8"),
		small("chunks", sequence{40, 90}, sequence{1, 37}).with(func(s *attendSpec) { s.mask.chunk = 25 }),
	}
	var out []check[B]
	for i, dt := range append([]backend.DType{backend.F16}, quantizedTypes...) {
		for j, s := range kinds {
			act := activations[(i+j)%len(activations)]
			s.format, s.int8Query = storedAs(act, dt), true
			s.layout.block = listedBlockOf(caps, s.layout.block)
			s.name = fmt.Sprintf("queries of int8, %s in %s", s.name, formatName(s.format))
			out = append(out, check[B]{s.name, func(r *rig[B]) {
				if slices.Contains(caps.Int8Query, dt) {
					checkAttend(r, s)
				} else {
					refuseAttend(r, s)
				}
			}})
		}
	}
	return out
}

func refuseAttend[B backend.Buffer](r *rig[B], s attendSpec) {
	r.needsOf(s.latent, s.format, s.kDim, s.vDim, s.layout.block, s.layout.block > 0)
	r.wants(&s)
	a := newAttend(r, s)
	r.push()
	require.ErrorIs(r, r.be.Attend(r.s, a.params), backend.ErrUnsupported{})
	r.verify()
}

// checkTurnedStep appends keys and queries to a cache that is stored with Hadamard and
// attends: the result is near to what it is without any of this.
func checkTurnedStep[B backend.Buffer](r *rig[B], f backend.Format) {
	s := small("turned step", sequence{5, 5}, sequence{20, 20}, sequence{1, 1})
	s.format, s.hadamard, s.unquantized, s.output = f, true, true, outputAxis[0]
	s.kDim, s.vDim = r.dims(80, 80)
	s.layout.block = r.blockSize(16)
	a := newAttend(r, s)
	var slots []int64
	k := r.vectors("K", f.Act, s.tokens(), s.kvHeads*s.kDim, false)
	v := r.vectors("V", f.Act, s.tokens(), s.kvHeads*s.vDim, false)
	for i, seq := range s.seqs {
		for token := range seq.context {
			slot := a.slot(i, token)
			row := len(slots)
			for head := range s.kvHeads {
				k.set(row*k.stride+head*s.kDim, encode(f.Act, a.key(slot, head)))
				v.set(row*v.stride+head*s.vDim, encode(f.Act, a.value(slot, head)))
			}
			slots = append(slots, int64(slot))
		}
	}
	appended := backend.AppendParams[B]{Cache: a.cache.view(), Tokens: s.tokens(), K: k.rows(), V: v.rows(),
		Slots: constant(r, "slots", backend.I64, slots).buf, QHeads: s.qHeads, Q: a.q.rows()}
	r.push()
	require.NoError(r, r.be.Append(r.s, appended))
	require.NoError(r, r.be.Attend(r.s, a.params))
	got := r.fetch(a.out.region)
	limit, _ := s.limits()
	require.NoError(r, compareRows("output", a.out.values(got), a.expect().out, s.vDim, limit,
		axisOf{"token", s.tokens()}, axisOf{"head", s.qHeads}))
}
