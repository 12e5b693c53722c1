package bench

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Kinds of steps.
const (
	decode  = "decode"
	mass    = "mass"         // decode that accumulates the attention mass
	merge   = "decode-merge" // of decode what combines the parts of split contexts
	verify  = "verify"       // a few tokens a sequence, as a draft model guesses them
	latent  = "latent"       // decode over latents, which all query heads share
	prefill = "prefill"      // a prompt, or the last chunk of one
	flat    = "flat"         // decode of sequences with common blocks, each for itself
	cascade = "cascade"      // the same, and common blocks are read once
)

// halves are the storage types of 16 bits.
var halves = []backend.DType{backend.F16, backend.BF16}

// grouped is a Llama with some query heads of a KV head.
func grouped(group int) heads { return heads{group * llama.kv, llama.kv, llama.dim, 0} }

// steps is the steps that serving is made of.
func steps() []step {
	all := slices.Concat(decodes(), quantized(), verifies(), latents(), prefills(), extras(), common())
	for i := range all {
		all[i].mass, all[i].cascade = all[i].what == mass, all[i].what == cascade
	}
	return all
}

// gpuName is the name of a step's trial.
func (s step) gpuName() string {
	types, layout := s.act.String(), "contiguous"
	if s.stored != s.act {
		types += "-" + s.stored.String()
	}
	if s.block != contiguous {
		layout = fmt.Sprintf("paged%d", s.block)
	}
	name := fmt.Sprintf("%s/%s/%s/group=%d/batch=%d/context=%d/queries=%d", s.what, types, layout, s.query/s.kv, s.batch, s.context, s.queries)
	if s.shared > 0 {
		name += fmt.Sprintf("/shared=%d", s.shared)
	}
	return name
}

// gpuWork is that of a step on a GPU. For the mass keys are read once more; caches may make
// reading common blocks faster than memory is.
func (s step) gpuWork() work {
	w := s.work()
	switch s.what {
	case mass:
		w.bytes += float64(s.read().plane(s.stored))
	case prefill:
		w.bound = multiplying
	case latent:
		if s.query > matrixHeads {
			w.bound = multiplying
		}
	case flat, cascade:
		w.bound = unbounded
	}
	return w
}

// reduced is the step on a device that is emulated: small, and of two parts.
func (s step) reduced() step {
	s.batch, s.context, s.queries, s.shared = min(s.batch, 2), 256, min(s.queries, 32), min(s.shared, 128)
	return s
}

// decodes is one token a sequence, over caches of 32 MiB to 512 MiB of f16, and a single
// sequence that is short.
func decodes() (all []step) {
	for _, dt := range halves {
		for _, block := range []int{contiguous, blockSize} {
			for _, group := range []int{4, 8} {
				for _, size := range [][2]int{{8, 1024}, {8, 2048}, {1, 32768}, {8, 8192}, {64, 2048}} {
					all = append(all, step{what: decode, act: dt, stored: dt, block: block, heads: grouped(group), batch: size[0], context: size[1], queries: 1})
				}
			}
		}
	}
	for _, block := range []int{contiguous, blockSize} { // beside which libraries of attention are measured
		for _, batch := range []int{1, 64} {
			all = append(all, step{what: decode, act: backend.BF16, stored: backend.BF16, block: block, heads: grouped(4), batch: batch, context: 8192, queries: 1})
		}
	}
	for _, group := range []int{4, 8} {
		for _, context := range []int{1024, 2048, 4096} {
			all = append(all, step{what: decode, act: backend.F16, stored: backend.F16, block: blockSize, heads: grouped(group), batch: 1, context: context, queries: 1})
		}
	}
	for _, block := range []int{contiguous, blockSize} {
		all = append(all, step{what: decode, act: backend.F16, stored: backend.F16, block: block, heads: grouped(1), batch: 8, context: 8192, queries: 1})
		for _, group := range []int{4, 8} {
			all = append(all, step{what: decode, act: backend.F32, stored: backend.F32, block: block, heads: grouped(group), batch: 8, context: 8192, queries: 1})
		}
	}
	return all
}

// quantized is decode that reads less.
func quantized() (all []step) {
	for stored := range backend.StorageTypes {
		if !stored.Quantized() {
			continue
		}
		all = append(all, step{what: decode, act: backend.F16, stored: stored, block: blockSize, heads: grouped(4), batch: 8, context: 8192, queries: 1})
	}
	for _, stored := range []backend.DType{backend.Int8, backend.FP8E4M3, backend.Int4} {
		all = append(all,
			step{what: decode, act: backend.F16, stored: stored, block: contiguous, heads: grouped(4), batch: 8, context: 8192, queries: 1},
			step{what: decode, act: backend.F16, stored: stored, block: blockSize, heads: grouped(8), batch: 8, context: 8192, queries: 1},
			step{what: decode, act: backend.F16, stored: stored, block: blockSize, heads: grouped(4), batch: 64, context: 2048, queries: 1},
			step{what: decode, act: backend.F16, stored: stored, block: blockSize, heads: grouped(8), batch: 64, context: 2048, queries: 1},
		)
	}
	return all
}

func verifies() (all []step) {
	for _, group := range []int{4, 8} {
		for _, size := range [][2]int{{1, 4096}, {8, 8192}, {64, 2048}} {
			all = append(all, step{what: verify, act: backend.F16, stored: backend.F16, block: blockSize, heads: grouped(group), batch: size[0], context: size[1], queries: 4})
		}
	}
	return all
}

// matrixHeads is from how many query heads on attention over latents waits for products: each byte of a key is for 2
// products of each head, with the key and with its value.
const matrixHeads = 64

// latents is decode of DeepSeek's models, for few query heads and for many.
func latents() (all []step) {
	for _, heads := range []int{16, 128} {
		for _, block := range []int{contiguous, blockSize} {
			for _, size := range [][2]int{{8, 8192}, {64, 2048}} {
				all = append(all, step{what: latent, act: backend.BF16, stored: backend.BF16, block: block, heads: mla(heads), batch: size[0], context: size[1], queries: 1})
			}
		}
	}
	return all
}

func prefills() (all []step) {
	const context, chunk = 8192, 512
	for _, dt := range halves {
		for _, block := range []int{contiguous, blockSize} {
			for _, queries := range []int{context, chunk} {
				all = append(all, step{what: prefill, act: dt, stored: dt, block: block, heads: grouped(4), batch: 1, context: context, queries: queries})
			}
		}
	}
	for _, block := range []int{contiguous, blockSize} { // beside which libraries of attention are measured
		for _, of := range [][2]int{{4, 4 * context}, {8, context}} {
			all = append(all, step{what: prefill, act: backend.BF16, stored: backend.BF16, block: block, heads: grouped(of[0]), batch: 1, context: of[1], queries: of[1]})
		}
	}
	all = append(all, step{what: prefill, act: backend.F16, stored: backend.F16, block: blockSize, heads: grouped(8), batch: 1, context: context, queries: context},
		step{what: prefill, act: backend.F32, stored: backend.F32, block: blockSize, heads: grouped(4), batch: 1, context: context, queries: chunk})
	for _, stored := range []backend.DType{backend.Int8, backend.FP8E4M3, backend.Int4} {
		all = append(all, step{what: prefill, act: backend.F16, stored: stored, block: blockSize, heads: grouped(4), batch: 1, context: context, queries: chunk})
	}
	return all
}

// extras is what a step of decode may have on top: the attention mass, and the merge of
// contexts that were split.
func extras() (all []step) {
	for _, dt := range []backend.DType{backend.F16, backend.F32} {
		all = append(all, step{what: mass, act: dt, stored: dt, block: blockSize, heads: grouped(4), batch: 8, context: 8192, queries: 1})
	}
	all = append(all, step{what: mass, act: backend.F16, stored: backend.F16, block: blockSize, heads: grouped(4), batch: 64, context: 2048, queries: 1})
	for _, group := range []int{4, 8} {
		for _, size := range [][2]int{{1, 4096}, {1, 32768}, {8, 1024}, {8, 2048}, {8, 8192}, {64, 2048}} {
			all = append(all, step{what: merge, act: backend.F16, stored: backend.F16, block: blockSize, heads: grouped(group), batch: size[0], context: size[1], queries: 1})
		}
	}
	return all
}

// common is sequences that begin with the same 8192 tokens, as those of one system prompt do.
func common() (all []step) {
	for _, group := range []int{4, 8} {
		for _, what := range []string{flat, cascade} {
			all = append(all, step{what: what, act: backend.F16, stored: backend.F16, block: blockSize, heads: grouped(group), batch: 64, context: 8192 + 128, queries: 1, shared: 8192})
		}
	}
	return all
}
