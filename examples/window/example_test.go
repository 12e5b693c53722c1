package window_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Eight tokens with the values 0 to 7 and equal keys: attention is the mean of the
// values that a query sees.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model: kvcache.Model{Layers: 2, KVHeads: 1, HeadDim: 1, Masks: []kvcache.Mask{
			{Window: 2, SinkTokens: 1}, // the query's own token, the one before it, and the first
			{},                         // all tokens up to the query's own
		}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged},
	}))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)

	qk := must(backend.AllocFrom(be, stream, backend.F32, make([]float32, 8)))
	v := must(backend.AllocFrom(be, stream, backend.F32, []float32{0, 1, 2, 3, 4, 5, 6, 7}))
	out := must(be.Alloc(backend.F32, 8))
	io := kvcache.Dense(qk, qk, v, out) // both layers use the same buffers

	check(step.Add(seq, make([]uint32, 8)))
	check(step.Plan(stream))
	for layer := range 2 {
		check(step.Append(layer, io))
		check(step.Attend(layer, io))
		attention := make([]float32, 8)
		check(backend.Download(be, stream, attention, out, 0))
		fmt.Printf("layer %d: %.2f\n", layer, attention)
	}
	check(step.Commit())
	// Output:
	// layer 0: [0.00 0.50 1.00 1.67 2.33 3.00 3.67 4.33]
	// layer 1: [0.00 0.50 1.00 1.50 2.00 2.50 3.00 3.50]
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
