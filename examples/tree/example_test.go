package tree_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// After a prompt of three tokens the model has sampled token 3, and a draft model guesses what comes next: 4 and then 6, or 5
// and then 7. One step computes all five: each sees the prompt and those that it goes on from. 5 and 7 are right, and the
// sequence gets 3, 5 and 7.
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

	prompt := []uint32{0, 1, 2}
	check(r.step.Add(seq, prompt))
	r.forward(prompt)
	check(r.step.Commit())

	nodes, parents := []uint32{3, 4, 5, 6, 7}, []int{-1, 0, 0, 1, 2} // 3 goes on from the prompt, 4 and 5 from 3, …
	check(r.step.AddTree(seq, nodes, parents))
	fmt.Printf("tree     %.2f\n", r.forward(nodes))
	check(r.step.Accept(seq, []int{0, 2, 4})) // 3, 5, 7
	check(r.step.Commit())
	fmt.Println("has     ", seq.Len(), "tokens in", len(seq.Blocks(nil)), "blocks")

	check(r.step.Add(seq, []uint32{6}))
	fmt.Printf("goes on  %.2f\n", r.forward([]uint32{6})) // (0+1+2+3+5+7+6)/7
	check(r.step.Commit())
	// Output:
	// tree     [1.50 2.00 2.20 2.67 3.00]
	// has      6 tokens in 2 blocks
	// goes on  [3.43]
}

// runner is a model of one layer. Its keys are 0, so attention is the mean of the values,
// and the value of a token is its number.
type runner struct {
	be     *cpu.Backend
	stream backend.Stream
	step   *kvcache.Batch[*cpu.Buffer]
}

// forward computes the step's tokens and returns the attention of each.
func (r runner) forward(tokens []uint32) []float32 {
	values := make([]float32, len(tokens))
	for i, token := range tokens {
		values[i] = float32(token)
	}
	qk := must(backend.AllocFrom(r.be, r.stream, backend.F32, make([]float32, len(tokens))))
	v := must(backend.AllocFrom(r.be, r.stream, backend.F32, values))
	out := must(r.be.Alloc(backend.F32, len(tokens)))
	io := kvcache.Dense(qk, qk, v, out)
	check(r.step.Plan(r.stream))
	check(r.step.Append(0, io))
	check(r.step.Attend(0, io))
	check(backend.Download(r.be, r.stream, values, out, 0))
	for _, b := range []*cpu.Buffer{qk, v, out} {
		check(r.be.Free(b))
	}
	return values
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
