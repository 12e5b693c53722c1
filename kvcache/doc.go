// Package kvcache is the key-value cache of transformer inference: the memory
// that holds past keys and values, the decision which block of it belongs to
// which sequence, and attention over it, on any device of package backend.
//
// # Pieces
//
// A [Pool] owns the keys and values of all layers and the blocks they are cut
// into. A [Sequence] is one growing list of tokens: blocks of the pool, taken on
// demand, shared with its forks until one of them writes. A [Batch] is one step:
// the sequences that get new tokens, and the plan (slots, block tables, lengths,
// division of work) that is made once and serves every layer:
//
//	step.Reset()                         // a new step is empty
//	step.Add(seq, tokens)                // for each sequence of the step, what it does not have
//	step.Plan(stream)                    // takes blocks, uploads the index vectors
//	for layer := range layers {
//		step.Append(layer, k, v)         // [tokens, KV heads, dim]
//		step.Attend(layer, q, out)       // [tokens, query heads, dim]
//	}
//	step.Commit()                        // the sequences have grown
//
// A step that fails or is reset leaves every sequence as it was. A block that a
// step on the device may still read is not handed out again before that step is
// done.
//
// A sequence opened with a prompt starts with the blocks of its longest prefix that
// is in the pool, whoever computed it, and its first steps add the rest,
// prompt[match.Matched:]: see [Pool.Open] and package prefix. A step reads what its
// sequences have in common once, where that pays (Config.MinShared). Where the device has
// graphs, steps can be replayed as one launch: see [Batch.Fix].
//
// [KvCache] is one layer of one sequence, as a value with public fields. [Standalone] is a
// cache of one layer and one sequence that needs no pool, and grows.
//
// # For whom
//
// A Pool is for eager runners, which compute a layer when they call for it: Append and Attend
// enqueue their work at once. A runner that builds a graph first and has it run later (ggml,
// XLA), or computes attention itself, uses package kvcache/host: plain rows in host memory and
// a cache of what was computed for earlier prompts, which know no device. Package kvcache/quant
// has rows in fewer bits for such runners.
//
// # Layouts
//
// In the paged layout a layer is [blocks, heads, block size, dim] and a sequence
// has as many blocks as its tokens need. In the contiguous layout each sequence
// has one block of its full capacity. The two differ in nothing else: a
// contiguous pool is a paged one with blocks of Capacity tokens.
//
// # Concurrency
//
// A Pool is safe for concurrent use. A Sequence or Batch is used by one goroutine
// at a time. Steps may run on different streams: one that uses a sequence waits, on
// the device, for the earlier steps of that sequence, and a fork's for those of its
// origin before the fork. Steps with no sequence in common have no order.
package kvcache
