package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// smallCache is a filled cache of four blocks with attention scores.
func (r *rig[B]) smallCache(f backend.Format) *cache[B] {
	return kind[B]{format: func(*rig[B]) backend.Format { return f }}.cache(r)
}

// cache is a smallCache of a kind.
func (in kind[B]) cache(r *rig[B]) *cache[B] {
	kDim, vDim := r.dimsOf(in.latent, 64, in.values(64))
	c := r.cacheOf(in.latent, geometry{2, r.blockSize(16), 4, kDim, vDim, in.format(r)}).fill(r)
	c.addMass(r)
	return c
}

// values is the value dim beside a key dim: something is left to be rotated.
func (in kind[B]) values(kDim int) int {
	if in.latent {
		return kDim - 16
	}
	return kDim
}

// gatherable is a type as which a plane can be gathered.
func gatherable(dt backend.DType) backend.DType {
	if dt.Quantized() {
		return backend.F32
	}
	return dt
}

func mergeOperation[B backend.Buffer]() operation[B, backend.MergeParams[B]] {
	return operation[B, backend.MergeParams[B]]{
		name: "merge",
		good: func(r *rig[B]) backend.MergeParams[B] {
			const parts, tokens, heads = 3, 4, 2
			_, dim := r.dims(64, 64)
			act := r.plain().Act
			lse := r.region("log-sum-exp", backend.F32, 0, parts*tokens*heads)
			lse.set(0, encode(backend.F32, r.normal(lse.n)))
			return backend.MergeParams[B]{Parts: parts, Tokens: tokens, Heads: heads, Dim: dim, LSE: lse.buf,
				In:     r.vectors("parts", act, parts*tokens, heads*dim, false).fill(r).buf,
				Out:    r.vectors("merged", act, tokens, heads*dim, false).rows(),
				OutLSE: backend.Some(r.region("merged log-sum-exp", backend.F32, 0, tokens*heads).buf)}
		},
		call: func(r *rig[B], p backend.MergeParams[B]) error { return r.be.Merge(r.s, p) },
	}
}

func mergeSpoils[B backend.Buffer]() []spoil[B, backend.MergeParams[B]] {
	type params = backend.MergeParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }

	for name, n := range map[string]int{"negative": -1, "too many": 1000, "overflowing": math.MaxInt} {
		plain(name+" parts", func(p *params) { p.Parts = n })
		plain(name+" tokens", func(p *params) { p.Tokens = n })
		plain(name+" heads", func(p *params) { p.Heads = n })
		plain(name+" dims", func(p *params) { p.Dim = n * 16 })
	}
	plain("no parts", func(p *params) { p.Parts = 0 })
	plain("no heads", func(p *params) { p.Heads = 0 })
	plain("no dims", func(p *params) { p.Dim = 0 })
	plain("no input", func(p *params) { p.In = none })
	plain("no log-sum-exp", func(p *params) { p.LSE = none })
	add("input that is too short", func(r *rig[B], p *params) { p.In = r.exact("short input", p.In.DType(), p.In.Len()-guard-1).buf })
	add("input of an index type", func(r *rig[B], p *params) { p.In = r.region("index input", backend.U32, 0, p.In.Len()).buf })
	add("log-sum-exps that are too short", func(r *rig[B], p *params) {
		p.LSE = r.exact("short log-sum-exp", backend.F32, p.LSE.Len()-guard-1).buf
	})
	add("log-sum-exps of another type", func(r *rig[B], p *params) { p.LSE = r.region("f16", backend.F16, 0, p.LSE.Len()).buf })
	rowSpoils(add, "output", func(p *params) *backend.Rows[B] { return &p.Out })
	optSpoils(add, "merged log-sum-exp", func(p *params) *backend.Opt[B] { return &p.OutLSE })
	plain("output over its input", func(p *params) { p.Out = backend.Dense(p.In) })
	return out
}

func gatherOperation[B backend.Buffer](in kind[B]) operation[B, backend.GatherParams[B]] {
	return operation[B, backend.GatherParams[B]]{
		name: "gather" + in.name,
		good: func(r *rig[B]) backend.GatherParams[B] {
			c := in.cache(r)
			n := 2 * c.block
			return backend.GatherParams[B]{Cache: c.view(), Begin: 3, Len: n,
				Table: backend.Some(constant(r, "block table", backend.U32, []uint32{2, 0, 3}).buf),
				K:     backend.Some(r.region("gathered K", gatherable(c.format.K), 0, c.kvHeads*n*c.kDim).buf),
				V:     backend.Some(r.region("gathered V", gatherable(c.format.V), 0, c.kvHeads*n*c.vDim).buf)}
		},
		call: func(r *rig[B], p backend.GatherParams[B]) error { return r.be.Gather(r.s, p) },
	}
}

func gatherSpoils[B backend.Buffer]() []spoil[B, backend.GatherParams[B]] {
	type params = backend.GatherParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }

	plain("a negative begin", func(p *params) { p.Begin = -1 })
	plain("a begin that overflows", func(p *params) { p.Begin = math.MaxInt })
	plain("a negative length", func(p *params) { p.Len = -1 })
	plain("a length that overflows", func(p *params) { p.Len = math.MaxInt })
	plain("a negative table offset", func(p *params) { p.TableOffset = -1 })
	plain("a table offset beyond the table", func(p *params) { p.TableOffset = 1000 })
	plain("a block that there is not", func(p *params) { p.Table, p.TableOffset, p.Begin, p.Len = backend.Opt[B]{}, 4, 0, 1 })
	plain("a range beyond its block", func(p *params) { p.Table = backend.Opt[B]{} })
	plain("no buffer for the table", func(p *params) { p.Table.Buf = none })
	plain("no buffer for K", func(p *params) { p.K.Buf = none })
	plain("no buffer for V", func(p *params) { p.V.Buf = none })
	add("a table that is too short", func(r *rig[B], p *params) { p.Table.Buf = r.exact("short table", backend.U32, 2).buf })
	add("a table of another type", func(r *rig[B], p *params) { p.Table.Buf = r.region("table of i64", backend.I64, 0, 3).buf })
	add("a destination that is too short", func(r *rig[B], p *params) {
		p.K.Buf = r.exact("short K", p.K.Buf.DType(), p.K.Buf.Len()-guard-1).buf
	})
	add("a destination of an index type", func(r *rig[B], p *params) {
		p.V.Buf = r.region("V of u32", backend.U32, 0, p.V.Buf.Len()).buf
	})
	return out
}

func copyOperation[B backend.Buffer](in kind[B]) operation[B, backend.CopyBlocksParams[B]] {
	return operation[B, backend.CopyBlocksParams[B]]{
		name: "copy blocks" + in.name,
		good: func(r *rig[B]) backend.CopyBlocksParams[B] {
			from, to := in.cache(r), in.cache(r)
			return backend.CopyBlocksParams[B]{From: from.view(), To: to.view(), FromScores: from.massOperand(), ToScores: to.massOperand(), N: 2,
				Pairs: constant(r, "pairs", backend.U32, []uint32{0, 2, 1, 3}).buf}
		},
		call: func(r *rig[B], p backend.CopyBlocksParams[B]) error { return r.be.CopyBlocks(r.s, p) },
	}
}

func copySpoils[B backend.Buffer]() []spoil[B, backend.CopyBlocksParams[B]] {
	type params = backend.CopyBlocksParams[B]
	out := pairSpoils(backend.U32, backend.I64, func(p *params) (*B, *int) { return &p.Pairs, &p.N })
	out = append(out, massSpoils("attention scores of the source", func(p *params) *backend.Opt[B] { return &p.FromScores })...)
	out = append(out, massSpoils("attention scores", func(p *params) *backend.Opt[B] { return &p.ToScores })...)
	for name, do := range map[string]func(p *params){
		"other heads":             func(p *params) { p.From.KVHeads = 1 },
		"another block size":      func(p *params) { p.To.BlockSize, p.To.Blocks = p.To.BlockSize/2, 2 },
		"another key dim":         func(p *params) { p.From.K.Dim /= 2 },
		"another value dim":       func(p *params) { p.To.V.Dim /= 2 },
		"mass of the source only": func(p *params) { p.ToScores = backend.Opt[B]{} },
		"nothing but mass, and none": func(p *params) {
			p.ScoresOnly, p.FromScores, p.ToScores = true, backend.Opt[B]{}, backend.Opt[B]{}
		},
		"mass without that of the source": func(p *params) { p.FromScores = backend.Opt[B]{} },
	} {
		out = append(out, spoil[B, params]{name, func(_ *rig[B], p *params) { do(p) }})
	}
	return append(out, spoil[B, params]{"a quantized cache and one that is not", func(r *rig[B], p *params) { p.From = r.smallCache(r.quantized()).view() }})
}

func moveOperation[B backend.Buffer](in kind[B]) operation[B, backend.MoveSlotsParams[B]] {
	return operation[B, backend.MoveSlotsParams[B]]{
		name: "move slots" + in.name,
		good: func(r *rig[B]) backend.MoveSlotsParams[B] {
			c := in.cache(r)
			return backend.MoveSlotsParams[B]{Cache: c.view(), Scores: c.massOperand(), N: 2,
				Pairs: constant(r, "pairs", backend.I64, []int64{0, 2, 1, 3}).buf}
		},
		call: func(r *rig[B], p backend.MoveSlotsParams[B]) error { return r.be.MoveSlots(r.s, p) },
	}
}

func moveSpoils[B backend.Buffer]() []spoil[B, backend.MoveSlotsParams[B]] {
	type params = backend.MoveSlotsParams[B]
	return append(pairSpoils(backend.I64, backend.U32, func(p *params) (*B, *int) { return &p.Pairs, &p.N }),
		massSpoils("attention scores", func(p *params) *backend.Opt[B] { return &p.Scores })...)
}

func massSpoils[B backend.Buffer, P any](of string, mass func(p *P) *backend.Opt[B]) []spoil[B, P] {
	var out []spoil[B, P]
	optSpoils(func(name string, do func(r *rig[B], p *P)) { out = append(out, spoil[B, P]{name, do}) }, of, mass)
	return out
}

// pairSpoils break a list of two pairs.
func pairSpoils[B backend.Buffer, P any](dt, other backend.DType, pairs func(p *P) (*B, *int)) []spoil[B, P] {
	count := func(n int) func(*rig[B], *P) {
		return func(_ *rig[B], p *P) {
			_, have := pairs(p)
			*have = n
		}
	}
	list := func(make func(r *rig[B]) B) func(*rig[B], *P) {
		return func(r *rig[B], p *P) {
			have, _ := pairs(p)
			*have = make(r)
		}
	}
	return []spoil[B, P]{
		{"a negative count", count(-1)},
		{"more pairs than there are", count(1000)},
		{"a count that overflows", count(math.MaxInt)},
		{"no pairs", list(func(*rig[B]) (none B) { return none })},
		{"pairs that are too short", list(func(r *rig[B]) B { return r.exact("short pairs", dt, 3).buf })},
		{"pairs of another type", list(func(r *rig[B]) B { return r.region("pairs of another type", other, 0, 4).buf })},
	}
}

func rotateOperation[B backend.Buffer](in kind[B]) operation[B, backend.RotateParams[B]] {
	return operation[B, backend.RotateParams[B]]{
		name: "rotate" + in.name,
		good: func(r *rig[B]) backend.RotateParams[B] {
			c := in.cache(r)
			return rotateParams(r, c, rotary{10000, c.kDim - c.behind(), backend.HalfSplit, 1}, []int64{1, 2, 3}, []int32{1, -1, 5})
		},
		call: func(r *rig[B], p backend.RotateParams[B]) error { return r.be.Rotate(r.s, p) },
	}
}

func rotateSpoils[B backend.Buffer]() []spoil[B, backend.RotateParams[B]] {
	type params = backend.RotateParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }

	plain("a negative count", func(p *params) { p.N = -1 })
	plain("more slots than there are", func(p *params) { p.N = 1000 })
	plain("a count that overflows", func(p *params) { p.N = math.MaxInt })
	plain("no slots", func(p *params) { p.Slots = none })
	plain("no deltas", func(p *params) { p.Deltas = none })
	plain("no rotation", func(p *params) { p.Rotary = backend.RotaryTable[B]{} })
	add("slots that are too short", func(r *rig[B], p *params) { p.Slots = r.exact("short slots", backend.I64, 2).buf })
	add("deltas that are too short", func(r *rig[B], p *params) { p.Deltas = r.exact("short deltas", backend.I32, 2).buf })
	add("slots of another type", func(r *rig[B], p *params) { p.Slots = r.region("slots of u32", backend.U32, 0, 3).buf })
	add("deltas of another type", func(r *rig[B], p *params) { p.Deltas = r.region("deltas of i64", backend.I64, 0, 3).buf })
	return out
}
