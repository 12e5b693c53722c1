package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// LayerIO has the inputs and outputs of one layer of a step, for Append and Attend. A runner whose layers use the same
// buffers fills it in once and passes it for each of them. The step's rows lie one after another along the token
// axis, those of each call (Add, AddSpans, AddTree, Query ...) together, in the order of the calls: a sequence that is added
// several times, with others in between, has rows in several places. All rows are of the activation type (Model.Act). The
// caller keeps ownership of the buffers.
type LayerIO[B backend.Buffer] struct {
	// Q is the queries [tokens, query heads, head dim]. Attend reads them. Append transforms them in place with Rotate,
	// and with Storage.Hadamard in layers with quantized keys; else it does not use them.
	Q backend.Rows[B]
	// K and V are the new keys [tokens, KV heads, head dim] and values [tokens, KV heads, value head dim], which Append
	// reads. With Model.Latent V is the latents, and K what keys have behind them, [tokens, KV heads, head dim − value head
	// dim]; K may be unset where that is nothing.
	K, V backend.Rows[B]
	// Rotate makes Append apply the rotary embedding (Model.RoPE): it rotates Q in place, and K while it writes K to
	// the cache; with Model.Latent what is behind the first value head dim elements of each. Without Rotate the runner has
	// rotated both, or the layer has no rotary embedding.
	Rotate bool
	// Out is where Attend writes, [tokens, query heads, value head dim]. It must not overlap Q.
	Out backend.Rows[B]
	// LSE, where set, receives the log-sum-exp of each row: f32 [tokens, query heads] from element LSEOffset on.
	LSE       backend.Opt[B]
	LSEOffset int
	// Scores, where set, is a buffer to which Attend adds the attention scores of each slot of the cache: f32 [blocks,
	// KV heads, block size]; see Batch.AccumulateScores. If it is unset, Attend adds them to the pool's scores with
	// Attention.Scores.
	Scores backend.Opt[B]
}

// Dense is a LayerIO of four buffers whose rows follow each other without gaps. Rows of a fused projection
// [tokens, q+k+v], or of a larger buffer, are backend.Rows with an offset and a stride.
func Dense[B backend.Buffer](q, k, v, out B) LayerIO[B] {
	return LayerIO[B]{Q: backend.Dense(q), K: backend.Dense(k), V: backend.Dense(v), Out: backend.Dense(out)}
}

// Append writes io.K and io.V, the keys and values of the step's tokens, into a layer's cache. With io.Rotate it
// rotates keys and queries first; without it a runner that uses a rotary embedding has rotated them.
//
// Values are rounded to the storage type. In a float type a value beyond its range becomes an infinity (in f16 above
// 65504), and attention then NaN. Quantized types return backend.ErrNonFinite for values that are not finite, or
// saturate them (Storage.Saturate).
func (b *Batch[B]) Append(layer int, io LayerIO[B]) error {
	return named("Batch.Append", b.append(layer, &io))
}

func (b *Batch[B]) append(layer int, io *LayerIO[B]) error {
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	if b.moves != movedNone {
		return ErrStep{Why: "a Commit has moved nodes of trees; Commit again, or reset the step"}
	}
	k := io.K
	if k.Buf.DType() == backend.Invalid && b.pool.latentOnly(layer) {
		k = backend.Dense(io.V.Buf) // of which rows have nothing
	}
	if err := b.pool.checkCall(layer, "k", k.Buf, "v", io.V.Buf); err != nil {
		return err
	}
	t, l := b.step.Of(layer)
	if io.Rotate && !t.Part.Rotates() {
		return unsupported("Model.RoPE is not set, so rows cannot be rotated")
	}
	var q *backend.Rows[B]
	if io.Rotate || t.Turns(l) {
		if err := b.pool.checkQueries(io.Q.Buf); err != nil {
			return err
		}
		q = &io.Q
	}
	if err := t.Append(l, &k, &io.V, q, io.Rotate); err != nil {
		return b.pool.observe(err)
	}
	b.written[layer] = true
	return nil
}

// Attend computes a layer's attention for the step's queries io.Q over all tokens of their sequences, including
// those of the step. It writes io.Out, and io.LSE and io.Scores where they are set. Each new token of a sequence sees
// the new tokens before it, so a draft of k tokens is verified in one step. If Append was not called for the layer
// Attend returns ErrStep, unless the runner writes keys and values with kernels of its own (see Metadata).
func (b *Batch[B]) Attend(layer int, io LayerIO[B]) error {
	if err := b.want(stepPlanned); err != nil {
		return named("Batch.Attend", err)
	}
	return named("Batch.Attend", b.attend(layer, &io))
}

// attend is Attend also of a step that was committed: the plan of a cache of its own serves again.
func (b *Batch[B]) attend(layer int, io *LayerIO[B]) error {
	p := b.pool
	if err := p.checkCall(layer, "q", io.Q.Buf, "out", io.Out.Buf); err != nil {
		return err
	}
	if b.lacks(layer) {
		return ErrStep{Why: fmt.Sprintf("layer %d has no keys and values of the step's tokens; Append to it first", layer)}
	}
	t, l := b.step.Of(layer)
	if !t.Has(l) {
		return ErrStep{Why: fmt.Sprintf("the layers of a step with more than Memory.StepTokens, %d, tokens of a "+
			"sequence use one cache, one after another: Attend to layer %d before Append to the next", p.cfg.Memory.StepTokens, layer)}
	}
	out := backend.Outputs[B]{Rows: io.Out, LSE: io.LSE, LSEOffset: io.LSEOffset, Scores: io.Scores}
	return p.observe(t.Attend(l, &io.Q, &out))
}

// StateView is where the states of a layer lie, for the kernels of a runner: Mamba, linear attention, convolutions. The
// state of the step's sequence i is the Bytes bytes of Buf from Offsets[i] on; kernels find it by Blocks, which is on the
// device, at Blocks[i]*Stride. A step reads the state after the sequence's earlier tokens there and writes that
// after its new ones: a sequence begins with zeros.
//
// The step's sequences are in the order in which they were first added, each once, however often it was added again: Calls
// says whose rows those of each call are. Rows of a sequence that lie apart follow each other: the state after those of one
// call is the one before those of its next.
type StateView[B backend.Buffer] struct {
	Buf B // words of 4 bytes, of all sequences
	// Blocks is U32, one for each sequence of the step. In a step of a fixed shape sequences that fill it up have 1<<32 − 1:
	// kernels leave them out.
	Blocks  B
	Stride  int
	Bytes   int
	Offsets []int64     // of the step's sequences
	Calls   []StateRows // in the order in which their rows lie
}

// StateRows is the rows of one call (Batch.Add) in a step of a layer with states.
type StateRows struct{ Seq, Rows int } // the number of the step's sequence whose they are, and how many

// State returns where the states of a layer of a state group lie in the planned step, valid until its Commit or Reset.
// The pool gives a sequence whose state others share, forks or the prefix tree, a copy on the device, in Plan. A step whose
// states were told and that is then reset leaves sequences whose state was their own unusable (Sequence.Err), for it may
// have been written: to try something out Fork the sequence.
func (b *Batch[B]) State(layer int) (_ StateView[B], err error) {
	defer naming("Batch.State", &err)
	if err := b.want(stepPlanned); err != nil {
		return StateView[B]{}, err
	}
	p := b.pool
	if layer < 0 || layer >= p.cfg.Model.Layers {
		return StateView[B]{}, argument("layer %d: the pool has layers 0 to %d", layer, p.cfg.Model.Layers-1)
	}
	st := p.parts.StatesOf(layer)
	if st == nil {
		return StateView[B]{}, argument("layer %d: has no state; it is not in a group of kind state", layer)
	}
	t, l := b.step.Of(layer)
	view := StateView[B]{
		Buf: st.Layers[l], Blocks: t.States(), Stride: st.Stride, Bytes: st.Bytes, Offsets: t.Offsets(),
	}
	t.EachCall(func(entry, rows int) { view.Calls = append(view.Calls, StateRows{Seq: entry, Rows: rows}) })
	return view, nil
}
