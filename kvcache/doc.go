// Package kvcache is the key-value cache of transformer inference: it holds past
// keys and values in device memory, assigns blocks of it to sequences, and computes
// attention over it, on any device of package backend. The package at the root of the
// module, ferrumkv, opens a device and a pool on it in one call.
//
// # Pieces
//
// A [Pool] owns the keys and values of all layers, which are divided into blocks. A
// [Sequence] is one growing list of tokens: blocks of the pool, taken on demand, shared
// with its forks until one of them writes. A [Batch] is one step: the sequences that get
// new tokens, and the plan (slots, block tables, lengths, attention plan) that is made
// once and serves every layer:
//
//	io := kvcache.Dense(q, k, v, out)    // [tokens, heads, dim] each
//	seq, match, err := pool.Open(prompt, kvcache.OpenOptions{})
//
//	step.Add(seq, prompt[match.Cached:]) // for each sequence of the step, what it does not have
//	step.Plan(stream)                    // takes blocks, uploads the index vectors
//	for layer := range layers {
//		step.Append(layer, io)       // writes keys and values
//		step.Attend(layer, io)       // reads queries, writes outputs
//	}
//	step.Commit()                        // the sequences have grown
//
// A step that fails or is reset leaves every sequence as it was. A block that a
// step on the device may still read is not handed out again before that step is
// done.
//
// A sequence that is opened with a prompt starts with the cached blocks of its longest
// known prefix; its first steps compute the rest, prompt[match.Cached:]: see [Pool.Open]
// and package prefix. Attention reads blocks that several sequences of a step share
// once, where that is faster (Attention.MinShared). On devices with graphs a step can be
// captured once and then replayed as one launch: see [Batch.FixShape].
//
// Besides new tokens that see what is before them a step may have images whose tokens see each other
// ([Batch.AddSpans]), trees of guesses ([Batch.AddTree]), and queries that give a sequence no tokens
// ([Batch.Query]), such as those of cross attention, all in one batch.
//
// [KvCache] is one layer of one sequence, as a value with public fields. [Standalone] is a
// cache of one layer and one sequence; it has a pool of its own and grows by itself.
//
// # For whom
//
// A Pool is for eager runners, which run each operation when it is called: Append and Attend
// enqueue their work at once. A runner that builds a graph first and has it run later (ggml,
// XLA), or computes attention itself, uses package kvcache/host: plain rows in host memory, and
// a prefix cache over them; neither uses a device. Package kvcache/quant has quantized rows for
// such runners.
//
// # Layouts
//
// In the paged layout a layer is [blocks, heads, block size, dim] and a sequence
// has as many blocks as its tokens need. In the contiguous layout each sequence
// has one block of its full capacity. The two differ in nothing else: a
// contiguous pool is a paged one with blocks of Capacity tokens. With Model.Latent
// there are no values beside the keys: the first elements of each key are its value.
//
// # Concurrency
//
// A Pool is safe for concurrent use. A Sequence or Batch is used by one goroutine
// at a time. Steps may run on different streams: a step runs on the device after earlier
// steps of its sequences; for a fork these include its origin's steps before the fork.
// Steps with no sequence in common have no order. Blocks that a sequence gives back are
// not handed out before the steps that read them are done. The runner orders the use of
// its own buffers, and kernels of its own that use a sequence; [Sequence.Fence] tells the
// pool about such kernels.
//
// # Errors
//
// An error's text begins with the call that the program made, as in "kvcache: Batch.Plan: …". Its cause is
// one of the following, or one of package backend's. A call that fails with one of these leaves sequences and
// steps as they were. Those without fields are values for errors.Is; the others are types for errors.As, or for
// errors.Is with the zero value: errors.Is(err, kvcache.ErrOutOfBlocks{}).
//
//   - [ErrOutOfBlocks]: Plan, Reserve, Shift or Retain needs more blocks than are free or
//     cached, even after waiting for those that the device still used. Reset the step
//     and leave a sequence out, or Release one; Reserve before you admit a request.
//   - [ErrCapacity]: a sequence would be longer than Memory.Capacity, or, after Retain without
//     Reposition, its positions would. End it, Shift it, or make a pool of larger capacity.
//   - [ErrPrompt]: Add of other tokens than the rest of the prompt that the sequence was opened with, as
//     of those that it already has. After Open add prompt[match.Cached:].
//   - [ErrBusy]: the sequence is in a step that is neither committed nor reset. Commit
//     or Reset that step.
//   - [ErrStep]: a call in the wrong order: Append before Plan, or Attend or Commit while
//     a layer has no keys and values of the step. The order is Add, Plan, Append and
//     Attend in each layer, Commit, Reset.
//   - [ErrSpan]: a step that would end within tokens which see each other. End it before or after them.
//   - [ErrView]: a query that would see what a window or a chunk has given up. Ask from a later position, or keep more
//     (Memory.Rollback).
//   - [ErrConfig]: a field of Config, or an environment variable, cannot be used. The
//     text says what it accepts.
//   - [ErrPoolSize]: the pool, or one of its layers, does not fit the device. It is a
//     backend.ErrOutOfMemory, too, and says what would fit; Config.Fits tells beforehand.
//   - backend.ErrArgument: an argument that the call does not accept, whichever package detects it. If that is the prefix
//     tree or the allocator of blocks, it is a prefix.ErrArgument or a block.ErrRange, too.
//   - [ErrReleased], [ErrClosed], [ErrOtherPool]: the sequence was released, the pool or
//     batch was closed, or the sequence belongs to another pool.
//   - prefix.ErrInUse: Clear while sequences, leases or steps on the device use cached
//     blocks. Release them, or clear by force.
//   - prefix.ErrPinned: Pin of more than half of the pool. Unpin, or wait for leases to end.
package kvcache
