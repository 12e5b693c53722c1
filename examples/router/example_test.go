package router_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// What a router knows of one process: the keys of its blocks. The events would come to
// it over the network.
type index struct {
	root      prefix.Root
	blockSize int
	keys      map[prefix.Key]bool
}

func (ix *index) apply(e prefix.Event) {
	switch e.Kind {
	case prefix.Stored:
		for _, key := range e.Keys {
			ix.keys[key] = true
		}
	case prefix.Removed:
		for _, key := range e.Keys {
			delete(ix.keys, key)
		}
	case prefix.Cleared:
		clear(ix.keys)
	}
}

// tokens is how many of a prompt's tokens the process has.
func (ix *index) tokens(prompt []uint32) int {
	for i, key := range ix.root.Keys(nil, ix.blockSize, prefix.Query{Tokens: prompt}) {
		if !ix.keys[key] {
			return i * ix.blockSize
		}
	}
	return len(prompt)
}

func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	cfg := kvcache.Config{Layout: kvcache.Paged, BlockSize: 4, Blocks: 4, Layers: 1, KVHeads: 2, HeadDim: 64, K: backend.F32, Model: []byte("digest of the weights")}
	pool := demo.Must(kvcache.NewPool(be, cfg))
	defer pool.Close()
	events, have, err := pool.Watch(100) // what is there already comes first
	demo.Check(err)

	model := demo.Must(cfg.Fingerprint())
	ix := &index{root: model.Root(prefix.Scope{}), blockSize: cfg.BlockSize, keys: map[prefix.Key]bool{}}
	for _, e := range have {
		ix.apply(e)
	}
	ask := func(when string) {
		for len(events.C) > 0 {
			e := <-events.C
			if e.Lost > 0 {
				panic("watch anew: the index is no longer right")
			}
			ix.apply(e)
		}
		fmt.Println(when, ix.tokens([]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}))
	}
	ask("at first")
	serve(be, pool, []uint32{1, 2, 3, 4, 5, 6, 7, 8})
	ask("after the prompt")
	serve(be, pool, []uint32{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21})
	ask("after another, of 3 of the 4 blocks")
	// Output:
	// at first 0
	// after the prompt 8
	// after another, of 3 of the 4 blocks 4
}

// serve computes a prompt.
func serve(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], prompt []uint32) {
	seq, match, err := pool.Open(context.Background(), prompt)
	demo.Check(err)
	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	defer step.Close()
	kv := demo.Zeros(be, stream, match.Recompute*2*64) // a model would compute them
	defer be.Free(kv)
	demo.Check(step.Add(seq, prompt[match.Matched:]))
	demo.Check(step.Plan(stream))
	demo.Check(step.Append(0, kv, kv))
	demo.Check(step.Commit())
	demo.Check(seq.Release())
}
