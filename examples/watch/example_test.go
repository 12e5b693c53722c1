package watch_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

const kvHeads, headDim = 2, 64

// index is what a router knows of one process: the keys of its cached blocks. In a real
// router the events come over the network.
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

// cached returns how many of a prompt's tokens are in the blocks that the process has.
func (ix *index) cached(prompt []uint32) int {
	for i, key := range ix.root.Keys(nil, ix.blockSize, prefix.Query{Tokens: prompt}) {
		if !ix.keys[key] {
			return i * ix.blockSize
		}
	}
	return len(prompt)
}

func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	cfg := kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: kvHeads, HeadDim: headDim, Digest: []byte("digest of the weights")},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Blocks: 4},
	}
	pool := must(kvcache.NewPool(be, cfg))
	defer pool.Close()
	events, present, err := pool.Watch(100) // present: what is cached already
	check(err)
	defer pool.Unwatch(events)

	model := must(cfg.Fingerprint())
	ix := &index{root: model.Root(prefix.Scope{}), blockSize: cfg.Memory.BlockSize, keys: map[prefix.Key]bool{}}
	for _, e := range present {
		ix.apply(e)
	}
	report := func(when string) {
		for len(events.C) > 0 {
			e := <-events.C
			if e.Lost > 0 {
				panic("events were lost: call Watch again and build the index from the start")
			}
			ix.apply(e)
		}
		fmt.Println(when, ix.cached([]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}))
	}
	report("at first")
	serve(be, pool, []uint32{1, 2, 3, 4, 5, 6, 7, 8})
	report("after the prompt")
	serve(be, pool, []uint32{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21})
	report("after another, which takes 3 of the 4 blocks")
	// Output:
	// at first 0
	// after the prompt 8
	// after another, which takes 3 of the 4 blocks 4
}

// serve computes a prompt.
func serve(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], prompt []uint32) {
	seq, match, err := pool.Open(prompt, kvcache.OpenOptions{})
	check(err)
	rest := prompt[match.Cached:]

	stream, step := must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	defer step.Close()
	rows := make([]float32, len(rest)*kvHeads*headDim) // a model computes keys and values
	kv := must(backend.AllocFrom(be, stream, backend.F32, rows))
	defer be.Free(kv)

	check(step.Add(seq, rest))
	check(step.Plan(stream))
	check(step.Append(0, kvcache.LayerIO[*cpu.Buffer]{K: backend.Dense(kv), V: backend.Dense(kv)}))
	check(step.Commit())
	check(seq.Release())
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
