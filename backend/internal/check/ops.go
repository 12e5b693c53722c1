package check

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Append checks p against its buffers and caps.
func Append[B backend.Buffer](caps *backend.Caps, p *backend.AppendParams[B]) error {
	c := &checker{op: "append"}
	act := p.K.Buf.DType()
	c.format(caps, formatOf(act, &p.Cache))
	cache(c, caps, &p.Cache)
	slotwise(c, &p.Cache)
	c.least("tokens", p.Tokens, 0)
	c.least("query heads", p.QHeads, 0)
	if c.err != nil {
		return c.err
	}
	heads, dim, given := p.Cache.KVHeads, p.Cache.K.Dim, p.Cache.K.Dim
	if p.Cache.Latent {
		given -= p.Cache.V.Dim
	}
	kWidth, vWidth, qWidth := c.product("k", heads, given), c.product("v", heads, p.Cache.V.Dim), c.product("q", p.QHeads, dim)
	rows(c, "k", p.K, p.Tokens, kWidth, act)
	rows(c, "v", p.V, p.Tokens, vWidth, act)
	if p.QHeads > 0 {
		c.heads(p.QHeads, heads)
		rows(c, "q", p.Q, p.Tokens, qWidth, act)
		apart(c, "q", p.Q, qWidth, "k", p.K, kWidth, p.Tokens)
		apart(c, "q", p.Q, qWidth, "v", p.V, vWidth, p.Tokens)
	}
	operand(c, "slots", p.Slots, backend.I64, p.Tokens)
	if p.Rotary.Table.Set {
		rope(c, p.Rotary, &p.Cache)
		c.positive("rope magnitude", p.Rotary.Magnitude)
		required(c, "positions", p.Positions, backend.U32, p.Tokens)
	} else if p.Positions.Set {
		c.shape("positions: set without a rope table")
	}
	return c.err
}

// Plan checks the shape of a step.
func Plan(caps backend.Caps, s backend.AttendShape) error {
	c := &checker{op: "plan attend"}
	c.least("KV heads", s.KVHeads, 1)
	c.least("block size", s.BlockSize, 1)
	c.heads(s.QHeads, s.KVHeads)
	c.dims(&caps, s.KDim, s.VDim, s.Latent)
	if c.format(&caps, s.Format); s.Latent && s.Format.K != s.Format.V {
		c.shape("format: values of %s in latent keys of %s, need the same", s.Format.V, s.Format.K)
	}
	c.visibility(&caps, &sight{s.NonCausal, s.Window, s.SinkTokens, s.Chunk, s.Part, s.Residual, s.Views != nil, s.TreeWords})
	if len(s.ContextLens) != len(s.QueryLens) {
		c.shape("query lengths: %d sequences, need %d as in context lengths", len(s.QueryLens), len(s.ContextLens))
	}
	tokens := 0
	for _, n := range s.QueryLens {
		tokens = c.sum("query lengths", tokens, int(n))
	}
	c.least("tree words", s.TreeWords, 0)
	if s.Views != nil {
		views(c, &s, tokens)
	}
	c.volume("out", tokens, s.QHeads, max(s.KDim, s.VDim))
	c.least("fewest shared tokens", s.MinShared, 0)
	if s.Table != nil {
		table(c, &s)
	}
	return c.err
}

// table checks that a plan's table is long enough for the contexts.
func table(c *checker, s *backend.AttendShape) {
	c.least("table stride", s.TableStride, 1)
	if need := c.product("table", len(s.ContextLens), s.TableStride); len(s.Table) < need {
		c.shape("table: %d blocks, need %d for %d sequences of %d", len(s.Table), need, len(s.ContextLens), s.TableStride)
	}
	for i, n := range s.ContextLens {
		if c.err == nil && uint64(n) > uint64(s.TableStride)*uint64(s.BlockSize) {
			c.shape("table: sequence %d has %d tokens, a row of %d blocks of %d tokens has fewer", i, n, s.TableStride, s.BlockSize)
		}
	}
}

// Merge checks p against its buffers. No device does it for some sizes only.
func Merge[B backend.Buffer](_ *backend.Caps, p *backend.MergeParams[B]) error {
	c := &checker{op: "merge"}
	c.least("parts", p.Parts, 1)
	c.least("tokens", p.Tokens, 0)
	c.least("heads", p.Heads, 1)
	c.least("dim", p.Dim, 1)
	act, in := p.Out.Buf.DType(), p.In.DType()
	if !act.Float() {
		c.shape("out: elements are %s, need f32, f16 or bf16", act)
	}
	if in != act && in != backend.F32 {
		c.shape("in: elements are %s, need %s or f32", in, act)
	}
	if c.err != nil {
		return c.err
	}
	width, size := c.product("out", p.Heads, p.Dim), c.volume("in", p.Parts, p.Tokens, p.Heads, p.Dim)
	rows(c, "out", p.Out, p.Tokens, width, act)
	operand(c, "in", p.In, in, size)
	operand(c, "log-sum-exp", p.LSE, backend.F32, c.volume("log-sum-exp", p.Parts, p.Tokens, p.Heads))
	optional(c, "out log-sum-exp", p.OutLSE, backend.F32, c.product("out log-sum-exp", p.Tokens, p.Heads))
	if p.Tokens > 0 && c.err == nil && any(p.Out.Buf) == any(p.In) && p.Out.Offset < size {
		c.shape("out: overlaps in")
	}
	return c.err
}

// Gather checks p against its buffers and caps.
func Gather[B backend.Buffer](caps *backend.Caps, p *backend.GatherParams[B]) error {
	c := &checker{op: "gather"}
	cache(c, caps, &p.Cache)
	c.least("table offset", p.TableOffset, 0)
	c.least("begin", p.Begin, 0)
	c.least("length", p.Len, 0)
	if c.err != nil {
		return c.err
	}
	end := c.sum("length", p.Begin, p.Len)
	switch {
	case p.Table.Set:
		blocks := end / p.Cache.BlockSize
		if end%p.Cache.BlockSize != 0 {
			blocks++
		}
		operand(c, "block table", p.Table.Buf, backend.U32, c.sum("block table", p.TableOffset, blocks))
	case p.TableOffset >= p.Cache.Blocks:
		c.shape("table offset: block %d without a block table, need one of %d", p.TableOffset, p.Cache.Blocks)
	case end > p.Cache.BlockSize:
		c.shape("length: tokens to %d without a block table, need at most the block's %d", end, p.Cache.BlockSize)
	}
	gathered(c, "k", p.K, &p.Cache, p.Cache.K.Data.DType(), p.Cache.K.Dim, p.Len)
	gathered(c, "v", p.V, &p.Cache, valueType(&p.Cache), p.Cache.V.Dim, p.Len)
	mass(c, "cache scores", p.CacheScores, &p.Cache)
	if c.least("scores offset", p.ScoresOffset, 0); p.Scores.Set && c.err == nil {
		if !p.CacheScores.Set {
			c.shape("scores: set without cache scores")
		}
		operand(c, "scores", p.Scores.Buf, backend.F32, c.sum("scores", p.ScoresOffset, c.product("scores", p.Cache.KVHeads, p.Len)))
	}
	return c.err
}

// ClearScores checks p against its buffers. No device does it for some sizes only.
func ClearScores[B backend.Buffer](_ *backend.Caps, p *backend.ClearScoresParams[B]) error {
	c := &checker{op: "clear scores"}
	c.least("blocks", p.Blocks, 1)
	c.least("KV heads", p.KVHeads, 1)
	c.least("block size", p.BlockSize, 1)
	c.least("slots", p.N, 0)
	operand(c, "attention scores", p.Scores, backend.F32, c.volume("attention scores", p.Blocks, p.KVHeads, p.BlockSize))
	operand(c, "slots", p.Slots, backend.I64, p.N)
	return c.err
}

// gathered checks a destination: what is stored, bit for bit, or f32.
func gathered[B backend.Buffer](c *checker, name string, o backend.Opt[B], v *backend.CacheView[B], dt backend.DType, dim, n int) {
	if !o.Set {
		return
	}
	if o.Buf.DType() == backend.F32 {
		dt = backend.F32
	} else if dt.Quantized() {
		c.unsupported("%s of %s in its storage type; gather it as f32", name, dt)
	}
	operand(c, name, o.Buf, dt, c.volume(name, v.KVHeads, n, dim))
}

// CopyBlocks checks p against its buffers and caps.
func CopyBlocks[B backend.Buffer](caps *backend.Caps, p *backend.CopyBlocksParams[B]) error {
	c := &checker{op: "copy blocks"}
	cache(c, caps, &p.From)
	cache(c, caps, &p.To)
	from, to := &p.From, &p.To
	sameBlocks(c, from, to)
	if p.ScoresOnly {
		if !p.FromScores.Set {
			c.shape("attention scores: missing, and nothing else is to be copied")
		}
	} else if from.K.Data.DType() != to.K.Data.DType() || valueType(from) != valueType(to) || from.K.Hadamard != to.K.Hadamard {
		c.shape("caches: %s in one, %s in the other, need equal ones; convert the blocks", holding(from), holding(to))
	}
	masses(c, p.FromScores, p.ToScores, from, to)
	pairs(c, p.Pairs, backend.U32, p.N)
	return c.err
}

// holding is what a cache has, in words.
func holding[B backend.Buffer](v *backend.CacheView[B]) string {
	turned := ""
	if v.K.Hadamard {
		turned = "turned "
	}
	return fmt.Sprintf("%skeys of %s and values of %s", turned, v.K.Data.DType(), valueType(v))
}

// sameBlocks checks that blocks of two caches have the same rows.
func sameBlocks[B backend.Buffer](c *checker, from, to *backend.CacheView[B]) {
	if from.KVHeads != to.KVHeads || from.BlockSize != to.BlockSize || from.K.Dim != to.K.Dim || from.V.Dim != to.V.Dim {
		c.shape("caches: blocks [%d, %d, %d+%d] and [%d, %d, %d+%d], need equal ones", from.KVHeads, from.BlockSize, from.K.Dim, from.V.Dim,
			to.KVHeads, to.BlockSize, to.K.Dim, to.V.Dim)
	}
	if from.Latent != to.Latent {
		c.shape("caches: one is latent and the other is not")
	}
}

// masses checks the attention scores of two caches' slots, which both have or none.
func masses[B backend.Buffer](c *checker, fromMass, toMass backend.Opt[B], from, to *backend.CacheView[B]) {
	if fromMass.Set != toMass.Set {
		c.shape("attention scores: of one cache, need that of both or none")
	}
	mass(c, "from scores", fromMass, from)
	mass(c, "to scores", toMass, to)
}

// MoveSlots checks p against its buffers and caps.
func MoveSlots[B backend.Buffer](caps *backend.Caps, p *backend.MoveSlotsParams[B]) error {
	c := &checker{op: "move slots"}
	cache(c, caps, &p.Cache)
	slotwise(c, &p.Cache)
	mass(c, "attention scores", p.Scores, &p.Cache)
	pairs(c, p.Pairs, backend.I64, p.N)
	return c.err
}

func pairs[B backend.Buffer](c *checker, b B, dt backend.DType, n int) {
	c.least("pairs", n, 0)
	operand(c, "pairs", b, dt, c.product("pairs", max(n, 0), 2))
}

// mass checks the attention scores of a cache's slots.
func mass[B backend.Buffer](c *checker, name string, o backend.Opt[B], v *backend.CacheView[B]) {
	if o.Set {
		operand(c, name, o.Buf, backend.F32, c.volume(name, v.Blocks, v.KVHeads, v.BlockSize))
	}
}

// ConvertBlocks checks p against its buffers and caps.
func ConvertBlocks[B backend.Buffer](caps *backend.Caps, p *backend.ConvertBlocksParams[B]) error {
	c := &checker{op: "convert blocks"}
	cache(c, caps, &p.From)
	cache(c, caps, &p.To)
	pairs(c, p.Pairs, backend.U32, p.N)
	if c.err != nil {
		return c.err
	}
	from, to := &p.From, &p.To
	sameBlocks(c, from, to)
	masses(c, p.FromScores, p.ToScores, from, to)
	if p.FromScores.Set && any(p.FromScores.Buf) == any(p.ToScores.Buf) {
		c.shape("attention scores: of both caches in one buffer")
	}
	plain, packed := from, to
	if from.K.Data.DType().Quantized() {
		plain, packed = to, from
	}
	act := plain.K.Data.DType()
	if !act.Float() || valueType(plain) != act || !packed.K.Data.DType().Quantized() || !valueType(packed).Quantized() {
		c.unsupported("%s and %s to %s and %s; one cache is of one activation type, the other quantized",
			from.K.Data.DType(), valueType(from), to.K.Data.DType(), valueType(to))
	}
	c.format(caps, formatOf(act, packed))
	return c.err
}

// Rotate checks p against its buffers and caps.
func Rotate[B backend.Buffer](caps *backend.Caps, p *backend.RotateParams[B]) error {
	c := &checker{op: "rotate"}
	cache(c, caps, &p.Cache)
	slotwise(c, &p.Cache)
	c.least("slots", p.N, 0)
	operand(c, "slots", p.Slots, backend.I64, p.N)
	operand(c, "deltas", p.Deltas, backend.I32, p.N)
	rope(c, p.Rotary, &p.Cache)
	return c.err
}
