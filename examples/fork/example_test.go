package fork_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

const kvHeads, headDim = 2, 64

// Four continuations of a prompt of 20 tokens, in blocks of 16.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: kvHeads, HeadDim: headDim},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 16},
	}))
	defer pool.Close()

	prompt := make([]uint32, 20)
	seq, match, err := pool.Open(prompt, kvcache.OpenOptions{})
	check(err)
	write(be, pool, prompt[match.Cached:], seq)
	report("prompt", pool)

	all := []*kvcache.Sequence[*cpu.Buffer]{seq}
	for range 3 {
		all = append(all, must(seq.Fork()))
	}
	report("forks", pool)

	// One token each: from here on every sequence has its own copy of the half-filled
	// second block. The first block stays shared.
	write(be, pool, []uint32{1}, all...)
	report("written", pool)

	for _, s := range all {
		check(s.Release())
	}
	report("released", pool)
	// Output:
	// prompt   2 blocks held
	// forks    2 blocks held, 6 saved
	// written  5 blocks held, 3 saved
	// released 0 blocks held
}

// write appends the same tokens to every sequence, in one step.
func write(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], tokens []uint32, seqs ...*kvcache.Sequence[*cpu.Buffer]) {
	stream, step := must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	defer step.Close()
	rows := make([]float32, len(seqs)*len(tokens)*kvHeads*headDim) // a model computes keys and values
	kv := must(backend.AllocFrom(be, stream, backend.F32, rows))
	defer be.Free(kv)

	for _, s := range seqs {
		check(step.Add(s, tokens))
	}
	check(step.Plan(stream))
	check(step.Append(0, kvcache.LayerIO[*cpu.Buffer]{K: backend.Dense(kv), V: backend.Dense(kv)}))
	check(step.Commit())
}

func report(when string, pool *kvcache.Pool[*cpu.Buffer]) {
	s := must(pool.Stats())
	line := fmt.Sprintf("%-8s %d blocks held", when, s.Held)
	if saved := s.Logical - s.Held; saved > 0 {
		line += fmt.Sprintf(", %d saved", saved)
	}
	fmt.Println(line)
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
