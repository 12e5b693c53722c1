package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// With Config.Residual the last tokens of a sequence are read as they were computed and those
// before as they are stored in few bits (KIVI, arXiv:2402.02750). Which those are is a function of
// the query's position alone, however a prompt is cut into steps: its edge, below. Steps write to
// the fresh store. A block that lies before the edge of some query of a step is quantized into the
// kept store in that step, layer by layer, behind what Append writes and before Attend reads it,
// and becomes the sequence's with Commit. The fresh store gives a block up one block's tokens later,
// so that a rejected draft finds what its queries saw. Who goes back further, or begins with what
// others left, has the window's tokens in few bits only: the next step brings those back.

// DefaultStepTokens is the new tokens of a step that Config.Residual makes room for.
const DefaultStepTokens = 512

// edge is the number of leading blocks that the query at a position reads quantized.
func (c *Config) edge(position int) int { return max(position+1-c.Residual, 0) / c.slots() }

// windowBlocks is what a sequence has of the fresh store while it grows token by token: the window, a
// block that is not whole, and one more for drafts.
func (c *Config) windowBlocks() int {
	return min(ceilDiv(c.Residual, c.BlockSize)+2, ceilDiv(c.Capacity, c.BlockSize))
}

// windowed reports whether sequences lie in two stores.
func (p *Pool[B]) windowed() bool { return p != nil && p.kept != p.fresh }

// residual is the configuration of the fresh store.
func (c Config) residual() Config {
	c.Blocks = c.residualBlocks()
	c.Residual, c.StepTokens = 0, 0
	c.K, c.V, c.SkipLayers, c.Saturate, c.KScales, c.VScales = c.Act, c.Act, nil, false, nil, nil
	return c
}

// residualBlocks is what every sequence needs for its window, and two steps on their way.
func (c Config) residualBlocks() int {
	n, ok := backend.Mul(c.MaxSeqs, c.windowBlocks())
	if !ok {
		return maxSetting
	}
	return min(n, maxSetting) + 2*min(ceilDiv(c.StepTokens, c.BlockSize), maxSetting-min(n, maxSetting))
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
	case c.Scores:
		return refuse("does not go with Scores")
	}
	return nil
}

// split makes attention to the kept store that to older tokens, and attention to the fresh one that
// to recent ones, which a sink logit counts with, once. One turn of the queries is for both.
func (p *Pool[B]) split() {
	for l := range p.fresh.layers {
		older, recent := &p.kept.layers[l].mask, &p.fresh.layers[l].mask
		older.Part, older.Recent, older.SinkLogits = backend.OlderKeys, p.cfg.Residual, backend.Opt[B]{}
		recent.Part, recent.Recent = backend.RecentKeys, p.cfg.Residual
		p.fresh.layers[l].view.K.Hadamard = p.kept.layers[l].view.K.Hadamard
	}
}

// sealing is what a step adds where tokens lie in two stores.
type sealing[B backend.Buffer] struct {
	taken    []block.Block      // of the kept store, by all entries
	older    bool               // some query reads quantized tokens
	sealed   vector[B, uint32]  // [blocks, 2]: what is quantized in the step
	restored vector[B, uint32]  // [blocks, 2]: what is brought back before it
	results  backend.Opt[B]     // [2, tokens, query heads, value head dim], activation type
	lse      vector[B, float32] // [2, tokens, query heads]
	merged   vector[B, float32] // [tokens, query heads]
}

// window decides what an entry brings back and what it keeps of the kept store.
func (e *entry[B]) window() {
	s, c := e.seq, &e.seq.pool.cfg
	e.kept = owned{claimed: s.kept.claim.Blocks()}
	e.restored = max(s.recent.gone-c.edge(e.context()-e.tokens), 0)
	e.full = min(len(s.kept.blocks), s.len/c.slots())
}

// seals is the number of blocks that an entry takes of the kept store.
func (e *entry[B]) seals() int {
	if !e.write {
		return 0
	}
	return max(e.seq.pool.cfg.edge(e.context()-1)-e.full, 0)
}

// takeKept takes the blocks that the step quantizes into.
func (b *Batch[B]) takeKept() error {
	p, t := b.pool, &b.sealing
	t.taken, t.older = t.taken[:0], b.fixed.seqs > 0
	need, err := p.kept.Fits(b.countSeals)
	if err != nil {
		return err
	}
	for i := range b.entries {
		e := &b.entries[i]
		t.older = t.older || p.cfg.edge(e.context()-1) > 0
		n := e.seals()
		if n == 0 {
			continue
		}
		had := len(t.taken)
		if t.taken, err = p.kept.Take(&e.seq.kept.claim, e.seq.root, t.taken, n); err != nil {
			return ofStep(err, need, had)
		}
	}
	at := 0
	for i := range b.entries {
		n := b.entries[i].seals()
		b.entries[i].kept.blocks = t.taken[at : at+n : at+n]
		at += n
	}
	return nil
}

// countSeals is how many blocks of the kept store the step needs, and how many of them are promised.
func (b *Batch[B]) countSeals() (need, promised int, err error) {
	for i := range b.entries {
		e := &b.entries[i]
		need, promised = need+e.seals(), promised+min(e.seals(), e.kept.claimed)
	}
	return need, promised, nil
}

// olderTable writes the entry's blocks of the kept store, as they will be once the step is committed.
func (e *entry[B]) olderTable(row []uint32) {
	n := ids(row, e.seq.kept.blocks[:e.full])
	n += ids(row[n:], e.kept.blocks)
	clear(row[n:])
}

// enqueueWindow brings back what the step's queries are to read exactly, and says what Append
// quantizes.
func (b *Batch[B]) enqueueWindow() error {
	p, t := b.pool, &b.sealing
	t.restored.host, t.sealed.host = t.restored.host[:0], t.sealed.host[:0]
	for i := range b.entries {
		e := &b.entries[i]
		first := e.seq.recent.gone - e.restored
		for j := range e.restored {
			t.restored.host = append(t.restored.host, e.seq.kept.blocks[first+j].ID, e.fresh.blocks[j].ID)
		}
		for j := range e.kept.blocks {
			t.sealed.host = append(t.sealed.host, e.block(e.full+j), e.kept.blocks[j].ID)
		}
	}
	for len(t.sealed.host) < 2*b.fixed.seqs*ceilDiv(b.fixed.tokens, p.cfg.slots()) { // in every step as many
		t.sealed.host = append(t.sealed.host, backend.NoBlock, 0)
	}
	if len(t.restored.host) > 0 {
		if err := t.restored.upload(p.be, b.stream); err != nil {
			return err
		}
		for l := range p.fresh.layers {
			if err := p.convert(b.stream, &p.kept.layers[l], &p.fresh.layers[l], &t.restored); err != nil {
				return err
			}
		}
	}
	if len(t.sealed.host) > 0 {
		if err := t.sealed.upload(p.be, b.stream); err != nil {
			return err
		}
	}
	return b.fitBoth()
}

// seal quantizes, in a layer that has the step's rows, the blocks that lie before the edge of some
// query.
func (b *Batch[B]) seal(layer int) error {
	if len(b.sealing.sealed.host) == 0 {
		return nil
	}
	return b.pool.convert(b.stream, &b.pool.fresh.layers[layer], &b.pool.kept.layers[layer], &b.sealing.sealed)
}

// convert stores blocks of a layer in another store.
func (p *Pool[B]) convert(s backend.Stream, from, to *layer[B], pairs *vector[B, uint32]) error {
	if from.view.K.Data.DType() == to.view.K.Data.DType() { // a layer that is not quantized: see Config.SkipLayers
		return p.be.CopyBlocks(s, backend.CopyBlocksParams[B]{
			From: from.view, To: to.view, FromMass: from.scores, ToMass: to.scores, Pairs: pairs.buf.Buf, N: len(pairs.host) / 2})
	}
	return p.be.ConvertBlocks(s, backend.ConvertBlocksParams[B]{
		From: from.view, To: to.view, FromMass: from.scores, ToMass: to.scores, Pairs: pairs.buf.Buf, N: len(pairs.host) / 2,
		Saturate: p.cfg.Saturate})
}

// commitKept hands what was quantized to the sequence, and gives up what no query will read
// exactly. The fence is the step's.
func (e *entry[B]) commitKept(f *residency.Fence) error {
	s, p := e.seq, e.seq.pool
	err := p.kept.cut(&s.kept, e.full, f) // a last block that is not full was brought back
	s.kept.blocks = append(s.kept.blocks, e.kept.blocks...)
	p.kept.logical += len(e.kept.blocks)
	return firstOf(err, p.fresh.drop(&s.recent, p.cfg.edge(s.len-1-p.cfg.slots()), f))
}

// requantized notes that the sequence goes on from tokens that were brought back: what it writes
// from here on is not what its tokens alone would say.
func (s *Sequence[B]) requantized() {
	if s.pool.tree != nil {
		s.fidelity |= prefix.Requantized
	}
}

// growth is the blocks to write to that a sequence needs to have so many tokens.
func (s *Sequence[B]) growth(tokens int) int {
	c := &s.pool.cfg
	blocks := ceilDiv(tokens, c.slots())
	if s.pool.windowed() {
		blocks = min(blocks, c.windowBlocks())
	}
	return blocks - len(s.fresh().blocks)
}

// promiseBoth is promise for sequences in two stores.
func (p *Pool[B]) promiseBoth(rs []Reservation[B], fresh []block.Reservation) error {
	kept, before := make([]block.Reservation, len(rs)), make([]int, len(rs))
	for i, r := range rs {
		before[i] = fresh[i].Claim.Blocks()
		kept[i] = block.Reservation{Claim: &r.Seq.kept.claim, Blocks: max(p.cfg.edge(r.Tokens-1)-r.Seq.full(), 0)}
		r.Seq.recent.reserved = true
	}
	if err := p.fresh.Reserve(fresh); err != nil {
		return err
	}
	err := p.kept.Reserve(kept)
	for i := range fresh {
		if err == nil {
			break
		}
		p.fresh.Cancel(fresh[i].Claim)
		_ = p.fresh.Restore(fresh[i].Claim, before[i]) // there is room for what was promised
	}
	return err
}

// attendBoth attends to both stores and merges.
func (b *Batch[B]) attendBoth(layer int, q backend.Rows[B], out backend.Outputs[B]) error {
	p, t := b.pool, &b.sealing
	if out.Mass.Set {
		return backend.ErrUnsupported{Package: "kvcache", Op: "attend", Why: "attention mass of a pool with Config.Residual"}
	}
	if !t.older {
		return b.attendTo(p.fresh, &b.index.fresh, layer, q, out)
	}
	rows, width := b.index.tokens()*p.cfg.QHeads, p.cfg.VHeadDim
	half := backend.Outputs[B]{Rows: backend.Dense(t.results.Buf), LSE: t.lse.buf}
	if err := b.attendTo(p.fresh, &b.index.fresh, layer, q, half); err != nil {
		return err
	}
	half.Rows.Offset, half.LSEOffset = rows*width, rows
	if err := b.attendTo(p.kept, &b.index.kept, layer, q, half); err != nil {
		return err
	}
	merge := backend.MergeParams[B]{
		Parts: 2, Tokens: b.index.tokens(), Heads: p.cfg.QHeads, Dim: width,
		In: t.results.Buf, LSE: t.lse.buf.Buf, Out: out.Rows, OutLSE: out.LSE}
	apart := out.LSE.Set && out.LSEOffset != 0
	if apart { // Merge writes from the first element on
		merge.OutLSE = t.merged.buf
	}
	err := p.be.Merge(b.stream, merge)
	if err == nil && apart {
		err = p.be.Copy(b.stream, out.LSE.Buf, out.LSEOffset, t.merged.buf.Buf, 0, rows)
	}
	return b.enqueued(err)
}

// fitBoth makes room for two results.
func (b *Batch[B]) fitBoth() error {
	p, t := b.pool, &b.sealing
	rows := b.index.tokens() * p.cfg.QHeads
	if err := firstOf(t.lse.fit(p.be, 2*rows), t.merged.fit(p.be, rows)); err != nil {
		return err
	}
	if n := 2 * rows * p.cfg.VHeadDim; !t.results.Set || t.results.Buf.Len() < n {
		grown, err := p.be.Alloc(p.cfg.Act, n)
		if err != nil {
			return err
		}
		if t.results.Set {
			_ = p.be.Free(t.results.Buf) // ours and live
		}
		t.results = backend.Some(grown)
	}
	return nil
}

func (t *sealing[B]) free(be backend.Backend[B]) {
	t.sealed.free(be)
	t.restored.free(be)
	t.lse.free(be)
	t.merged.free(be)
	if t.results.Set {
		_ = be.Free(t.results.Buf) // ours and live
	}
}

// whole reports that an operation needs all tokens in one place.
func (s *Sequence[B]) whole(op string) error {
	if s.pool.windowed() {
		return twoPlaces(op)
	}
	return nil
}

func twoPlaces(op string) error {
	return backend.ErrUnsupported{Package: "kvcache", Op: op, Why: "with Config.Residual the last tokens lie in another place than the quantized ones"}
}
