package rolling_test

import (
	"context"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

const (
	dim   = 8
	sinks = 4 // first tokens that stay for good, as in StreamingLLM (arXiv:2309.17453)
	drop  = 4 // tokens that go at a time; a whole block is dropped without moving slots
)

// Forty tokens go through a cache of sixteen. What the last one sees equals what it
// would see behind the kept tokens alone.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, BlockSize: 4, Capacity: 16, Layers: 1, KVHeads: 1, HeadDim: dim, K: backend.F32,
		RoPE: &backend.RoPE{}, // theta 10000, halves paired as in Hugging Face models
	}))
	defer pool.Close()
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	open := func() *kvcache.Sequence[*cpu.Buffer] {
		seq, _, err := pool.Open(context.Background(), nil)
		demo.Check(err)
		return seq
	}
	add := func(seq *kvcache.Sequence[*cpu.Buffer], token uint32) []float32 {
		q, k := demo.Floats(be, stream, vector(token, 1)...), demo.Floats(be, stream, vector(token, 2)...)
		v, out := demo.Floats(be, stream, vector(token, 3)...), demo.Zeros(be, stream, dim)
		demo.Check(step.Reset())
		demo.Check(step.Add(seq, []uint32{token}))
		demo.Check(step.Plan(stream))
		demo.Check(step.AppendRotated(0, q, k, v)) // q and k as projected; q is rotated in place
		demo.Check(step.Attend(0, q, out))
		demo.Check(step.Commit())
		return demo.Read(be, stream, out)
	}

	rolling, kept := open(), []uint32(nil)
	var have []float32
	for token := range uint32(40) {
		if rolling.Len() == pool.Config().Capacity {
			demo.Check(rolling.Shift(stream, sinks, sinks+drop))
			kept = append(kept[:sinks], kept[sinks+drop:]...)
		}
		have, kept = add(rolling, token), append(kept, token)
	}
	fmt.Println("kept", kept, "in", len(rolling.Blocks(nil)), "blocks")

	alone := open()
	var want []float32
	for _, token := range kept {
		want = add(alone, token)
	}
	for i := range want {
		if math.Abs(float64(have[i]-want[i])) > 1e-5 {
			fmt.Println("element", i, "is", have[i], "and not", want[i])
		}
	}
	// Output: kept [0 1 2 3 28 29 30 31 32 33 34 35 36 37 38 39] in 4 blocks
}

// vector stands for what a model's projection makes of a token.
func vector(token uint32, projection float64) []float32 {
	x := make([]float32, dim)
	for i := range x {
		x[i] = float32(math.Sin(float64(token) + projection*float64(i+1)))
	}
	return x
}
