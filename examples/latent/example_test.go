package latent_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Four tokens with latents of two elements, and two that are rotated behind them. Queries of zeros make attention the
// mean of the latents that they see.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	cfg := kvcache.Config{
		Model:   kvcache.Model{Layers: 1, QHeads: 2, KVHeads: 1, HeadDim: 4, VHeadDim: 2, Latent: true, Scale: 0.5, RoPE: &backend.RoPE{}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged},
	}
	pool := must(kvcache.NewPool(be, cfg))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)

	const tokens = 4
	q := must(backend.AllocFrom(be, stream, backend.F32, make([]float32, tokens*2*4)))            // [tokens, query heads, HeadDim]
	rest := must(backend.AllocFrom(be, stream, backend.F32, []float32{1, 0, 1, 0, 1, 0, 1, 0}))   // [tokens, KV heads, HeadDim − VHeadDim]
	latent := must(backend.AllocFrom(be, stream, backend.F32, []float32{0, 8, 2, 6, 4, 4, 6, 2})) // [tokens, KV heads, VHeadDim]
	out := must(be.Alloc(backend.F32, tokens*2*2))                                                // [tokens, query heads, VHeadDim]
	io := kvcache.Dense(q, rest, latent, out)
	io.Rotate = true

	check(step.Add(seq, make([]uint32, tokens)))
	check(step.Plan(stream))
	check(step.Append(0, io)) // turns the rest, and puts it after the latent
	check(step.Attend(0, io))
	check(step.Commit())
	attention := make([]float32, tokens*2*2)
	check(backend.Download(be, stream, attention, out, 0))
	fmt.Println("first head:", attention[0:2], attention[4:6], attention[8:10], attention[12:14])
	fmt.Println("bytes of a token:", must(cfg.BytesPerToken()))
	// Output:
	// first head: [0 8] [1 7] [2 6] [3 5]
	// bytes of a token: 16
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
