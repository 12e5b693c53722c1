package quantized_test

import (
	"context"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

const (
	dim    = 128
	tokens = 100
)

// A few formats of one cache, beside float32. Config is all that changes.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	exact := kvcache.Config{K: backend.F32}
	want, _ := attend(be, exact)
	for _, f := range []struct {
		name string
		cfg  kvcache.Config
	}{
		{"f16", kvcache.Config{K: backend.F16}},
		{"int8", kvcache.Config{K: backend.Int8}},
		{"int8 keys, int4 values", kvcache.Config{K: backend.Int8, V: backend.Int4}},
		{"int4, keys turned", kvcache.Config{K: backend.Int4, Hadamard: true}},
		{"KIVI", kvcache.Config{K: backend.Int4Channel, V: backend.Int4, BlockSize: 32, Residual: 32}},
	} {
		have, bytes := attend(be, f.cfg)
		fmt.Printf("%-23s %3d bytes a token, off by less than %.0e\n", f.name, bytes, bound(want, have))
	}
	// Output:
	// f16                     512 bytes a token, off by less than 1e-04
	// int8                    264 bytes a token, off by less than 1e-03
	// int8 keys, int4 values  212 bytes a token, off by less than 1e-02
	// int4, keys turned       160 bytes a token, off by less than 1e-02
	// KIVI                    160 bytes a token, off by less than 1e-02
}

// attend fills a cache, token by token, and returns what the last token's query makes
// of it and the bytes of a token.
func attend(be *cpu.Backend, cfg kvcache.Config) ([]float32, int64) {
	cfg.Layout, cfg.Prefix, cfg.Act = kvcache.Paged, prefix.Off, backend.F32
	cfg.Layers, cfg.KVHeads, cfg.HeadDim, cfg.Capacity, cfg.MaxSeqs = 1, 1, dim, 128, 1
	pool := demo.Must(kvcache.NewPool(be, cfg))
	defer pool.Close()
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(context.Background(), nil)
	demo.Check(err)
	out := demo.Zeros(be, stream, dim)
	for token := range uint32(tokens) {
		q, k, v := demo.Floats(be, stream, vector(token, 1)...), demo.Floats(be, stream, vector(token, 2)...), demo.Floats(be, stream, vector(token, 3)...)
		demo.Check(step.Reset())
		demo.Check(step.Add(seq, []uint32{token}))
		demo.Check(step.Plan(stream))
		demo.Check(step.AppendQueries(0, q, k, v)) // with Hadamard the queries turn, too
		demo.Check(step.Attend(0, q, out))
		demo.Check(step.Commit())
	}
	return demo.Read(be, stream, out), demo.Must(pool.Config().BytesPerToken())
}

// bound is the power of ten above the largest difference.
func bound(want, have []float32) float64 {
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(want[i]-have[i])))
	}
	return math.Pow(10, math.Ceil(math.Log10(worst)))
}

// vector stands for what a model's projection makes of a token.
func vector(token uint32, projection float64) []float32 {
	x := make([]float32, dim)
	for i := range x {
		x[i] = float32(math.Sin(float64(token)*(1+projection/7) + projection*float64(i+1)))
	}
	return x
}
