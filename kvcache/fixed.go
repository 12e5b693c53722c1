package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// fixed is the size of all steps of a batch; no sequences: they differ.
type fixed struct{ seqs, tokens int }

// Fix makes all steps of b the same to the device: of seqs sequences with tokens new
// tokens each. What Append and Attend enqueue does then not change from step to step, so
// it can be captured once and replayed:
//
//	step.Fix(seqs, 1)
//	step.Add(seq, tokens)               // up to seqs sequences
//	step.Plan(stream)
//	graph, err := backend.Capture(be, stream, func() error {
//		… AppendRotated and Attend of each layer, between them the runner's own kernels …
//	})
//	step.Replay(graph)                  // in this step, too: a capture runs nothing
//	step.Commit()
//
// Every later step is Reset, Add, Plan, Replay and Commit. Where a step has fewer
// sequences, empty ones fill it up: their rows of q, k and v are read and used for nothing,
// those of out become zero. The rows of q, k, v and out stay in the same buffers.
//
// Index vectors and plans are as large as the longest contexts need. Common prefixes are
// read once only if Config.MinShared says for how many tokens. It is called between steps;
// 0 sequences makes steps differ again.
func (b *Batch[B]) Fix(seqs, tokens int) error {
	if err := b.want("fix", stepOpen); err != nil {
		return err
	}
	switch {
	case b.recent != nil:
		return twoTiers("fix")
	case len(b.entries) > 0:
		return ErrStep{Op: "fix", Why: "the step has sequences; reset it first"}
	case seqs < 0 || seqs > maxSetting || seqs > 0 && (tokens < 1 || tokens > maxSetting/seqs):
		return backend.ErrShape{Op: "fix", What: fmt.Sprintf("%d sequences of %d tokens, need 1 token or more, and at most %d in all", seqs, tokens, maxSetting)}
	}
	b.fixed = fixed{seqs, tokens}
	return nil
}

// admits reports why a step of the batch cannot have n tokens of one more sequence.
func (f fixed) admits(have, n int) error {
	switch {
	case f.seqs == 0:
		return nil
	case n != f.tokens:
		return backend.ErrShape{Op: "add", What: fmt.Sprintf("%d tokens: the steps of this batch have %d of each sequence; see Fix", n, f.tokens)}
	case have == f.seqs:
		return backend.ErrShape{Op: "add", What: fmt.Sprintf("a further sequence: the steps of this batch have %d; see Fix", f.seqs)}
	}
	return nil
}

// Replay launches a graph of Append and Attend of all layers that was captured from a step
// of b on the same stream, for the step that is planned now.
func (b *Batch[B]) Replay(g backend.Graph) error {
	if err := b.want("replay", stepPlanned); err != nil {
		return err
	}
	if b.fixed.seqs == 0 {
		return ErrStep{Op: "replay", Why: "the steps of this batch differ; Fix their size before one is captured"}
	}
	if err := g.Launch(); err != nil {
		return b.enqueued(err)
	}
	for i := range b.written {
		b.written[i] = true
	}
	return nil
}

// pad adds empty sequences until there are as many as all steps have.
func (ix *index[B]) pad(f fixed) {
	for len(ix.lens.host) < f.seqs {
		ix.lens.host = append(ix.lens.host, 0)
		ix.queries = append(ix.queries, uint32(f.tokens))
		ix.offsets.host = append(ix.offsets.host, uint32(len(ix.slots.host)+f.tokens))
		for range f.tokens {
			ix.slots.host, ix.positions.host = append(ix.slots.host, -1), append(ix.positions.host, 0)
		}
	}
}
