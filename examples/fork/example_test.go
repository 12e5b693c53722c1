package fork_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Four continuations of a prompt of 20 tokens, in blocks of 16.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, BlockSize: 16, Layers: 1, KVHeads: 2, HeadDim: 64, K: backend.F32,
	}))
	defer pool.Close()

	prompt := make([]uint32, 20)
	seq, match, err := pool.Open(context.Background(), prompt)
	demo.Check(err)
	write(be, pool, prompt[match.Matched:], seq)
	report("prompt", pool)

	all := []*kvcache.Sequence[*cpu.Buffer]{seq}
	for range 3 {
		all = append(all, demo.Must(seq.Fork()))
	}
	report("forks", pool)

	// One token each: the half-filled second block is everyone's own from here on,
	// the first one stays shared.
	write(be, pool, []uint32{1}, all...)
	report("written", pool)

	for _, s := range all {
		demo.Check(s.Release())
	}
	report("released", pool)
	// Output:
	// prompt   2 blocks held
	// forks    2 blocks held, 6 saved
	// written  5 blocks held, 3 saved
	// released 0 blocks held
}

// write appends the same tokens to every sequence, as one step.
func write(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], tokens []uint32, seqs ...*kvcache.Sequence[*cpu.Buffer]) {
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	defer step.Close()
	kv := demo.Zeros(be, stream, len(seqs)*len(tokens)*2*64)
	defer be.Free(kv)
	for _, s := range seqs {
		demo.Check(step.Add(s, tokens))
	}
	demo.Check(step.Plan(stream))
	demo.Check(step.Append(0, kv, kv))
	demo.Check(step.Commit())
}

func report(when string, pool *kvcache.Pool[*cpu.Buffer]) {
	s := demo.Must(pool.Stats())
	line := fmt.Sprintf("%-8s %d blocks held", when, s.Held)
	if saved := s.Logical - s.Held; saved > 0 {
		line += fmt.Sprintf(", %d saved", saved)
	}
	fmt.Println(line)
}
