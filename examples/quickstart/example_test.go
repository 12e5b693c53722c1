package quickstart_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

func Example() {
	kv, err := ferrumkv.Open("cpu", kvcache.Config{ // "": the best device there is
		Model:  kvcache.Model{Layers: 2, QHeads: 4, KVHeads: 2, HeadDim: 64},
		Memory: kvcache.Memory{Layout: kvcache.Paged},
	})
	check(err)
	defer kv.Close()
	step, err := kv.NewStep() // reused for all steps
	check(err)
	prompt := make([]uint32, 40) // token ids
	for range 2 {
		seq, match, err := kv.Pool.Open(prompt, kvcache.OpenOptions{})
		check(err)
		n := match.Uncached                                        // tokens left to compute
		q, out := make([]float32, n*4*64), make([]float32, n*4*64) // [tokens, query heads, head dim]
		k, v := make([]float32, n*2*64), make([]float32, n*2*64)   // [tokens, KV heads, head dim]
		check(step.Add(seq, prompt[match.Cached:]))                // add more sequences to get a larger batch
		check(step.Plan())                                         // blocks, slots and work, once for all layers
		for layer := range 2 {
			// The model fills q, k and v here, and goes on with out afterwards.
			check(step.Attend(layer, ferrumkv.Rows{Q: q, K: k, V: v, Out: out}))
		}
		check(step.Commit()) // the sequence now has the tokens; full blocks can be reused
		fmt.Println("computed", n, "of", seq.Len(), "tokens")
		check(seq.Release()) // its blocks stay in the cache until others need the room
	}
	// Output:
	// computed 40 of 40 tokens
	// computed 1 of 40 tokens
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
