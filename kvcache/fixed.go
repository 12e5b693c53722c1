package kvcache

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// fixed is the size of all steps of a batch, and what was captured of one. No sequences: steps
// differ.
type fixed struct {
	seqs, tokens int
	graph        backend.Graph  // nil: nothing was captured
	stream       backend.Stream // that it was captured from
	mass         bool           // of the plan that it was captured with
}

// Fix makes all steps of b the same to the device: of seqs sequences with tokens new
// tokens each. What Append and Attend enqueue does then not change from step to step, so
// it can be captured once and replayed:
//
//	step.Fix(seqs, 1)
//	step.Add(seq, tokens)         // up to seqs sequences
//	step.Plan(stream)
//	step.Capture(func() error {   // once; runs nothing
//		… AppendRotated and Attend of each layer, between them the runner's own kernels …
//	})
//	step.Replay()                 // in every step
//	step.Commit()
//
// Where a step has fewer sequences, empty ones fill it up: their rows of q, k and v are read and
// used for nothing, those of out become zero. The rows of q, k, v and out stay in the same buffers.
//
// Index vectors and plans are as large as the longest contexts need, and uploaded whole in each
// step: seqs times the blocks of Config.Capacity for the tables. Common prefixes are read once only
// if Config.MinShared says for how many tokens. Prompts are steps of another batch.
//
// It is called between steps, and forgets what was captured; 0 sequences makes steps differ again.
// ErrShape where the pool cannot hold so many sequences.
func (b *Batch[B]) Fix(seqs, tokens int) error {
	if err := b.want("fix", stepOpen); err != nil {
		return err
	}
	c := &b.pool.cfg
	_, ok := backend.Mul(seqs, max(tokens, ceilDiv(c.Capacity, c.slots())))
	switch {
	case len(b.entries) > 0:
		return ErrStep{Op: "fix", Why: "the step has sequences; reset it first"}
	case seqs < 0 || seqs > c.Blocks || !ok:
		return backend.ErrShape{Package: "kvcache", Op: "fix", What: fmt.Sprintf("%d sequences, the pool has blocks for %d", seqs, c.Blocks)}
	case seqs > 0 && (tokens < 1 || tokens > c.Capacity):
		return backend.ErrShape{Package: "kvcache", Op: "fix", What: fmt.Sprintf("%d tokens of a sequence, need 1 to %d", tokens, c.Capacity)}
	}
	err := b.fixed.forget()
	b.fixed = fixed{seqs: seqs, tokens: tokens}
	return err
}

// forget gives back what was captured.
func (f *fixed) forget() error {
	if f.graph == nil {
		return nil
	}
	err := f.graph.Close()
	f.graph = nil
	if errors.Is(err, backend.ErrClosed) { // with its stream
		return nil
	}
	return err
}

// admits reports why a step of the batch cannot have n tokens of one more sequence.
func (f *fixed) admits(have, n int) error {
	switch {
	case f.seqs == 0:
		return nil
	case n != f.tokens:
		return backend.ErrShape{Package: "kvcache", Op: "add", What: fmt.Sprintf("%d tokens: the steps of this batch have %d of each sequence; see Fix", n, f.tokens)}
	case have == f.seqs:
		return backend.ErrShape{Package: "kvcache", Op: "add", What: fmt.Sprintf("a further sequence: the steps of this batch have %d; see Fix", f.seqs)}
	}
	return nil
}

// Capture records what layers enqueues for the planned step on its stream: Append and Attend of
// all layers, and the runner's own kernels. It takes the place of what was captured before. Nothing
// runs: Replay does that, for this step, too, and what layers were given before is forgotten.
// ErrUnsupported where the device has no graphs; backend.Capture says what layers may do.
func (b *Batch[B]) Capture(layers func() error) error {
	if err := b.want("capture", stepPlanned); err != nil {
		return err
	}
	if layers == nil {
		return backend.ErrShape{Package: "kvcache", Op: "capture", What: "the function is nil; it is to enqueue the layers"}
	}
	if err := b.fixed.forget(); err != nil {
		return b.enqueued(err)
	}
	before := slices.Clone(b.written)
	clear(b.written)
	graph, err := backend.Capture(b.pool.be, b.stream, func() error {
		if b.fixed.seqs == 0 { // not before: a device without graphs is not to be fixed
			return ErrStep{Op: "capture", Why: "the steps of this batch differ; Fix their size first"}
		}
		return layers()
	})
	missing := slices.Index(b.written, false)
	clear(b.written) // no layer got anything yet
	if err != nil {
		copy(b.written, before)
		return b.enqueued(err)
	}
	b.fixed.graph, b.fixed.stream, b.fixed.mass = graph, b.stream, b.mass
	if missing >= 0 && !b.foreign {
		return errors.Join(ErrStep{Op: "capture", Why: fmt.Sprintf("layer %d got no keys and values; Append to every layer", missing)}, b.fixed.forget())
	}
	return nil
}

// Replay enqueues what was captured, for the step that is planned now: one launch, which allocates
// nothing. The step is planned on the stream of the capture.
func (b *Batch[B]) Replay() error {
	if err := b.want("replay", stepPlanned); err != nil {
		return err
	}
	f := &b.fixed
	switch {
	case f.graph == nil:
		return ErrStep{Op: "replay", Why: "nothing was captured from a step of this batch; Capture one first"}
	case f.stream != b.stream:
		return ErrStep{Op: "replay", Why: "the step is planned on another stream than the captured one was"}
	case f.mass != b.mass:
		return ErrStep{Op: "replay", Why: "AccumulateMass changed since the capture; Capture again"}
	}
	if err := f.graph.Launch(); err != nil {
		return b.enqueued(err)
	}
	for i := range b.written {
		b.written[i] = true
	}
	return nil
}

// pad adds empty sequences until there are as many as all steps have.
func (ix *index[B]) pad(f *fixed) {
	for len(ix.lens.host) < f.seqs {
		ix.lens.host = append(ix.lens.host, 0)
		ix.queries = append(ix.queries, uint32(f.tokens))
		ix.offsets.host = append(ix.offsets.host, uint32(len(ix.slots.host)+f.tokens))
		for range f.tokens {
			ix.slots.host, ix.positions.host = append(ix.slots.host, -1), append(ix.positions.host, 0)
		}
	}
}
