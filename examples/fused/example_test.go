package fused_test

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A row of the projection is 2 query heads, 1 key head and 1 value head of 4
// elements: 16 in all. Keys are 0, so attention is the mean of the values.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, QHeads: 2, KVHeads: 1, HeadDim: 4},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged},
	}))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)

	qkv := must(backend.AllocFrom(be, stream, backend.F32, []float32{
		1, 1, 1, 1, 1, 1, 1, 1 /* q */, 0, 0, 0, 0 /* k */, 1, 2, 3, 4, /* v */
		1, 1, 1, 1, 1, 1, 1, 1 /* q */, 0, 0, 0, 0 /* k */, 5, 6, 7, 8, /* v */
	}))
	out := must(be.Alloc(backend.F32, 2*2*4)) // [tokens, query heads, head dim]
	lse := must(be.Alloc(backend.F32, 2*2))   // [tokens, query heads]
	io := kvcache.LayerIO[*cpu.Buffer]{
		Q:   backend.Rows[*cpu.Buffer]{Buf: qkv, Offset: 0, Stride: 16},
		K:   backend.Rows[*cpu.Buffer]{Buf: qkv, Offset: 8, Stride: 16},
		V:   backend.Rows[*cpu.Buffer]{Buf: qkv, Offset: 12, Stride: 16},
		Out: backend.Dense(out),
		LSE: backend.Some(lse), // the log-sum-exp of each row, for a runner that merges results
	}

	check(step.Add(seq, []uint32{11, 42}))
	check(step.Plan(stream))
	check(step.Append(0, io))
	check(step.Attend(0, io))
	check(step.Commit())

	rows, sums := make([]float32, 2*2*4), make([]float32, 2*2)
	check(backend.Download(be, stream, rows, out, 0))
	check(backend.Download(be, stream, sums, lse, 0))
	fmt.Println("token 1, head 0:", rows[8:12])
	fmt.Printf("sum of its exp(score): %.1f\n", math.Exp(float64(sums[2])))
	// Output:
	// token 1, head 0: [3 4 5 6]
	// sum of its exp(score): 2.0
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
