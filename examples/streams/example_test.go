package streams_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A prompt is computed on one stream and continued on three others. The program
// does not wait for the prompt: the pool has the device run it before the rest.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, Layers: 1, KVHeads: 1, HeadDim: 1, K: backend.F32,
	}))
	defer pool.Close()
	prompt, _, err := pool.Open(context.Background(), nil)
	demo.Check(err)
	step(be, pool, demo.Must(be.NewStream()), prompt, 0, 2, 4)

	var wg sync.WaitGroup
	var results [3][]float32
	for i := range results {
		stream, fork := demo.Must(be.NewStream()), demo.Must(prompt.Fork())
		wg.Go(func() { // stream, fork and step are this goroutine's, the pool is everyone's
			out := step(be, pool, stream, fork, float32(10*i+2))
			results[i] = demo.Read(be, stream, out)
		})
	}
	wg.Wait()
	fmt.Println(results)
	// Output: [[2] [4.5] [7]]
}

// step appends tokens of these values. Keys are 0, so the attention of a token is
// the mean of the values up to its own.
func step(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], stream backend.Stream, seq *kvcache.Sequence[*cpu.Buffer], values ...float32) *cpu.Buffer {
	n := len(values)
	zeros, v, out := demo.Zeros(be, stream, n), demo.Floats(be, stream, values...), demo.Zeros(be, stream, n)
	batch := pool.NewBatch()
	defer batch.Close()
	demo.Check(batch.Add(seq, make([]uint32, n)))
	demo.Check(batch.Plan(stream))
	demo.Check(batch.Append(0, zeros, v))
	demo.Check(batch.Attend(0, zeros, out))
	demo.Check(batch.Commit())
	return out
}
