package encoder_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// An encoder of two layers: in the first a token sees its neighbours in both directions, in the second all tokens. Then a decoder
// attends to what the encoder left, in a step that appends nothing: three queries see all of it, or its first two tokens. Keys
// are 0, so attention is the mean of the values that are seen.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model: kvcache.Model{Layers: 2, KVHeads: 1, HeadDim: 1, NonCausal: true,
			Masks: []kvcache.Mask{{Window: 2}, {}}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged},
	}))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)
	attention := make([]float32, 4)

	qk := must(backend.AllocFrom(be, stream, backend.F32, make([]float32, 4)))
	v := must(backend.AllocFrom(be, stream, backend.F32, []float32{1, 2, 3, 4}))
	out := must(be.Alloc(backend.F32, 4))
	io := kvcache.Dense(qk, qk, v, out) // both layers use the same buffers
	check(step.Add(seq, make([]uint32, 4)))
	check(step.Plan(stream))
	for layer := range 2 {
		check(step.Append(layer, io))
		check(step.Attend(layer, io))
		check(backend.Download(be, stream, attention, out, 0))
		fmt.Printf("layer %d: %.2f\n", layer, attention)
	}
	check(step.Commit())

	check(step.Query(seq, []kvcache.View{{Position: 0, End: seq.Len()}, {Position: 0, End: seq.Len()}, {Position: 0, End: 2}}))
	check(step.Plan(stream))
	check(step.Attend(1, io)) // no Append: there are no new tokens
	check(step.Commit())
	check(backend.Download(be, stream, attention[:3], out, 0))
	fmt.Printf("decoder: %.2f\n", attention[:3])
	// Output:
	// layer 0: [1.50 2.00 3.00 3.50]
	// layer 1: [2.50 2.50 2.50 2.50]
	// decoder: [2.50 2.50 1.50]
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
