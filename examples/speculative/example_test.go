package speculative_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// A draft model guesses four tokens behind a prompt of six. One step answers for
// all four: each query sees the tokens up to its own. The model agrees with two.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, BlockSize: 4, Layers: 1, KVHeads: 1, HeadDim: 1, K: backend.F32,
	}))
	defer pool.Close()
	r := runner{be, demo.Must(be.NewStream()), pool.NewBatch()}
	seq, _, err := pool.Open(context.Background(), nil)
	demo.Check(err)

	r.step(seq, 0, 1, 2, 3, 4, 5) // the prompt
	fmt.Printf("draft   %.1f\n", r.step(seq, 6, 7, 8, 9))
	fmt.Println("have   ", seq.Len(), "tokens in", len(seq.Blocks(nil)), "blocks")

	demo.Check(seq.Truncate(8)) // 8 and 9 were wrong, and their block is given back
	fmt.Println("keep   ", seq.Len(), "tokens in", len(seq.Blocks(nil)), "blocks")
	fmt.Printf("go on   %.1f\n", r.step(seq, 17)) // nothing of them is left: (0+1+…+7+17)/9
	// Output:
	// draft   [3.0 3.5 4.0 4.5]
	// have    10 tokens in 3 blocks
	// keep    8 tokens in 2 blocks
	// go on   [5.0]
}

type runner struct {
	be     *cpu.Backend
	stream backend.Stream
	batch  *kvcache.Batch[*cpu.Buffer]
}

// step appends tokens to a sequence. Keys are 0, so attention is the mean of the
// values, and the value of a token is its number.
func (r runner) step(seq *kvcache.Sequence[*cpu.Buffer], tokens ...uint32) []float32 {
	v := make([]float32, len(tokens))
	for i, token := range tokens {
		v[i] = float32(token)
	}
	zeros, values := demo.Zeros(r.be, r.stream, len(v)), demo.Floats(r.be, r.stream, v...)
	out := demo.Zeros(r.be, r.stream, len(v))
	demo.Check(r.batch.Reset())
	demo.Check(r.batch.Add(seq, tokens))
	demo.Check(r.batch.Plan(r.stream))
	demo.Check(r.batch.Append(0, zeros, values))
	demo.Check(r.batch.Attend(0, zeros, out))
	demo.Check(r.batch.Commit())
	return demo.Read(r.be, r.stream, out)
}
