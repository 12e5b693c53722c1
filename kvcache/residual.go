package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// A pool with Config.Residual is two: its own blocks hold the older tokens of each
// sequence, quantized block by block, and those of a second pool its last ones as they
// came (KIVI, arXiv:2402.02750). A step writes to the second and attends to both; the
// two results are merged. Behind a step, blocks that have left the window are
// converted. Sequence.len counts the quantized tokens, Sequence.recent has the others.

// DefaultStepTokens is the most new tokens of a step with Config.Residual.
const DefaultStepTokens = 512

// residual is the configuration of the second pool.
func (c Config) residual() Config {
	r := c
	r.K, r.V, r.Residual, r.StepTokens, r.Saturate, r.KScales, r.VScales = c.Act, c.Act, 0, 0, false, nil, nil
	r.Blocks, r.Prefix = c.residualBlocks(), prefix.Off
	return r
}

// residualBlocks is what every sequence needs for its window, and two steps on their way.
func (c Config) residualBlocks() int {
	n, ok := backend.Mul(c.MaxSeqs, ceilDiv(c.Residual, c.BlockSize)+2)
	if !ok || n > maxSetting {
		return maxSetting
	}
	return n + 2*ceilDiv(c.StepTokens, c.BlockSize)
}

func (c Config) checkResidual() error {
	if c.K.Coding().Scope == backend.ByChannel && c.Residual == 0 {
		return ErrConfig{Name: "K", Value: c.K.String(), Why: "quantizes whole blocks; set Residual, the tokens that stay as they are until then"}
	}
	if c.Residual == 0 {
		if c.StepTokens != 0 {
			return badConfig("StepTokens", c.StepTokens, "applies with Residual only")
		}
		return nil
	}
	refuse := func(why string) error { return badConfig("Residual", c.Residual, why) }
	switch {
	case c.Layout != Paged:
		return refuse("applies to the paged layout only")
	case !c.K.Quantized() || !c.V.Quantized():
		return refuse(fmt.Sprintf("is for quantized keys and values; K is %s, V is %s", c.K, c.V))
	case c.Prefix != prefix.Off:
		return refuse("is not for reused prefixes: what a block holds depends on the steps that wrote it; set Prefix to prefix.Off")
	case len(c.SkipLayers) > 0:
		return refuse("goes with no SkipLayers")
	case c.Hadamard:
		return refuse("does not go with Hadamard")
	case c.Scores:
		return refuse("does not go with Scores")
	case c.Int8Query:
		return refuse("does not go with Int8Query")
	}
	for i, m := range c.Masks {
		if m.Window != 0 || m.SinkTokens != 0 || len(m.ALiBi) != 0 {
			return ErrConfig{Name: fmt.Sprintf("Masks[%d]", i), Value: "window or ALiBi", Why: "does not go with Residual, whose tokens lie in two places"}
		}
	}
	return nil
}

// tiers is what a step adds where tokens lie in two places.
type tiers[B backend.Buffer] struct {
	recent    *Batch[B] // the step's part in the second pool; nil: one place
	sealed    bool      // some sequence has quantized tokens
	pairs     vector[B, uint32]
	converted []block.Block
	results   backend.Opt[B]     // [2, tokens, query heads, value head dim], activation type
	lse       vector[B, float32] // [2, tokens, query heads]
}

// addRecent is add for both tiers. The caller holds the lock.
func (b *Batch[B]) addRecent(seq *Sequence[B], tokens []uint32, n int) error {
	cfg := &b.pool.cfg
	rows := n
	for i := range b.entries {
		rows += b.entries[i].tokens
	}
	switch {
	case n > cfg.Capacity-seq.Len():
		return ErrCapacity{Have: seq.Len() + n, Max: cfg.Capacity}
	case rows > cfg.StepTokens:
		return backend.ErrShape{Package: "kvcache", Op: "add", What: fmt.Sprintf("%d tokens: a step has at most Config.StepTokens, %d; cut the prompt", rows, cfg.StepTokens)}
	}
	return b.recent.add(seq.recent, tokens, n, true)
}

// settleTiers brings the step's sequences in order: what a Truncate left in the middle of a
// quantized block becomes exact memory again, and full blocks that have left the
// window are quantized.
func (b *Batch[B]) settleTiers() error {
	b.sealed = false
	for i := range b.entries {
		s := b.entries[i].seq
		err := b.unseal(s)
		if err == nil {
			err = b.seal(s)
		}
		if err != nil {
			return err
		}
		b.sealed = b.sealed || s.len > 0
	}
	return nil
}

// sealEarly quantizes behind a step what the next one of its sequences would, so that a
// sequence that waits does not hold exact memory beyond its window. What cannot be
// done now is tried again, and told, by that next step.
func (b *Batch[B]) sealEarly() {
	for i := range b.entries {
		if s := b.entries[i].seq; s.len%b.pool.cfg.slots() == 0 {
			_ = b.seal(s)
		}
	}
}

// seal quantizes the blocks of s that have left the window.
func (b *Batch[B]) seal(s *Sequence[B]) error {
	p, r := b.pool, s.recent
	n := (r.len - p.cfg.Residual) / p.cfg.slots()
	if n <= 0 {
		return nil
	}
	var err error
	claimed := s.claim.Blocks()
	if b.converted, err = s.take(b.converted[:0], n); err != nil {
		return err
	}
	if err := b.convert(s, p.recent, r.blocks[:n], p, b.converted); err != nil {
		return errors.Join(err, p.blocks.Retire(nil, b.converted), s.restore(claimed))
	}
	s.blocks = append(s.blocks, b.converted...)
	s.len += n * p.cfg.slots()
	p.logical += n
	p.recent.mu.Lock()
	defer p.recent.mu.Unlock()
	return r.dropFront(n)
}

// unseal brings the tokens of a last block that is not full back to the second pool.
func (b *Batch[B]) unseal(s *Sequence[B]) error {
	p, r := b.pool, s.recent
	rest := s.len % p.cfg.slots()
	if rest == 0 {
		return nil
	}
	p.recent.mu.Lock()
	defer p.recent.mu.Unlock()
	blocks, err := r.take(r.blocks[:0], 1) // what was behind is truncated, too
	if err != nil {
		return err
	}
	full := len(s.blocks) - 1
	if err := b.convert(s, p, s.blocks[full:], p.recent, blocks); err != nil {
		return errors.Join(err, p.recent.blocks.Retire(nil, blocks))
	}
	p.recent.logical++
	r.blocks, r.len, r.places = blocks, rest, places{next: s.len}
	s.len -= rest
	return s.giveBack(full)
}

// convert stores blocks of one pool as blocks of the other, in every layer, behind the
// last steps of the sequence, whose fence it moves. The caller holds p's lock.
func (b *Batch[B]) convert(s *Sequence[B], from *Pool[B], src []block.Block, to *Pool[B], dst []block.Block) error {
	p, host := b.pool, b.pairs.host[:0]
	for i := range src {
		host = append(host, src[i].ID, dst[i].ID)
	}
	b.pairs.host = host
	err := firstOf(s.fence.Order(b.stream), s.recent.fence.Order(b.stream))
	err = firstOf(err, b.fence.Order(b.stream)) // an earlier step may still read the pairs
	if err == nil {
		err = b.pairs.upload(p.be, b.stream)
	}
	for l := 0; l < len(p.layers) && err == nil; l++ {
		err = p.be.ConvertBlocks(b.stream, backend.ConvertBlocksParams[B]{
			From: from.layers[l].view, To: to.layers[l].view, Pairs: b.pairs.buf.Buf, N: len(src), Saturate: p.cfg.Saturate})
	}
	if err != nil {
		return errors.Join(p.blocks.Observe(err), residency.Drain(b.stream))
	}
	if err := s.touched(b.stream); err != nil {
		return err
	}
	s.recent.used(s.fence)
	b.used(s.fence) // whatever becomes of the step: the pairs may still be read
	return nil
}

// dropFront gives the first blocks back. Positions stay as they are.
func (s *Sequence[B]) dropFront(blocks int) error {
	p := s.pool
	p.logical -= blocks
	err := p.blocks.Retire(s.fence, s.blocks[:blocks])
	s.blocks = append(s.blocks[:0], s.blocks[blocks:]...)
	s.len -= blocks * p.cfg.slots()
	return err
}

// attendTiers attends to both tiers and merges.
func (b *Batch[B]) attendTiers(layer int, q backend.Rows[B], out backend.Outputs[B]) error {
	p := b.pool
	if out.Mass.Set || out.LSEOffset != 0 {
		return backend.ErrUnsupported{Package: "kvcache", Op: "attend", Why: "attention mass, or log-sum-exps with an offset, of a pool with Config.Residual"}
	}
	if !b.sealed {
		return b.recent.attend(layer, q, out)
	}
	rows, width := b.index.tokens()*p.cfg.QHeads, p.cfg.VHeadDim
	both := backend.Outputs[B]{Rows: backend.Dense(b.results.Buf), LSE: b.lse.buf}
	if err := b.recent.attend(layer, q, both); err != nil {
		return err
	}
	both.Rows.Offset, both.LSEOffset = rows*width, rows
	if err := b.attendOwn(layer, q, both); err != nil {
		return err
	}
	return b.enqueued(p.be.Merge(b.stream, backend.MergeParams[B]{
		Parts: 2, Tokens: b.index.tokens(), Heads: p.cfg.QHeads, Dim: width,
		In: b.results.Buf, LSE: b.lse.buf.Buf, Out: out.Rows, OutLSE: out.LSE}))
}

// fitTiers makes room for two results.
func (b *Batch[B]) fitTiers() error {
	p := b.pool
	rows := 2 * b.index.tokens() * p.cfg.QHeads
	if err := b.lse.fit(p.be, rows); err != nil {
		return err
	}
	if n := rows * p.cfg.VHeadDim; !b.results.Set || b.results.Buf.Len() < n {
		grown, err := p.be.Alloc(p.cfg.Act, n)
		if err != nil {
			return err
		}
		if b.results.Set {
			_ = p.be.Free(b.results.Buf) // ours and live
		}
		b.results = backend.Some(grown)
	}
	return nil
}

func (t *tiers[B]) free(be backend.Backend[B]) {
	t.pairs.free(be)
	t.lse.free(be)
	if t.results.Set {
		_ = be.Free(t.results.Buf) // ours and live
	}
}

// truncateTiers is Truncate where tokens lie in two places. What is cut off in the middle
// of a quantized block is seen to by the next step.
func (s *Sequence[B]) truncateTiers(n int) error {
	keep := max(n-s.len, 0)
	err := s.recent.Truncate(keep)
	s.recent.places.next = n
	if n < s.len {
		err = firstOf(err, s.giveBack(ceilDiv(n, s.pool.cfg.slots())))
		s.len = n
	}
	return err
}

// whole reports that an operation needs all tokens in one place.
func (s *Sequence[B]) whole(op string) error {
	if s.recent != nil {
		return twoTiers(op)
	}
	return nil
}

func twoTiers(op string) error {
	return backend.ErrUnsupported{Package: "kvcache", Op: op, Why: "with Config.Residual the last tokens lie in another place than the quantized ones"}
}
