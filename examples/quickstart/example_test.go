package quickstart_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all" // every backend there is
	"github.com/ferrumkv/ferrumkv/kvcache"
)

func Example() {
	be := must(backend.Open("cpu")) // backend.Default() opens the best device there is
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, Layers: 2, QHeads: 4, KVHeads: 2, HeadDim: 64, K: backend.F32,
	}))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	prompt := make([]uint32, 40)
	for range 2 { // two requests: the second finds what the first has left
		seq, match, err := pool.Open(context.Background(), prompt)
		check(err)
		n := match.Recompute                                           // tokens that are left to compute
		q, out := zeros(be, stream, n*4*64), zeros(be, stream, n*4*64) // [tokens, query heads, head dim]
		k, v := zeros(be, stream, n*2*64), zeros(be, stream, n*2*64)   // [tokens, KV heads, head dim]

		check(step.Reset())
		check(step.Add(seq, prompt[match.Matched:])) // more sequences alike: they are one batch
		check(step.Plan(stream))                     // blocks, slots and tables, once for all layers
		for layer := range 2 {
			check(step.Append(layer, k, v))   // the model fills q, k and v before,
			check(step.Attend(layer, q, out)) // and goes on with out
		}
		check(step.Commit())     // the sequence has all of the prompt now
		fork := must(seq.Fork()) // shares all blocks until one of the two writes
		fmt.Println(n, "computed of", fork.Len(), "in", must(pool.Stats()).Held, "blocks")
		check(seq.Release()) // what nobody releases stays in the pool
		check(fork.Release())
	}
	// Output:
	// 40 computed of 40 in 3 blocks
	// 8 computed of 40 in 3 blocks
}

// zeros is a buffer of n f32 elements on the device.
func zeros(be backend.Backend[backend.AnyBuffer], s backend.Stream, n int) backend.AnyBuffer {
	return must(backend.AllocFrom(be, s, backend.F32, make([]float32, n)))
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
