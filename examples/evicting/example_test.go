package evicting_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

const dim = 8

// Sixty tokens go through a cache of sixteen. Every query asks for token 20, so that
// token is still there at the end.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:     kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: dim},
		Storage:   kvcache.Storage{K: backend.F32},
		Memory:    kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 64, Prefix: prefix.Off},
		Attention: kvcache.Attention{Scores: true}, // the policy looks at them
	}))
	defer pool.Close()
	budget := must(evictor.New[*cpu.Buffer](evictor.Options{Policy: evict.H2O{Sinks: 2, Recent: 8}, Budget: 16}))

	stream, step := must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)
	floats := func(x ...float32) *cpu.Buffer { return must(backend.AllocFrom(be, stream, backend.F32, x)) }
	q := floats(1, 0, 0, 0, 0, 0, 0, 0) // a model computes q, k and v
	k, v, out := floats(make([]float32, dim)...), floats(make([]float32, dim)...), floats(make([]float32, dim)...)
	io := kvcache.Dense(q, k, v, out)

	for token := range uint32(60) {
		key := []float32{0, 1, 0, 0, 0, 0, 0, 0}
		if token == 20 {
			key[0] = 10 // what every query asks for
		}
		check(backend.Upload(be, stream, k, 0, key))

		must(budget.EnsureBudget(stream, 1, seq)) // drops tokens where one more is too many
		check(step.Reset())
		check(step.Add(seq, []uint32{token}))
		check(step.Plan(stream))
		check(step.Append(0, io))
		check(step.Attend(0, io))
		check(step.Commit())
	}
	kept := must(seq.Positions(nil, 0))
	fmt.Println("kept", kept, "in", len(seq.Blocks(nil)), "blocks; the next token is at", seq.NextPosition())
	// Output:
	// kept [0 1 2 3 4 5 20 51 52 53 54 55 56 57 58 59] in 4 blocks; the next token is at 60
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
