package window_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Eight tokens with the values 0 to 7 and equal keys: attention is the mean of the
// values that a query sees.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, Layers: 2, KVHeads: 1, HeadDim: 1, K: backend.F32,
		Masks: []kvcache.Mask{
			{Window: 2, SinkTokens: 1}, // the query's own token, the one before it, and the first
			{},                         // all tokens up to the query's own
		},
	}))
	defer pool.Close()
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	tokens := make([]uint32, 8)
	seq, _, err := pool.Open(context.Background(), nil)
	demo.Check(err)
	zeros, out := demo.Zeros(be, stream, 8), demo.Zeros(be, stream, 8)
	values := demo.Floats(be, stream, 0, 1, 2, 3, 4, 5, 6, 7)

	demo.Check(step.Add(seq, tokens))
	demo.Check(step.Plan(stream))
	for layer := range 2 {
		demo.Check(step.Append(layer, zeros, values))
		demo.Check(step.Attend(layer, zeros, out))
		fmt.Printf("layer %d: %.2f\n", layer, demo.Read(be, stream, out))
	}
	demo.Check(step.Commit())
	// Output:
	// layer 0: [0.00 0.50 1.00 1.67 2.33 3.00 3.67 4.33]
	// layer 1: [0.00 0.50 1.00 1.50 2.00 2.50 3.00 3.50]
}
