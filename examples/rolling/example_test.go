package rolling_test

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

const (
	dim   = 8
	sinks = 4 // first tokens that always stay, as in StreamingLLM (arXiv:2309.17453)
	drop  = 4 // tokens dropped at a time; a whole block is dropped without moving slots
)

// Forty tokens go through a cache of sixteen. The attention of the last one equals what
// it is in a sequence that never had more than the kept tokens.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: dim, RoPE: &backend.RoPE{}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Capacity: 16},
	}))
	defer pool.Close()
	r := newRunner(be, pool)

	rolling, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)
	var kept []uint32
	var got []float32
	for token := range uint32(40) {
		if rolling.Len() == pool.Config().Memory.Capacity {
			check(rolling.Shift(r.stream, sinks, sinks+drop))
			kept = append(kept[:sinks], kept[sinks+drop:]...)
		}
		got, kept = r.decode(rolling, token), append(kept, token)
	}
	fmt.Println("kept", kept, "in", len(rolling.Blocks(nil)), "blocks")

	short, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)
	var want []float32
	for _, token := range kept {
		want = r.decode(short, token)
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			fmt.Println("element", i, "is", got[i], "and not", want[i])
		}
	}
	// Output: kept [0 1 2 3 28 29 30 31 32 33 34 35 36 37 38 39] in 4 blocks
}

// runner is a model of one layer.
type runner struct {
	be           *cpu.Backend
	stream       backend.Stream
	step         *kvcache.Batch[*cpu.Buffer]
	q, k, v, out *cpu.Buffer
}

func newRunner(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer]) *runner {
	row := func() *cpu.Buffer { return must(be.Alloc(backend.F32, dim)) }
	return &runner{be, must(be.NewStream()), pool.NewBatch(), row(), row(), row(), row()}
}

// decode appends a token to a sequence and returns its attention.
func (r *runner) decode(seq *kvcache.Sequence[*cpu.Buffer], token uint32) []float32 {
	for i, b := range []*cpu.Buffer{r.q, r.k, r.v} {
		check(backend.Upload(r.be, r.stream, b, 0, vector(token, float64(i+1))))
	}
	io := kvcache.Dense(r.q, r.k, r.v, r.out)
	io.Rotate = true // q and k are as projected; Append rotates q in place
	check(r.step.Reset())
	check(r.step.Add(seq, []uint32{token}))
	check(r.step.Plan(r.stream))
	check(r.step.Append(0, io))
	check(r.step.Attend(0, io))
	check(r.step.Commit())
	out := make([]float32, dim)
	check(backend.Download(r.be, r.stream, out, r.out, 0))
	return out
}

// vector stands for one of a model's projections of a token.
func vector(token uint32, projection float64) []float32 {
	x := make([]float32, dim)
	for i := range x {
		x[i] = float32(math.Sin(float64(token) + projection*float64(i+1)))
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
