package prefix_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

const kvHeads, headDim = 2, 64

// A system prompt of 40 tokens, two and a half blocks of 16, comes before what users say.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: kvHeads, HeadDim: headDim},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 16},
	}))
	defer pool.Close()

	system := tokens(0, 40)
	ann := slices.Concat(system, tokens(1, 10))
	ben := slices.Concat(system, tokens(2, 20))

	// They share two and a half blocks. Ben's tokens go into a copy of the half one.
	everyone := kvcache.OpenOptions{}
	serve(be, pool, "ann", ann, everyone)
	serve(be, pool, "ben", ben, everyone)

	// The prompt of the next turn is the conversation until now, and the new tokens.
	serve(be, pool, "ann again", slices.Concat(ann, tokens(3, 16)), everyone)

	// A tenant shares only with the sequences of the same salt.
	acme := kvcache.OpenOptions{Scope: prefix.Scope{Salt: []byte("acme")}}
	serve(be, pool, "acme", ann, acme)
	serve(be, pool, "acme again", ann, acme)

	// No sequence holds the blocks now, so new sequences may evict them. Pin keeps those
	// of the system prompt for an hour.
	lease := must(pool.Pin(system, time.Hour, everyone))
	fmt.Println("pinned", lease.Match.Tokens, "tokens")
	check(pool.Unpin(lease))

	stats := must(pool.Stats())
	fmt.Println(stats.Held, "blocks held,", stats.Cached, "cached;", stats.Prefix.TokensHit, "tokens were not computed")
	// Output:
	// ann        has 50 tokens, computes 50
	// ben        has 60 tokens, computes 20
	// ann again  has 66 tokens, computes 16
	// acme       has 50 tokens, computes 50
	// acme again has 50 tokens, computes 1
	// pinned 32 tokens
	// 0 blocks held, 11 cached; 139 tokens were not computed
}

// serve computes what the pool does not have of a prompt, in one step.
func serve(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], who string, prompt []uint32, o kvcache.OpenOptions) {
	seq, match, err := pool.Open(prompt, o)
	check(err)
	rest := prompt[match.Cached:]
	fmt.Printf("%-10s has %d tokens, computes %d\n", who, len(prompt), len(rest))

	stream, step := must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	defer step.Close()
	rows := make([]float32, len(rest)*kvHeads*headDim) // a model computes keys and values
	kv := must(backend.AllocFrom(be, stream, backend.F32, rows))
	defer be.Free(kv)

	check(step.Add(seq, rest))
	check(step.Plan(stream))
	check(step.Append(0, kvcache.LayerIO[*cpu.Buffer]{K: backend.Dense(kv), V: backend.Dense(kv)}))
	check(step.Commit()) // from here on other sequences find its full blocks
	check(seq.Release())
}

// tokens stands for a tokenizer: n tokens that differ from those of every other text.
func tokens(text uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = 1000*text + uint32(i)
	}
	return out
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
