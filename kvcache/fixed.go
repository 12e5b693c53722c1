package kvcache

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/step"
)

// captured is what a step's layers enqueued.
type captured struct {
	graph  backend.Graph  // nil: nothing was captured
	stream backend.Stream // that it was captured from
	mass   bool           // of the plan that it was captured with
}

// FixShape makes every step of b enqueue the same work: seqs sequences with tokens new
// tokens each. The work can then be captured once and replayed in every step:
//
//	step.FixShape(seqs, 1)
//	step.Add(seq, tokens)         // up to seqs sequences
//	step.Plan(stream)
//	step.Capture(func() error {   // once; runs nothing
//		… Append and Attend of each layer, between them the runner's own kernels …
//	})
//	step.Replay()                 // in every step
//	step.Commit()
//
// A step with fewer sequences is padded with empty ones at the end: q, k, v and out have rows for
// all seqs in every step, seqs times tokens (Batch.Tokens). The rows of empty places in q, k and v are ignored, those of
// out become zero. Every step must have its q, k, v and out in the buffers of the capture.
//
// Index vectors and plans have the size that contexts of Memory.Capacity tokens need, and are uploaded
// whole in each step: block tables have seqs times the blocks of Memory.Capacity. Common prefixes are
// read once only with Attention.MinShared > 0. Use another batch for prompts.
//
// FixShape is called between steps and discards an earlier capture. With 0 sequences the shape is no
// longer fixed. It returns backend.ErrArgument if the pool cannot hold seqs sequences.
func (b *Batch[B]) FixShape(seqs, tokens int) (err error) {
	defer naming("Batch.FixShape", &err)
	if err := b.want(stepOpen); err != nil {
		return err
	}
	c := &b.pool.cfg
	_, ok := backend.Mul(seqs, max(tokens, c.MostBlocks()))
	switch {
	case len(b.members) > 0:
		return ErrStep{Why: "the step has sequences; reset it first"}
	case seqs < 0 || seqs > c.Memory.Blocks || !ok:
		return argument("%d sequences, the pool has blocks for %d", seqs, c.Memory.Blocks)
	case seqs > 0 && c.Storage.Residual > 0 && tokens > c.Memory.StepTokens:
		return argument("%d tokens of a sequence, Memory.StepTokens is %d", tokens, c.Memory.StepTokens)
	case seqs > 0 && tokens > 1 && b.pool.chunked():
		return unsupported("steps of one shape have one token of each sequence where groups are chunked")
	case seqs > 0 && (tokens < 1 || tokens > c.Memory.Capacity):
		return argument("%d tokens of a sequence, need 1 to %d", tokens, c.Memory.Capacity)
	}
	err = b.graph.forget()
	b.step.Size = step.Size{Seqs: seqs, Tokens: tokens}
	return err
}

// forget gives back what was captured.
func (f *captured) forget() error {
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

// admits reports why a step of the batch cannot have n tokens of one more sequence, or of its entry at.
func (b *Batch[B]) admits(n, at int) error {
	switch of := b.step.Size; {
	case of.Seqs == 0:
		return nil
	case at >= 0:
		return argument("a sequence once more: the steps of this batch have %d tokens of each, in one addition; see "+
			"FixShape", of.Tokens)
	case n != of.Tokens:
		return argument("%d tokens: the steps of this batch have %d of each sequence; see FixShape", n, of.Tokens)
	case len(b.members) == of.Seqs:
		return argument("a further sequence: the steps of this batch have %d; see FixShape", of.Seqs)
	}
	return nil
}

// Capture records what the function layers enqueues for the planned step on its stream: Append and
// Attend of all layers, and the runner's own kernels. It replaces an earlier capture. Nothing runs until
// Replay, which is needed for this step, too; layers that were appended to before the capture must be
// captured as well. It returns backend.ErrUnsupported if the device has no graphs; backend.Capture says
// what the function may do.
func (b *Batch[B]) Capture(layers func() error) (err error) {
	defer naming("Batch.Capture", &err)
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	if layers == nil {
		return argument("the function is nil; it is to enqueue the layers")
	}
	if err := b.graph.forget(); err != nil {
		return b.pool.observe(err)
	}
	before := slices.Clone(b.written)
	b.unwritten()
	graph, err := backend.Capture(b.pool.parts.BE, b.step.Stream, func() error {
		if b.step.Size.Seqs == 0 { // not before: a device without graphs is not to be fixed
			return ErrStep{Why: "the steps of this batch differ; call FixShape first"}
		}
		if err := layers(); err != nil {
			return fmt.Errorf("the captured function: %w", err)
		}
		return nil
	})
	missing := slices.Index(b.written, false)
	b.unwritten() // no layer got anything yet
	if err != nil {
		copy(b.written, before)
		return b.pool.observe(err)
	}
	b.graph = captured{graph, b.step.Stream, b.step.Mass}
	if missing >= 0 && !b.externalWrites {
		return errors.Join(ErrStep{Why: fmt.Sprintf("layer %d got no keys and values; Append to every layer", missing)}, b.graph.forget())
	}
	return nil
}

// Replay enqueues what was captured, for the planned step, as one launch that allocates nothing. The
// step must be planned on the stream of the capture.
func (b *Batch[B]) Replay() (err error) {
	defer naming("Batch.Replay", &err)
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	f := &b.graph
	switch {
	case f.graph == nil && f.stream != nil:
		return ErrStep{Why: "AccumulateScores changed since the capture; Capture again"}
	case f.graph == nil:
		return ErrStep{Why: "nothing was captured from a step of this batch; Capture one first"}
	case f.stream != b.step.Stream:
		return ErrStep{Why: "the step is planned on another stream than the captured one was"}
	}
	if err := f.graph.Launch(); err != nil {
		return b.pool.observe(err)
	}
	for i := range b.written {
		b.written[i] = true
	}
	return nil
}

// StepMetadata describes a planned step for kernels of the runner's own: vectors on the
// device, valid until the step is planned again or closed. The sequences of Ragged are the step's calls (Add, Query ...) in
// their order, which is that of the rows: a sequence that was added twice is two there, the second with the tokens of the
// first before its own. In layers of a group of kind chunked a call is one for each chunk that its rows are in. In layers that
// have given tokens back Ragged and its Views count what is left, as KvCache.Len does, and in a window a gap after the sinks, of
// blocks that no query sees; Positions are those of the sequence.
type StepMetadata[B backend.Buffer] struct {
	backend.Ragged[B]
	// NonCausal is backend.Mask.NonCausal of the layer's attention: Model.NonCausal, unless Views is set, where the ends of
	// views say what rows see, in such a model, too, and the mask is a causal one.
	NonCausal bool
	// Slots is I64 [Tokens], where to write each token, in the cache that Pool.Layer calls residual; −1: nowhere, it is a query.
	Slots     B
	Positions B // U32 [Tokens]
	// Residual describes, with Storage.Residual, the sequences in the cache of the last, unquantized tokens, where new
	// rows are written; Ragged then describes them in the quantized cache: see backend.Mask.Part. Without
	// Storage.Residual both are the same.
	Residual backend.Ragged[B]
}

// Metadata returns the index vectors of the planned step as a layer's kernels take them; they are the same for all layers
// of a group. After it the runner may write keys and
// values with kernels of its own on the step's stream, and Commit no longer checks that every layer
// was appended to. With Storage.Residual the runner must call QuantizeResidual between its writes to a
// layer and its attention.
func (b *Batch[B]) Metadata(layer int) (_ StepMetadata[B], err error) {
	defer naming("Batch.Metadata", &err)
	if err := b.want(stepPlanned); err != nil {
		return StepMetadata[B]{}, err
	}
	if err := b.pool.checkLayer(layer); err != nil {
		return StepMetadata[B]{}, err
	}
	if b.step.Long() {
		return StepMetadata[B]{}, unsupported("a step with more than Memory.StepTokens, %d, tokens of a sequence has "+
			"its rows in a cache "+
			"that layers use one after another; cut the prompt, or use Append and Attend", b.pool.cfg.Memory.StepTokens)
	}
	b.externalWrites = true
	t, _ := b.step.Of(layer)
	kept, recent := t.Device()
	return StepMetadata[B]{
		Ragged: kept, NonCausal: b.pool.cfg.Model.NonCausal && !kept.Views.Set, Residual: recent,
		Slots: t.Index.Slots.Buf.Buf, Positions: t.Index.Positions.Buf.Buf,
	}, nil
}

// QuantizeResidual quantizes, with Storage.Residual, the blocks of a layer that have left the residual window of a
// query of the step. It is for runners with kernels of their own (see Metadata): call it after they wrote keys and
// values and before attention. Append does the same. Without Storage.Residual it does nothing.
func (b *Batch[B]) QuantizeResidual(layer int) (err error) {
	defer naming("Batch.QuantizeResidual", &err)
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	if err := b.pool.checkLayer(layer); err != nil {
		return err
	}
	if !b.externalWrites {
		return ErrStep{Why: "Append quantizes what it writes; a runner that writes with kernels of its own asks for the " +
			"Metadata first"}
	}
	t, l := b.step.Of(layer)
	if err := t.QuantizeResidual(l); err != nil {
		return b.pool.observe(err)
	}
	b.written[layer] = true
	return nil
}
