package fused_test

import (
	"context"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A row of the projection is 2 query heads, 1 key head and 1 value head of 4
// elements: 16 in all. Keys are 0, so attention is the mean of the values.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, Layers: 1, QHeads: 2, KVHeads: 1, HeadDim: 4, K: backend.F32,
	}))
	defer pool.Close()
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	tokens := []uint32{11, 42}
	seq, _, err := pool.Open(context.Background(), nil)
	demo.Check(err)

	qkv := demo.Floats(be, stream,
		1, 1, 1, 1, 1, 1, 1, 1 /* q */, 0, 0, 0, 0 /* k */, 1, 2, 3, 4, /* v */
		1, 1, 1, 1, 1, 1, 1, 1 /* q */, 0, 0, 0, 0 /* k */, 5, 6, 7, 8, /* v */
	)
	q := backend.Rows[*cpu.Buffer]{Buf: qkv, Offset: 0, Stride: 16}
	k := backend.Rows[*cpu.Buffer]{Buf: qkv, Offset: 8, Stride: 16}
	v := backend.Rows[*cpu.Buffer]{Buf: qkv, Offset: 12, Stride: 16}
	out, lse := demo.Zeros(be, stream, 2*2*4), demo.Zeros(be, stream, 2*2)

	demo.Check(step.Add(seq, tokens))
	demo.Check(step.Plan(stream))
	demo.Check(step.AppendRows(0, k, v)) // AppendRotatedRows(0, q, k, v) where RoPE is the library's
	demo.Check(step.AttendTo(0, q, backend.Outputs[*cpu.Buffer]{Rows: backend.Dense(out), LSE: backend.Some(lse)}))
	demo.Check(step.Commit())

	fmt.Println("token 2, head 1:", demo.Read(be, stream, out)[8:12])
	fmt.Printf("sum of its exp(score): %.1f\n", math.Exp(float64(demo.Read(be, stream, lse)[2])))
	// Output:
	// token 2, head 1: [3 4 5 6]
	// sum of its exp(score): 2.0
}
