package kvcache

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/step"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Batch is one step: the sequences that get new tokens, or are queried, and the plan that serves
// all layers. It is made once and used again for every step, by one goroutine at
// a time. After the first steps a step allocates no Go memory, except that the lists of
// growing sequences (a few bytes a token) are enlarged now and then.
type Batch[B backend.Buffer] struct {
	pool           *Pool[B]
	step           step.Set[B]
	members        []member[B]
	state          stepState
	graph          captured
	written        []bool        // layers that got their rows in this step
	externalWrites bool          // kernels of the runner's own write, too: see Metadata
	moves          moves         // what became of the accepted nodes of trees
	spans          []prefix.Span // of an addition
	depths         []int         // of a tree's nodes
	joining        joining[B]
}

// member is what a batch knows of one of its step's entries.
type member[B backend.Buffer] struct {
	seq     *Sequence[B]
	draft   int  // how many of its last new tokens are a draft
	full    int  // entries of the prefix tree that its sequence fills when it is committed; 0: none to publish
	lead    int  // the member that its sequence has joined, +1; 0: none
	queried bool // the sequence gets no tokens, and other steps may read it, too
	ended   bool // by a draft or a tree: it gets no more tokens in this step
	silent  bool // its new tokens see later ones in a way that its prompt did not say: nobody is to find them
}

// leave lets go of the sequence, which is in the step no more.
func (m *member[B]) leave() {
	if m.queried {
		m.seq.queries--
	} else {
		m.seq.busy = false
	}
}

type stepState uint8

const (
	stepOpen     stepState = iota
	stepPlanning           // Plan is not done
	stepPlanned
	stepCommitted
	stepClosed
)

var stepNames = [...]string{
	"is not planned yet; Plan it first", "is being planned by another goroutine; wait for that",
	"is planned; commit or reset it first", "is committed; reset it first", "was closed",
}

// NewBatch returns an empty step.
func (p *Pool[B]) NewBatch() *Batch[B] {
	b := &Batch[B]{pool: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closedErr() != nil {
		b.state = stepClosed
		return b
	}
	b.step.Make(p.parts)
	b.step.Mass = p.cfg.Attention.Scores
	p.batches[b] = struct{}{}
	return b
}

func (b *Batch[B]) want(state stepState) error {
	if err := b.pool.closedErr(); err != nil {
		return err
	}
	if b.state != state {
		return ErrStep{Why: "the step " + stepNames[b.state]}
	}
	return nil
}

// closedErr is ErrClosed of a batch that was closed, or whose pool was, and ErrStep while Plan is not done. The caller holds
// the lock.
func (b *Batch[B]) closedErr() error {
	switch b.state {
	case stepClosed:
		return ErrClosed
	case stepPlanning:
		return b.want(stepOpen)
	}
	return b.pool.closedErr()
}

// AccumulateScores makes steps that are planned from now on able to return attention scores (LayerIO.Scores), or no
// longer able. It costs a second pass over the keys. It is on from the start with Attention.Scores; then the scores are
// added to the pool's when LayerIO.Scores is not set.
func (b *Batch[B]) AccumulateScores(on bool) { b.step.Mass = on }

// Tokens is the number of rows of q, k, v and out: the step's new tokens, and its queries without any. In steps of a
// fixed shape (FixShape) it counts all places, also empty ones: seqs times tokens.
func (b *Batch[B]) Tokens() int {
	if b.step.Steps == nil {
		return 0
	}
	return b.step.Rows()
}

// Planned reports whether the step takes Append and Attend: it is planned and not committed.
func (b *Batch[B]) Planned() bool { return b.state == stepPlanned && b.pool.closedErr() == nil }

// Reset empties the step. If it was not committed, the blocks that it took go back to the
// pool, and its sequences are as they were before.
func (b *Batch[B]) Reset() (err error) {
	defer naming("Batch.Reset", &err)
	b.pool.lock()
	defer b.pool.unlock()
	if err := b.closedErr(); err != nil {
		return err
	}
	return b.reset()
}

func (b *Batch[B]) reset() error {
	var err error
	if b.state == stepPlanned {
		err = b.step.Abandon()
	}
	for i := range b.members {
		if m := &b.members[i]; b.state != stepCommitted {
			m.leave()
			if m.lead > 0 {
				m.seq.part()
			}
		}
	}
	b.unjoin(nil)
	b.joining.any = false
	clear(b.members)
	b.members, b.state, b.moves = b.members[:0], stepOpen, movedNone
	b.step.Clear()
	return err
}

// Plan takes the blocks that the step's new tokens need, copies shared blocks that
// it writes into, divides the work of attention and uploads the index vectors, all on
// stream. With too few blocks it returns ErrOutOfBlocks. After any error the sequences
// are as before and the step can be planned again.
func (b *Batch[B]) Plan(stream backend.Stream) (err error) {
	defer naming("Batch.Plan", &err)
	if err := b.want(stepOpen); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream
	}
	if len(b.members) == 0 {
		return ErrStep{Why: "the step has no sequences; Add some first"}
	}
	if b.graph.graph != nil && b.graph.mass != b.step.Mass { // other sizes of what it was captured with
		if err := b.graph.forget(); err != nil { // waits for the device
			return err
		}
	}
	return b.pool.retry(func() error { return b.plan(stream) })
}

func (b *Batch[B]) plan(stream backend.Stream) error {
	p := b.pool
	if err := p.usable(); err != nil {
		return err
	}
	if err := b.want(stepOpen); err != nil {
		return err
	}
	b.unjoin(nil)
	b.step.Pinned = b.graph.graph != nil
	b.state = stepPlanning
	if err := b.step.Plan(stream); err != nil {
		b.state = stepOpen
		return err
	}
	b.written, b.externalWrites = slices.Grow(b.written[:0], p.cfg.Model.Layers)[:p.cfg.Model.Layers], false
	b.unwritten()
	b.state = stepPlanned
	return nil
}

// unwritten notes that no layer got its rows yet. Those without keys and values get none.
func (b *Batch[B]) unwritten() {
	for l := range b.written {
		b.written[l] = !b.pool.attends(l)
	}
}

// Commit ends the step: its tokens belong to their sequences from now on. The
// device may still be running the step; its blocks stay held until it is done. If a
// layer got no keys and values Commit returns ErrStep, unless the runner writes them
// with kernels of its own (see Metadata); so it does where nothing was said of a tree (see Accept).
func (b *Batch[B]) Commit() (err error) {
	defer naming("Batch.Commit", &err)
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	if err := b.complete(); err != nil {
		return err
	}
	if err := b.keep(); err != nil {
		return err
	}
	if err := cmp.Or(b.step.Leave(), b.quantize()); err != nil {
		return b.pool.observe(err)
	}
	return b.commit()
}

// moves is what became of the accepted nodes of trees.
type moves uint8

const (
	movedNone   moves = iota // nothing yet
	movedAll                 // they are where the sequence has them
	movedFailed              // of a commit that failed
)

// keep brings the accepted nodes together.
func (b *Batch[B]) keep() error {
	if !b.step.Trees() {
		return nil
	}
	if at := b.step.Undecided(); at >= 0 {
		return ErrStep{Why: fmt.Sprintf("nobody said what is right of the tree of the sequence that was added as number "+
			"%d; Accept a path first, which may be empty, or reset the step", at)}
	}
	switch b.moves {
	case movedAll:
		return nil
	case movedFailed:
		return ErrStep{Why: "the last Commit failed while it moved nodes of trees; reset the step"}
	}
	b.moves = movedFailed
	if err := b.step.Keep(); err != nil {
		return b.pool.observe(err)
	}
	for i := range b.members {
		if nodes, at, ok := b.step.Path(i); ok {
			b.members[i].seq.text.Pick(b.members[i].seq.Len()+at, nodes)
		}
	}
	b.moves = movedAll
	return nil
}

func (b *Batch[B]) commit() error {
	p := b.pool
	p.lock()
	defer p.unlock()
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	if err := cmp.Or(b.step.Rejoin(), b.orderKnown()); err != nil {
		return p.parts.Fences.Observe(err)
	}
	f, err := p.parts.Fences.Record(p.parts.BE, b.step.Stream)
	if err != nil {
		return p.parts.Fences.Observe(err)
	}
	defer p.parts.Fences.Drop(f.Hold()) // a block may be published and settled before anybody else holds it
	err = b.step.Commit(f)
	for i := range b.members {
		if failed := b.settle(i, f); err == nil {
			err = failed
		}
	}
	b.step.Used(f)
	b.state = stepCommitted
	return cmp.Or(err, p.parts.Reclaim())
}

// quantize quantizes in layers that the runner wrote with kernels of its own.
func (b *Batch[B]) quantize() error {
	for layer, written := range b.written {
		if !written {
			t, l := b.step.Of(layer)
			if err := t.QuantizeResidual(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// fills is what the member's sequence has to publish once entry i of the step is committed.
func (m *member[B]) fills(b *step.Set[B], i int) int {
	text, accepted := &m.seq.text, b.Len(i)-m.draft
	if b.New(i) == 0 || m.silent || !text.Due(accepted) {
		return 0
	}
	full := b.Publishes(i)
	if m.draft > 0 {
		full = text.Accepted(full, accepted)
	}
	if !m.seq.publishes(full) {
		return 0
	}
	return full
}

// orderKnown notes what the members publish, and puts the step's stream behind those that write the blocks which the
// step's sequences will have in the place of their own: who waits for this step's
// end waits for theirs.
func (b *Batch[B]) orderKnown() error {
	for i := range b.members {
		m := &b.members[i]
		if m.full = m.fills(&b.step, i); m.full == 0 {
			continue
		}
		at, tokens := m.seq.text.Pending(m.seq.runs.Entries(), m.full)
		if at.Private {
			continue
		}
		if err := b.pool.parts.Blocks.OrderKnown(at, tokens, b.step.Stream); err != nil {
			return err
		}
	}
	return nil
}

// lacks reports whether a layer has no rows of the step's new tokens yet.
func (b *Batch[B]) lacks(layer int) bool {
	return b.step.Writes() && !b.externalWrites && !b.written[layer]
}

// complete reports the first layer that a step with new tokens left out.
func (b *Batch[B]) complete() error {
	layer := slices.Index(b.written, false)
	if layer < 0 || !b.lacks(layer) {
		return nil
	}
	return ErrStep{Why: fmt.Sprintf("layer %d got no keys and values; Append to every layer, or reset the step", layer)}
}

// settle notes that the tokens of the step's entry i are the sequence's.
func (b *Batch[B]) settle(i int, f *residency.Fence) (err error) {
	m := &b.members[i]
	s := m.seq
	if tokens := b.step.New(i); tokens > 0 {
		s.fresh = false
		if b.step.Restores(i) {
			s.text.Requantize()
		}
		s.text.Grow(tokens, m.draft, m.silent)
		s.runs.Wrote(f, tokens)
		if m.full > 0 {
			err = s.publish(f, m.full)
		}
		for j := i + 1; b.joining.any && j < len(b.members); j++ { // before what they begin with is given up
			if b.members[j].lead == i+1 {
				err = cmp.Or(err, b.members[j].seq.runs.Adopt(&s.runs))
			}
		}
		if failed := s.runs.Slide(f); err == nil {
			err = failed
		}
		if c := s.coming; c != nil && c.Transfer.Meets() { // not after queries: other steps may read the sequence
			err = cmp.Or(err, s.meet(f))
		}
	}
	s.text.Computed(s.Len())
	s.runs.Used(f)
	m.leave()
	return err
}

// Close resets the step and frees its index vectors and its captured graph.
func (b *Batch[B]) Close() (err error) {
	defer naming("Batch.Close", &err)
	p := b.pool
	forgotten := b.graph.forget() // waits for the device
	p.lock()
	defer p.unlock()
	if err := b.closedErr(); err != nil {
		return err
	}
	err = cmp.Or(forgotten, b.reset())
	b.step.Used(nil)
	b.state = stepClosed
	delete(p.batches, b)
	_ = p.parts.Fences.Apart(func() error { b.step.Free(); return nil }) // the device waits as it must
	return err
}
