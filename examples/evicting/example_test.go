package evicting_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

const dim = 8

// Sixty tokens go through a cache of sixteen. Token 20 is the answer to every question,
// so it is still there at the end.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, BlockSize: 4, Capacity: 64, Layers: 1, KVHeads: 1, HeadDim: dim, K: backend.F32,
		Scores: true, // the attention that each token got, which H2O looks at
		Prefix: prefix.Off,
	}))
	defer pool.Close()
	evictor := demo.Must(evictor.New[*cpu.Buffer](evictor.Options{Policy: evict.H2O{Sinks: 2, Recent: 8}, Budget: 16}))
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(context.Background(), nil)
	demo.Check(err)
	for token := range uint32(60) {
		key := make([]float32, dim)
		key[1] = 1 // what nobody asks for
		if token == 20 {
			key[0] = 10
		}
		question := make([]float32, dim)
		question[0] = 1
		q, k := demo.Floats(be, stream, question...), demo.Floats(be, stream, key...)
		v, out := demo.Zeros(be, stream, dim), demo.Zeros(be, stream, dim)
		demo.Must(evictor.Room(stream, 1, seq))
		demo.Check(step.Reset())
		demo.Check(step.Add(seq, []uint32{token}))
		demo.Check(step.Plan(stream))
		demo.Check(step.Append(0, k, v))
		demo.Check(step.Attend(0, q, out))
		demo.Check(step.Commit())
	}
	at, err := seq.Positions(nil, 0)
	demo.Check(err)
	fmt.Println("kept", at, "in", len(seq.Blocks(nil)), "blocks; the next token is at", seq.Next())
	// Output:
	// kept [0 1 2 3 4 5 20 51 52 53 54 55 56 57 58 59] in 4 blocks; the next token is at 60
}
