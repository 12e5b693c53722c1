package check

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// leastFactor bounds scale and soft-cap so that kernels may divide by them and fold
// constants into them without leaving f32.
const leastFactor = float32(1e-30)

// Attend checks p against its buffers and caps.
func Attend[B backend.Buffer](caps *backend.Caps, p *backend.AttendParams[B]) error {
	c := &checker{op: "attend"}
	if queries(c, caps, p); c.err != nil {
		return c.err
	}
	tokens, kWidth, vWidth := p.Batch.Tokens, p.QHeads*p.Cache.K.Dim, c.product("out", p.QHeads, p.Cache.V.Dim)
	rows(c, "out", p.Out.Rows, tokens, vWidth, p.Q.Buf.DType())
	apart(c, "out", p.Out.Rows, vWidth, "q", p.Q, kWidth, tokens)
	if out := any(p.Out.Rows.Buf); out == any(p.Cache.K.Data) || !p.Cache.Latent && out == any(p.Cache.V.Data) {
		c.shape("out: is memory of the cache")
	}
	beside(c, p)
	if work(c, p); p.Batch.Tokens == 0 {
		return c.err // nothing to do needs no plan
	}
	if c.least("plan workspace", p.Plan.Workspace, 0); p.Plan.Workspace > 0 {
		required(c, "workspace", p.Workspace, backend.F32, p.Plan.Workspace)
	}
	return c.err
}

// AttendScores checks p against its buffers and caps.
func AttendScores[B backend.Buffer](caps *backend.Caps, p *backend.AttendScoresParams[B]) error {
	c := &checker{op: "attend scores"}
	a := Weighed(p)
	if queries(c, caps, &a); c.err != nil {
		return c.err
	}
	beside(c, &a)
	if any(p.LSE) == any(p.Scores) {
		c.shape("log-sum-exp: is memory of the attention scores")
	}
	work(c, &a)
	return c.err
}

// Weighed is the attention whose mass a call adds, without rows and a workspace.
func Weighed[B backend.Buffer](p *backend.AttendScoresParams[B]) backend.AttendParams[B] {
	return backend.AttendParams[B]{Cache: p.Cache, Batch: p.Batch, Q: p.Q, QHeads: p.QHeads, Scale: p.Scale, Mask: p.Mask,
		Out:  backend.Outputs[B]{LSE: backend.Some(p.LSE), LSEOffset: p.LSEOffset, Scores: backend.Some(p.Scores)},
		Plan: p.Plan, Work: p.Work, Int8Query: p.Int8Query}
}

// queries checks what a call's queries are and which keys they see.
func queries[B backend.Buffer](c *checker, caps *backend.Caps, p *backend.AttendParams[B]) {
	act := p.Q.Buf.DType()
	c.format(caps, formatOf(act, &p.Cache))
	cache(c, caps, &p.Cache)
	c.heads(p.QHeads, p.Cache.KVHeads)
	batch(c, caps, &p.Batch, &p.Cache)
	c.positive("scale", p.Scale)
	see := sightOf(&p.Batch, &p.Mask)
	c.visibility(caps, &see)
	if m := p.Mask.SoftCap; !(m >= 0) || math.IsInf(float64(m), 0) || m > 0 && m < leastFactor {
		c.shape("soft-cap: have %v, need 0 or a finite number from %v", m, leastFactor)
	}
	if p.Scale > 1/leastFactor {
		c.shape("scale: have %v, need at most %v", p.Scale, 1/leastFactor)
	}
	optional(c, "ALiBi slopes", p.Mask.ALiBi, backend.F32, p.QHeads)
	optional(c, "sink logits", p.Mask.SinkLogits, backend.F32, p.QHeads)
	if c.err == nil {
		rows(c, "q", p.Q, p.Batch.Tokens, c.product("q", p.QHeads, p.Cache.K.Dim), act)
	}
	if k := p.Cache.K.Data.DType(); p.Int8Query && !slices.Contains(caps.Int8Query, k) {
		c.unsupported("queries rounded to int8 with keys of %s", k)
	}
}

// beside checks what a call has beside its rows.
func beside[B backend.Buffer](c *checker, p *backend.AttendParams[B]) {
	c.least("log-sum-exp offset", p.Out.LSEOffset, 0)
	if p.Out.LSE.Set && c.err == nil {
		operand(c, "log-sum-exp", p.Out.LSE.Buf, backend.F32,
			c.sum("log-sum-exp", p.Out.LSEOffset, c.product("log-sum-exp", p.Batch.Tokens, p.QHeads)))
	}
	mass(c, "attention scores", p.Out.Scores, &p.Cache)
	if p.Out.Scores.Set && !p.Plan.Scores {
		c.shape("plan: was not made for a call with attention scores")
	}
}

// work checks that a call brings the work that its plan asked for.
func work[B backend.Buffer](c *checker, p *backend.AttendParams[B]) {
	if p.Batch.Tokens == 0 {
		return
	}
	if p.Plan.Items < 1 {
		c.shape("plan: has no work for %d tokens; call PlanAttend for this batch", p.Batch.Tokens)
	}
	if len(p.Plan.Work) > 0 {
		required(c, "work", p.Work, backend.U32, len(p.Plan.Work))
	}
}

// batch checks the operands that name a call's sequences.
func batch[B backend.Buffer](c *checker, caps *backend.Caps, r *backend.Ragged[B], v *backend.CacheView[B]) {
	c.least("sequences", r.Seqs, 0)
	c.least("tokens", r.Tokens, 0)
	if c.err != nil {
		return
	}
	if r.Table.Set {
		c.least("table stride", r.TableStride, 1)
		required(c, "block table", r.Table, backend.U32, c.product("block table", r.Seqs, r.TableStride))
		if r.TableStride > 1 && !caps.SupportsBlockSize(v.BlockSize) {
			c.unsupported("a block table over blocks of %d slots: the device takes %s", v.BlockSize, blockSizes(caps))
		}
	} else if r.Seqs > v.Blocks {
		c.shape("sequences: %d without a block table, need at most the %d blocks", r.Seqs, v.Blocks)
	}
	operand(c, "context lengths", r.ContextLens, backend.U32, r.Seqs)
	if r.QueryOffsets.Set {
		operand(c, "query offsets", r.QueryOffsets.Buf, backend.U32, c.sum("query offsets", r.Seqs, 1))
	} else if r.Tokens != r.Seqs {
		c.shape("tokens: have %d without query offsets, need one for each of %d sequences", r.Tokens, r.Seqs)
	}
	if r.Views.Set {
		operand(c, "views", r.Views.Buf, backend.U32, c.product("views", r.Tokens, 2))
	}
	if r.Tree.Set {
		c.least("tree words", r.TreeWords, 1)
		operand(c, "tree", r.Tree.Buf, backend.U32, c.product("tree", r.Tokens, r.TreeWords))
	}
}

// blockSizes is what a device takes, in words.
func blockSizes(caps *backend.Caps) string {
	if caps.BlockSizes == nil {
		return "powers of two"
	}
	return fmt.Sprint("blocks of ", caps.BlockSizes)
}
