package kvcache

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Batch is one step: the sequences that get new tokens and the plan that serves
// all layers. It is made once and used again for every step, by one goroutine at
// a time. A warm step allocates nothing, but for the lists that a growing sequence has on the
// host, of a few bytes a token, which become larger by a part of what they are.
type Batch[B backend.Buffer] struct {
	pool    *Pool[B]
	entries []entry[B]
	taken   []block.Block // of the fresh store, by all entries of the open step
	state   stepState
	stream  backend.Stream
	fence   *residency.Fence // of the last step: its index vectors may still be read
	mass    bool
	fixed   fixed
	writes  bool   // the step has new tokens
	written []bool // layers that got their rows in this step
	foreign bool   // kernels of the runner's own write, too: see Index
	index   index[B]
	sealing sealing[B]
}

// entry is one sequence of a step.
type entry[B backend.Buffer] struct {
	seq      *Sequence[B]
	tokens   int   // rows of this sequence in the step
	write    bool  // the rows are new; else they are the sequence's last ones
	fresh    owned // part of Batch.taken
	need     int   // blocks of it
	copies   bool  // the first block behind the restored ones replaces the shared block that the first row goes into
	restored int   // leading blocks that come before the segment's
	full     int   // leading blocks of the kept segment that stay
	kept     owned // part of sealing.taken: blocks behind those
}

type stepState uint8

const (
	stepOpen stepState = iota
	stepPlanned
	stepCommitted
	stepClosed
)

var stepNames = [...]string{"is not planned yet; Plan it first", "is planned; commit or reset it first", "is committed; reset it first", "was closed"}

// NewBatch returns an empty step.
func (p *Pool[B]) NewBatch() *Batch[B] {
	b := &Batch[B]{pool: p, mass: p.cfg.Scores}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut() != nil {
		b.state = stepClosed
	} else {
		p.batches[b] = struct{}{}
	}
	return b
}

func (b *Batch[B]) want(op string, state stepState) error {
	if err := b.pool.shut(); err != nil {
		return fmt.Errorf("kvcache: %s: %w", op, err)
	}
	if b.state != state {
		return ErrStep{Op: op, Why: "the step " + stepNames[b.state]}
	}
	return nil
}

// shut is ErrClosed of a batch that was closed, or whose pool was.
func (b *Batch[B]) shut() error {
	if b.state == stepClosed {
		return ErrClosed
	}
	return b.pool.shut()
}

// AccumulateMass says whether the steps planned from here on can return attention
// mass through AttendTo, which costs a second pass over the keys. With Config.Scores it is
// on from the start, and goes to the pool's scores where AttendTo names no place.
func (b *Batch[B]) AccumulateMass(on bool) { b.mass = on }

// Add gives seq new tokens in this step, at positions seq.Len() and on. Their rows
// in k, v, q and out follow those of the sequences added before. A sequence is in
// one open step at a time (ErrBusy), and its length at most the pool's capacity
// (ErrCapacity).
//
// A sequence that was opened with a prompt gets what is left of that first, in one step or
// several (ErrPrompt): after Open prompt[match.Matched:]. The tokens say what the keys and
// values will be: where prefixes are reused, blocks of equal tokens are taken to be equal,
// and one is kept.
func (b *Batch[B]) Add(seq *Sequence[B], tokens []uint32) error {
	return b.add(seq, tokens, len(tokens), true)
}

func (b *Batch[B]) add(seq *Sequence[B], tokens []uint32, n int, write bool) error {
	if err := b.want("add", stepOpen); err != nil {
		return err
	}
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case seq == nil:
		return backend.ErrShape{Package: "kvcache", Op: "add", What: "the sequence is nil; open one with Pool.Open"}
	case seq.pool != p:
		return fmt.Errorf("kvcache: add: %w", ErrForeign)
	case n <= 0:
		return backend.ErrShape{Package: "kvcache", Op: "add", What: "no tokens: a sequence without any is left out of the step"}
	}
	if err := seq.idle("add"); err != nil {
		return err
	}
	if write {
		if err := seq.continues(tokens); err != nil {
			return err
		}
	}
	switch {
	case write && n > p.cfg.Capacity-seq.len:
		return ErrCapacity{Have: seq.len + n, Max: p.cfg.Capacity}
	case write && p.rope.Table.Set && n > p.cfg.Capacity-seq.places.next:
		return ErrPosition{Position: seq.places.next + n - 1, Max: p.cfg.Capacity}
	case !write && n > seq.len:
		return backend.ErrShape{Package: "kvcache", Op: "attend", What: fmt.Sprintf("%d queries: the sequence has %d tokens", n, seq.len)}
	}
	if err := b.fixed.admits(len(b.entries), n); err != nil {
		return err
	}
	if write {
		seq.note(tokens)
	}
	b.entries = append(b.entries, entry[B]{seq: seq, tokens: n, write: write})
	seq.step = b
	return nil
}

// Reset empties the step. What an uncommitted one took goes back, and its
// sequences are as they were before.
func (b *Batch[B]) Reset() error {
	b.pool.lock()
	defer b.pool.unlock()
	if err := b.shut(); err != nil {
		return fmt.Errorf("kvcache: reset: %w", err)
	}
	return b.reset()
}

func (b *Batch[B]) reset() error {
	var err error
	if b.state == stepPlanned {
		err = b.abandon()
	}
	for i := range b.entries {
		if b.state != stepCommitted {
			b.entries[i].seq.step = nil
		}
	}
	clear(b.entries)
	b.entries, b.taken, b.sealing.taken, b.state = b.entries[:0], b.taken[:0], b.sealing.taken[:0], stepOpen
	return err
}

// Append writes the step's new keys [tokens, KV heads, head dim] and values
// [tokens, KV heads, value head dim], of the activation type, into a layer's cache. Where it is
// stored in another float type it is rounded, beyond the type's range to an infinity: 1e6 in
// f16, whose largest is 65504, makes NaN of attention. Quantized types refuse what is not finite,
// or saturate it (Config.Saturate).
// Keys are stored as they are: a runner that uses RoPE has rotated them. With
// Config.Hadamard the queries are needed, too: see AppendQueries.
func (b *Batch[B]) Append(layer int, k, v B) error {
	return b.AppendRows(layer, backend.Dense(k), backend.Dense(v))
}

// AppendRows is Append for rows that do not fill a buffer of their own: those of a
// fused projection [tokens, q+k+v] above all.
func (b *Batch[B]) AppendRows(layer int, k, v backend.Rows[B]) error {
	var p backend.AppendParams[B]
	if err := b.appendParams(&p, layer, k, v); err != nil {
		return err
	}
	return b.append(layer, &p)
}

// AppendQueries is Append for any configuration: q [tokens, query heads, head dim], which
// carries the rotary embedding as k does, is turned in place where Config.Hadamard turns
// the layer's keys, and is then what Attend takes.
func (b *Batch[B]) AppendQueries(layer int, q, k, v B) error {
	return b.AppendQueriesRows(layer, backend.Dense(q), backend.Dense(k), backend.Dense(v))
}

// AppendQueriesRows is AppendQueries for rows that do not fill a buffer of their own.
func (b *Batch[B]) AppendQueriesRows(layer int, q, k, v backend.Rows[B]) error {
	var p backend.AppendParams[B]
	if err := b.appendParams(&p, layer, k, v); err != nil {
		return err
	}
	return b.appendWith(layer, &p, q)
}

// AppendRotated is Append for a runner that leaves RoPE to the library: q and k
// come as projected; q [tokens, query heads, head dim] is rotated in place, k on
// its way into the cache.
func (b *Batch[B]) AppendRotated(layer int, q, k, v B) error {
	return b.AppendRotatedRows(layer, backend.Dense(q), backend.Dense(k), backend.Dense(v))
}

// AppendRotatedRows is AppendRotated for rows that do not fill a buffer of their own.
func (b *Batch[B]) AppendRotatedRows(layer int, q, k, v backend.Rows[B]) error {
	var p backend.AppendParams[B]
	if err := b.appendParams(&p, layer, k, v); err != nil {
		return err
	}
	if !b.pool.rope.Table.Set {
		return backend.ErrUnsupported{Package: "kvcache", Op: "append rotated", Why: "Config.RoPE is not set"}
	}
	p.Rope, p.Positions = b.pool.rope, b.index.positions.buf
	return b.appendWith(layer, &p, q)
}

// appendWith is append with queries beside the keys.
func (b *Batch[B]) appendWith(layer int, p *backend.AppendParams[B], q backend.Rows[B]) error {
	if err := b.pool.checkType("append", "q", q.Buf); err != nil {
		return err
	}
	p.QHeads, p.Q = b.pool.cfg.QHeads, q
	return b.append(layer, p)
}

func (b *Batch[B]) append(layer int, p *backend.AppendParams[B]) error {
	if p.Cache.K.Hadamard && p.QHeads == 0 {
		return backend.ErrUnsupported{Package: "kvcache", Op: "append", Why: "Config.Hadamard turns the queries, too; use AppendQueries or AppendRotated"}
	}
	if err := b.pool.be.Append(b.stream, *p); err != nil {
		return b.enqueued(err)
	}
	if err := b.seal(layer); err != nil {
		return b.enqueued(err)
	}
	b.written[layer] = true
	return nil
}

// appendParams fills p, which is zero and, as all parameters, too large to be handed around.
func (b *Batch[B]) appendParams(p *backend.AppendParams[B], layer int, k, v backend.Rows[B]) error {
	if err := b.want("append", stepPlanned); err != nil {
		return err
	}
	if err := firstOf(b.pool.checkLayer("append", layer),
		firstOf(b.pool.checkType("append", "k", k.Buf), b.pool.checkType("append", "v", v.Buf))); err != nil {
		return err
	}
	p.Cache, p.Tokens, p.Slots = b.pool.fresh.layers[layer].view, b.index.tokens(), b.index.slots.buf.Buf
	p.K, p.V, p.Saturate = k, v, b.pool.cfg.Saturate
	return nil
}

// Attend computes a layer's attention for the step's queries [tokens, query heads,
// head dim] over all tokens of their sequences, the step's own included, into out
// [tokens, query heads, value head dim]. Both are of the activation type and may not
// overlap. Of several new tokens of a sequence each sees those before it, so a draft
// of k tokens is verified in one step. A layer that did not get the step's keys and values
// is ErrStep, unless the runner writes by itself (see Index).
func (b *Batch[B]) Attend(layer int, q, out B) error {
	return b.AttendTo(layer, backend.Dense(q), backend.Outputs[B]{Rows: backend.Dense(out)})
}

// AttendTo is Attend for rows that do not fill a buffer of their own, and with more
// outputs: the log-sum-exp of each row and, after AccumulateMass, the attention
// mass of each slot.
func (b *Batch[B]) AttendTo(layer int, q backend.Rows[B], out backend.Outputs[B]) error {
	if err := b.want("attend", stepPlanned); err != nil {
		return err
	}
	return b.attend(layer, q, out)
}

func (b *Batch[B]) attend(layer int, q backend.Rows[B], out backend.Outputs[B]) error {
	p := b.pool
	if err := firstOf(p.checkLayer("attend", layer),
		firstOf(p.checkType("attend", "q", q.Buf), p.checkType("attend", "out", out.Rows.Buf))); err != nil {
		return err
	}
	if b.lacks(layer) {
		return ErrStep{Op: "attend", Why: fmt.Sprintf("layer %d has no keys and values of the step's tokens; Append to it first", layer)}
	}
	if p.windowed() {
		return b.attendBoth(layer, q, out)
	}
	return b.attendTo(p.fresh, &b.index.fresh, layer, q, out)
}

// attendTo attends to what lies in a store.
func (b *Batch[B]) attendTo(st *store[B], part *partial[B], layer int, q backend.Rows[B], out backend.Outputs[B]) error {
	p := b.pool
	l := &st.layers[layer]
	d := &part.divisions[l.format]
	scored := b.mass && d.plan.Mass && !out.Mass.Set && l.scores.Set
	if scored {
		out.Mass = l.scores
		p.scoring.Lock() // steps of forks add to the same slots: on the host, where Attend is done when it returns, one after another
	}
	err := p.be.Attend(b.stream, backend.AttendParams[B]{
		Cache: l.view, Batch: b.index.ragged(part),
		Q: q, QHeads: p.cfg.QHeads, Scale: p.cfg.Scale, Mask: l.mask, Out: out,
		Plan: d.plan, Work: d.work.buf, Workspace: b.index.workspace.buf, Int8Query: p.cfg.Int8Query && st.formats[l.format].K.Quantized(),
	})
	if scored {
		p.scoring.Unlock()
	}
	return b.enqueued(err)
}

// enqueued passes on the backend's answer and notes a lost device or a closed pool.
func (b *Batch[B]) enqueued(err error) error { return b.pool.met(err) }

// Commit ends the step: its tokens belong to their sequences from here on. The
// device may still be at work; what it reads stays held until it is done. A step
// in which a layer got no keys and values is ErrStep, unless the runner writes by
// itself (see Index).
func (b *Batch[B]) Commit() error {
	p := b.pool
	p.lock()
	defer p.unlock()
	if err := firstOf(b.want("commit", stepPlanned), b.complete()); err != nil {
		return err
	}
	if err := b.orderKnown(); err != nil {
		return p.fences.Observe(err)
	}
	f, err := p.fences.Record(p.be, b.stream)
	if err != nil {
		return p.fences.Observe(err)
	}
	defer p.fences.Drop(f.Hold()) // a block may be published and settled before anybody else holds it
	for i := range b.entries {
		err = firstOf(err, b.entries[i].commit(f))
	}
	b.used(f)
	b.state = stepCommitted
	return firstOf(err, p.reclaim())
}

// lacks reports whether a layer has no rows of the step's new tokens yet.
func (b *Batch[B]) lacks(layer int) bool { return b.writes && !b.foreign && !b.written[layer] }

// complete reports the first layer that a step with new tokens left out.
func (b *Batch[B]) complete() error {
	layer := slices.Index(b.written, false)
	if layer < 0 || !b.lacks(layer) {
		return nil
	}
	return ErrStep{Op: "commit", Why: fmt.Sprintf("layer %d got no keys and values; Append to every layer, or reset the step", layer)}
}

// commit hands the step's blocks to the sequence.
func (e *entry[B]) commit(f *residency.Fence) error {
	s := e.seq
	st, g := s.pool.fresh, s.fresh()
	var err error
	fresh := e.fresh.blocks
	if e.restored > 0 {
		g.blocks, g.gone = slices.Insert(g.blocks, 0, fresh[:e.restored]...), g.gone-e.restored
		fresh = fresh[e.restored:]
		s.requantized()
	}
	if e.copies {
		at := s.len/s.pool.cfg.slots() - g.gone
		err = st.Retire(f, g.blocks[at:at+1]) // the step copies from it
		g.blocks[at], fresh = fresh[0], fresh[1:]
	}
	g.blocks = append(g.blocks, fresh...)
	st.logical += len(e.fresh.blocks)
	if e.copies {
		st.logical--
	}
	if e.write {
		s.len += e.tokens
		s.places.grow(e.tokens)
		if s.pool.windowed() {
			err = firstOf(err, e.commitKept(f))
		}
		err = firstOf(err, s.publish(f))
	}
	s.computed()
	s.used(f)
	s.step = nil
	return err
}

// used replaces the batch's fence by that of a later step.
func (b *Batch[B]) used(f *residency.Fence) {
	b.pool.fences.Replace(&b.fence, f)
}

// Close resets the step and frees its index vectors, and what was captured.
func (b *Batch[B]) Close() error {
	p := b.pool
	forgotten := b.fixed.forget() // waits for the device
	p.lock()
	defer p.unlock()
	if err := b.shut(); err != nil {
		return fmt.Errorf("kvcache: batch: %w", err)
	}
	err := firstOf(forgotten, b.reset())
	b.used(nil)
	b.index.free(p.be) // the device waits as it must
	b.sealing.free(p.be)
	b.state = stepClosed
	delete(p.batches, b)
	return err
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
