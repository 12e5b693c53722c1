package quantized_test

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

const (
	dim    = 128
	tokens = 100
)

// The same tokens in several formats, compared with float32. Storage is all that differs.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	exact, _ := attend(be, kvcache.Storage{K: backend.F32})
	for _, f := range []struct {
		name    string
		storage kvcache.Storage
	}{
		{"f16", kvcache.Storage{K: backend.F16}},
		{"int8", kvcache.Storage{K: backend.Int8}},
		{"int8 keys, int4 values", kvcache.Storage{K: backend.Int8, V: backend.Int4}},
		{"int4, Hadamard", kvcache.Storage{K: backend.Int4, Hadamard: true}},
		{"KIVI", kvcache.Storage{K: backend.Int4Channel, V: backend.Int4, Residual: 32}},
	} {
		got, bytes := attend(be, f.storage)
		fmt.Printf("%-23s %3d bytes a token, off by less than %.0e\n", f.name, bytes, bound(exact, got))
	}
	// Output:
	// f16                     512 bytes a token, off by less than 1e-04
	// int8                    264 bytes a token, off by less than 1e-03
	// int8 keys, int4 values  212 bytes a token, off by less than 1e-02
	// int4, Hadamard          160 bytes a token, off by less than 1e-02
	// KIVI                    160 bytes a token, off by less than 1e-02
}

// attend fills a cache token by token. It returns the attention of the last token's query
// and the bytes of a token in the cache.
func attend(be *cpu.Backend, storage kvcache.Storage) ([]float32, int64) {
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: dim, Act: backend.F32},
		Storage: storage,
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 32, Capacity: 128, MaxSeqs: 1, Prefix: prefix.Off},
	}))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)

	var rows [4]*cpu.Buffer // q, k, v and out
	for i := range rows {
		rows[i] = must(be.Alloc(backend.F32, dim))
		defer be.Free(rows[i])
	}
	io := kvcache.Dense(rows[0], rows[1], rows[2], rows[3])
	for token := range uint32(tokens) {
		for i := range 3 {
			check(backend.Upload(be, stream, rows[i], 0, vector(token, i+1)))
		}
		check(step.Reset())
		check(step.Add(seq, []uint32{token}))
		check(step.Plan(stream))
		check(step.Append(0, io)) // with Hadamard it transforms the queries, too
		check(step.Attend(0, io))
		check(step.Commit())
	}
	out := make([]float32, dim)
	check(backend.Download(be, stream, out, rows[3], 0))
	return out, must(pool.Config().BytesPerToken())
}

// bound is the power of ten above the largest difference.
func bound(want, got []float32) float64 {
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(want[i]-got[i])))
	}
	return math.Pow(10, math.Ceil(math.Log10(worst)))
}

// vector stands for one of a model's projections of a token.
func vector(token uint32, projection int) []float32 {
	x, p := make([]float32, dim), float64(projection)
	for i := range x {
		x[i] = float32(math.Sin(float64(token)*(1+p/7) + p*float64(i+1)))
	}
	return x
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
