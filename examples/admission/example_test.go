package admission_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Ten blocks of sixteen tokens, and requests of up to a hundred tokens, which is
// seven blocks each: the second has to wait for the first.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, Blocks: 10, Layers: 1, KVHeads: 1, HeadDim: 64, K: backend.F32,
	}))
	defer pool.Close()

	first := demo.Must(admit(pool, 100))
	_, err := admit(pool, 100)
	var full kvcache.ErrOutOfBlocks
	fmt.Println(errors.As(err, &full), full.Need, full.Free) // it waits in the server's queue

	demo.Check(first.Release()) // what it did not use is free again, too
	second := demo.Must(admit(pool, 100))
	fmt.Println(second.Len(), demo.Must(pool.Stats()).Reserved)
	// Output:
	// true 7 3
	// 0 7
}

// admit opens a sequence that can grow to so many tokens whatever comes after it.
func admit(pool *kvcache.Pool[*cpu.Buffer], tokens int) (*kvcache.Sequence[*cpu.Buffer], error) {
	seq, _, err := pool.Open(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	if err := pool.Reserve(kvcache.Reservation[*cpu.Buffer]{Seq: seq, Tokens: tokens}); err != nil {
		return nil, errors.Join(err, seq.Release())
	}
	return seq, nil
}
