package streams_test

import (
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A prompt is computed on one stream and continued on three others. The program does not
// wait for the prompt: the pool makes the device run its step before theirs.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 1},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged},
	}))
	defer pool.Close()
	prompt, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)
	forward(be, pool, must(be.NewStream()), prompt, 0, 2, 4)

	var wg sync.WaitGroup
	var results [3][]float32
	for i := range results {
		fork, stream := must(prompt.Fork()), must(be.NewStream())
		wg.Go(func() { // the goroutines share the pool, and nothing else
			out := forward(be, pool, stream, fork, float32(10*i+2))
			results[i] = make([]float32, 1)
			check(backend.Download(be, stream, results[i], out, 0)) // waits for the stream
		})
	}
	wg.Wait()
	fmt.Println(results)
	// Output: [[2] [4.5] [7]]
}

// forward appends tokens with these values to a sequence and returns the buffer of their
// attention. Keys are 0, so the attention of a token is the mean of the values up to its own.
func forward(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], stream backend.Stream, seq *kvcache.Sequence[*cpu.Buffer], values ...float32) *cpu.Buffer {
	n := len(values)
	qk := must(backend.AllocFrom(be, stream, backend.F32, make([]float32, n)))
	v := must(backend.AllocFrom(be, stream, backend.F32, values))
	out := must(be.Alloc(backend.F32, n))
	io := kvcache.Dense(qk, qk, v, out)

	step := pool.NewBatch()
	defer step.Close()
	check(step.Add(seq, make([]uint32, n)))
	check(step.Plan(stream))
	check(step.Append(0, io))
	check(step.Attend(0, io))
	check(step.Commit())
	return out
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
