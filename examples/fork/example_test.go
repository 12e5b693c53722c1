package fork_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Four continuations of a prompt of 20 tokens, in blocks of 16.
func Example() {
	if err := continuations(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// prompt   2 blocks held
	// forks    2 blocks held, 6 saved
	// written  5 blocks held, 3 saved
	// released 0 blocks held
}

func continuations() error {
	be, err := cpu.Open(cpu.Options{})
	if err != nil {
		return err
	}
	defer be.Close()
	pool, err := kvcache.NewPool(be, kvcache.Config{Layout: kvcache.Paged, BlockSize: 16, Layers: 1, KVHeads: 2, HeadDim: 64, K: backend.F32})
	if err != nil {
		return err
	}
	defer pool.Close()

	prompt := make([]uint32, 20)
	seq, _, err := pool.Open(context.Background(), prompt)
	if err != nil {
		return err
	}
	if err := write(be, pool, prompt, seq); err != nil {
		return err
	}
	if err := report("prompt", pool); err != nil {
		return err
	}

	all := []*kvcache.Sequence[*cpu.Buffer]{seq}
	for range 3 {
		child, err := seq.Fork()
		if err != nil {
			return err
		}
		all = append(all, child)
	}
	if err := report("forks", pool); err != nil {
		return err
	}

	// One token each: the half-filled second block is everyone's own from here on,
	// the first one stays shared.
	if err := write(be, pool, []uint32{1}, all...); err != nil {
		return err
	}
	if err := report("written", pool); err != nil {
		return err
	}

	for _, s := range all {
		if err := s.Release(); err != nil {
			return err
		}
	}
	return report("released", pool)
}

// write appends the same tokens to every sequence, as one step.
func write(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], tokens []uint32, seqs ...*kvcache.Sequence[*cpu.Buffer]) error {
	stream, err := be.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	kv, err := backend.AllocFrom(be, stream, backend.F32, make([]float32, len(seqs)*len(tokens)*2*64))
	if err != nil {
		return err
	}
	defer be.Free(kv)
	step := pool.NewBatch()
	defer step.Close()
	for _, s := range seqs {
		if err := step.Add(s, tokens); err != nil {
			return err
		}
	}
	if err := step.Plan(stream); err != nil {
		return err
	}
	if err := step.Append(0, kv, kv); err != nil {
		return err
	}
	return step.Commit()
}

func report(when string, pool *kvcache.Pool[*cpu.Buffer]) error {
	s, err := pool.Stats()
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%-8s %d blocks held", when, s.Held)
	if saved := s.Logical - s.Held; saved > 0 {
		line += fmt.Sprintf(", %d saved", saved)
	}
	fmt.Println(line)
	return nil
}
