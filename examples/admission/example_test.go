package admission_test

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// The pool has ten blocks of sixteen tokens. A request of up to a hundred tokens needs
// seven of them, so the second request has to wait for the first.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 64},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 16, Blocks: 10},
	}))
	defer pool.Close()

	first := must(admit(pool, 100))
	_, err := admit(pool, 100)
	var full kvcache.ErrOutOfBlocks
	fmt.Println(errors.As(err, &full), full.Need, full.Free) // the request waits in the server's queue

	check(first.Release()) // also gives back the reserved blocks that it did not use
	second := must(admit(pool, 100))
	fmt.Println(second.Len(), must(pool.Stats()).Reserved)
	// Output:
	// true 7 3
	// 0 7
}

// admit opens a sequence that can grow to the given number of tokens, whatever other
// sequences do.
func admit(pool *kvcache.Pool[*cpu.Buffer], tokens int) (*kvcache.Sequence[*cpu.Buffer], error) {
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	if err != nil {
		return nil, err
	}
	if err := pool.Reserve(kvcache.Reservation[*cpu.Buffer]{Seq: seq, Tokens: tokens}); err != nil {
		return nil, errors.Join(err, seq.Release())
	}
	return seq, nil
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
