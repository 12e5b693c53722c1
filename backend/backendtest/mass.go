package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// massChecks are about attention scores that lie in the cache: attend and move add to it and
// take it along.
func massChecks[B backend.Buffer]() []check[B] {
	clear, gather := clearOperation[B](), scoresOperation[B]()
	out := []check[B]{
		{"clear slots", func(r *rig[B]) { checkClear(r, 8, 6, 37) }},
		{"clear all slots of a contiguous cache", func(r *rig[B]) { checkClear(r, 61, 3, 183) }},
		{"clear many slots", func(r *rig[B]) { checkClear(r, 16, 80, 1100) }},
		{"clear no slots", func(r *rig[B]) { checkClear(r, 8, 2, 0) }},
		{"clear slots outside the cache", checkClearOutside[B]},
		{"gather of a sequence", func(r *rig[B]) { checkScores(r, 8, 0, 45, true, 0) }},
		{"gather from inside a block", func(r *rig[B]) { checkScores(r, 16, 13, 40, true, 7) }},
		{"gather of one token", func(r *rig[B]) { checkScores(r, 8, 31, 1, true, 1) }},
		{"gather of a contiguous sequence", func(r *rig[B]) { checkScores(r, 61, 2, 50, false, 3) }},
		{"gather of nothing", func(r *rig[B]) { checkScores(r, 8, 8, 0, true, 0) }},
		accepted(clear), accepted(gather),
	}
	out = append(out, refusals(clear, clearSpoils[B]())...)
	return append(out, refusals(gather, scoresSpoils[B]())...)
}

// massCache is a cache with attention scores.
func (r *rig[B]) massCache(block, blocks int) *cache[B] {
	kDim, vDim := r.dims(64, 64)
	c := r.cache(geometry{3, block, blocks, kDim, vDim, r.plain()})
	c.addMass(r)
	return c
}

func (c *cache[B]) clear(r *rig[B], slots []int64) backend.ClearScoresParams[B] {
	return backend.ClearScoresParams[B]{Scores: c.mass.buf, Blocks: c.blocks, KVHeads: c.kvHeads, BlockSize: c.block,
		Slots: constant(r, "slots", backend.I64, slots).buf, N: len(slots)}
}

// checkClear clears n of a cache's slots, in any order, and as many of those that are none.
func checkClear[B backend.Buffer](r *rig[B], block, blocks, n int) {
	c := r.massCache(block, blocks)
	var slots []int64
	for i, slot := range r.rng.Perm(c.slots())[:n] {
		slots = append(slots, int64(slot))
		if i%3 == 0 {
			slots = append(slots, -1)
		}
	}
	p := c.clear(r, slots)
	r.push()
	require.NoError(r, r.be.ClearScores(r.s, p))
	for _, slot := range slots {
		for head := 0; slot >= 0 && head < c.kvHeads; head++ {
			c.mass.put(int(slot), head, []float32{0})
		}
	}
	r.verify()
}

func checkClearOutside[B backend.Buffer](r *rig[B]) {
	c := r.massCache(8, 4)
	p := c.clear(r, outside(c.geometry))
	r.push()
	r.reported(r.be.ClearScores(r.s, p))
	r.verify()
}

// checkScores gathers the attention scores of n tokens from one on, into a buffer from an offset on.
func checkScores[B backend.Buffer](r *rig[B], block, begin, n int, table bool, offset int) {
	c := r.massCache(block, 8)
	order := r.rng.Perm(c.blocks)
	scores := r.region("scores", backend.F32, 0, offset+c.kvHeads*n)
	p := backend.GatherParams[B]{Cache: c.view(), Begin: begin, Len: n, CacheScores: c.massOperand(), Scores: backend.Some(scores.buf), ScoresOffset: offset}
	if table {
		ids := make([]uint32, len(order))
		for i, id := range order {
			ids[i] = uint32(id)
		}
		p.Table = backend.Some(constant(r, "block table", backend.U32, ids).buf)
	} else {
		p.TableOffset, order = order[0], order[:1]
	}
	r.push()
	require.NoError(r, r.be.Gather(r.s, p))
	for head := range c.kvHeads {
		for i := range n {
			token := begin + i
			slot := order[token/block]*block + token%block
			scores.set(offset+head*n+i, encode(backend.F32, c.mass.values(c.mass.now(), slot, head)))
		}
	}
	r.verify()
}

func checkWarmMass[B backend.Buffer](r *rig[B]) {
	cleared, gathered := clearOperation[B]().good(r), scoresOperation[B]().good(r)
	weighed := attendMassOperation(plainly[B]()).good(r)
	r.push()
	r.warm(map[string]func() error{
		"clear":  func() error { return r.be.ClearScores(r.s, cleared) },
		"attend": func() error { return r.be.AttendScores(r.s, weighed) },
		"scores": func() error { return r.be.Gather(r.s, gathered) },
	})
}

func clearOperation[B backend.Buffer]() operation[B, backend.ClearScoresParams[B]] {
	return operation[B, backend.ClearScoresParams[B]]{
		name: "clear scores",
		good: func(r *rig[B]) backend.ClearScoresParams[B] { return r.massCache(8, 4).clear(r, []int64{3, -1, 17}) },
		call: func(r *rig[B], p backend.ClearScoresParams[B]) error { return r.be.ClearScores(r.s, p) },
	}
}

func clearSpoils[B backend.Buffer]() []spoil[B, backend.ClearScoresParams[B]] {
	type params = backend.ClearScoresParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }
	for name, n := range map[string]int{"negative": -1, "too many": 1000, "overflowing": math.MaxInt} {
		plain(name+" blocks", func(p *params) { p.Blocks = n })
		plain(name+" KV heads", func(p *params) { p.KVHeads = n })
		plain(name+" slots of a block", func(p *params) { p.BlockSize = n })
		plain(name+" slots", func(p *params) { p.N = n })
	}
	plain("no blocks", func(p *params) { p.Blocks = 0 })
	plain("no attention scores", func(p *params) { p.Scores = none })
	plain("no list of slots", func(p *params) { p.Slots = none })
	add("attention scores that are too few", func(r *rig[B], p *params) {
		p.Scores = r.exact("short mass", backend.F32, p.Blocks*p.KVHeads*p.BlockSize-1).buf
	})
	add("attention scores of another type", func(r *rig[B], p *params) { p.Scores = r.region("mass of f16", backend.F16, 0, p.Scores.Len()).buf })
	add("slots that are too few", func(r *rig[B], p *params) { p.Slots = r.exact("short slots", backend.I64, 2).buf })
	add("slots of another type", func(r *rig[B], p *params) { p.Slots = r.region("slots of u32", backend.U32, 0, 3).buf })
	return out
}

func scoresOperation[B backend.Buffer]() operation[B, backend.GatherParams[B]] {
	return operation[B, backend.GatherParams[B]]{
		name: "gather scores",
		good: func(r *rig[B]) backend.GatherParams[B] {
			c := r.massCache(8, 4)
			return backend.GatherParams[B]{Cache: c.view(), Begin: 3, Len: 16, Table: backend.Some(constant(r, "block table", backend.U32, []uint32{2, 0, 3}).buf),
				CacheScores: c.massOperand(), ScoresOffset: 2, Scores: backend.Some(r.region("scores", backend.F32, 0, 2+c.kvHeads*16).buf)}
		},
		call: func(r *rig[B], p backend.GatherParams[B]) error { return r.be.Gather(r.s, p) },
	}
}

func scoresSpoils[B backend.Buffer]() []spoil[B, backend.GatherParams[B]] {
	type params = backend.GatherParams[B]
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	optSpoils(add, "attention scores", func(p *params) *backend.Opt[B] { return &p.CacheScores })
	optSpoils(add, "scores", func(p *params) *backend.Opt[B] { return &p.Scores })
	add("scores of no attention scores", func(_ *rig[B], p *params) { p.CacheScores = backend.Opt[B]{} })
	for name, n := range map[string]int{"negative": -1, "overflowing": math.MaxInt, "too large": 1000} {
		add("scores at a "+name+" offset", func(_ *rig[B], p *params) { p.ScoresOffset = n })
	}
	return out
}
