package speculative_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A draft model guesses four tokens after a prompt of six. One step computes attention for
// all four: each query sees the tokens up to its own. The model accepts two. Nobody finds a guess in the prefix tree
// before it is accepted.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 1},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4},
	}))
	defer pool.Close()
	r := runner{be, must(be.NewStream()), pool.NewBatch()}
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)

	r.forward(seq, 0, 0, 1, 2, 3, 4, 5) // the prompt
	fmt.Printf("draft    %.1f\n", r.forward(seq, 4, 6, 7, 8, 9))
	fmt.Println("has     ", seq.Len(), "tokens in", len(seq.Blocks(nil)), "blocks")

	check(seq.Truncate(8)) // accepts 6 and 7, rejects 8 and 9, and gives their block back
	fmt.Println("keeps   ", seq.Len(), "tokens in", len(seq.Blocks(nil)), "blocks")
	fmt.Printf("goes on  %.1f\n", r.forward(seq, 0, 17)) // (0+1+…+7+17)/9: without 8 and 9
	// Output:
	// draft    [3.0 3.5 4.0 4.5]
	// has      10 tokens in 3 blocks
	// keeps    8 tokens in 2 blocks
	// goes on  [5.0]
}

// runner is a model of one layer. Its keys are 0, so attention is the mean of the values,
// and the value of a token is its number.
type runner struct {
	be     *cpu.Backend
	stream backend.Stream
	step   *kvcache.Batch[*cpu.Buffer]
}

// forward appends tokens, of which the last ones are guesses, to a sequence and returns the attention of each.
func (r runner) forward(seq *kvcache.Sequence[*cpu.Buffer], guesses int, tokens ...uint32) []float32 {
	zeros, values := make([]float32, len(tokens)), make([]float32, len(tokens))
	for i, token := range tokens {
		values[i] = float32(token)
	}
	qk := must(backend.AllocFrom(r.be, r.stream, backend.F32, zeros))
	defer r.be.Free(qk)
	v := must(backend.AllocFrom(r.be, r.stream, backend.F32, values))
	defer r.be.Free(v)
	out := must(r.be.Alloc(backend.F32, len(tokens)))
	defer r.be.Free(out)
	io := kvcache.Dense(qk, qk, v, out)

	check(r.step.Reset())
	check(r.step.AddDraft(seq, tokens, guesses))
	check(r.step.Plan(r.stream))
	check(r.step.Append(0, io))
	check(r.step.Attend(0, io))
	check(r.step.Commit())
	attention := make([]float32, len(tokens))
	check(backend.Download(r.be, r.stream, attention, out, 0))
	return attention
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
