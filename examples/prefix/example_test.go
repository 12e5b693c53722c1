package prefix_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// A system prompt of 40 tokens, two and a half blocks of 16, before what users say.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := demo.Must(kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, BlockSize: 16, Layers: 1, KVHeads: 2, HeadDim: 64, K: backend.F32,
	}))
	defer pool.Close()

	system := make([]uint32, 40) // its tokens would differ; here they are all 0
	ann := append(slices.Clone(system), tokens(1, 10)...)
	ben := append(slices.Clone(system), tokens(2, 20)...)

	// The half block that ben shares is copied when he writes into it.
	serve(be, pool, "ann", ann)
	serve(be, pool, "ben", ben)

	// The next turn is everything so far, and what is new.
	serve(be, pool, "ann again", append(ann, tokens(3, 16)...))

	// Other tenants share among themselves only.
	acme := kvcache.OpenOptions{Scope: prefix.Scope{Salt: []byte("acme")}}
	serve(be, pool, "acme", ann, acme)
	serve(be, pool, "acme again", ann, acme)

	// Nobody holds the blocks now, so they may go when others need room: but not these,
	// for an hour.
	lease := demo.Must(pool.Pin(system, time.Hour))
	fmt.Println("pinned", lease.Match.Tokens, "tokens")
	demo.Check(pool.Unpin(lease))

	stats := demo.Must(pool.Stats())
	fmt.Println(stats.Held, "blocks held,", stats.Cached, "cached;", stats.Prefix.TokensFound, "tokens were not computed")
	// Output:
	// ann        has 50 tokens, computes 50
	// ben        has 60 tokens, computes 20
	// ann again  has 66 tokens, computes 18
	// acme       has 50 tokens, computes 50
	// acme again has 50 tokens, computes 2
	// pinned 32 tokens
	// 0 blocks held, 8 cached; 136 tokens were not computed
}

// serve computes what the pool does not have of a prompt, in one step.
func serve(be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], who string, prompt []uint32, opts ...kvcache.OpenOptions) {
	seq, match, err := pool.Open(context.Background(), prompt, opts...)
	demo.Check(err)
	fmt.Printf("%-10s has %d tokens, computes %d\n", who, len(prompt), match.Recompute)

	stream, step := demo.Must(be.NewStream()), pool.NewBatch()
	defer stream.Close()
	defer step.Close()
	kv := demo.Zeros(be, stream, match.Recompute*2*64) // a model would compute them
	defer be.Free(kv)
	demo.Check(step.Add(seq, prompt[match.Matched:]))
	demo.Check(step.Plan(stream))
	demo.Check(step.Append(0, kv, kv))
	demo.Check(step.Commit()) // from here on others find its full blocks
	demo.Check(seq.Release())
}

// tokens are n tokens that nobody else's are equal to.
func tokens(from uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = 1000*from + uint32(i)
	}
	return out
}
