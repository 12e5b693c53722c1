package host_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/host"
)

// A runner stores what it computed for a prompt; the next prompt that begins alike
// computes the rest only.
func ExamplePrefixKvCache() {
	cache, err := host.NewPrefixKvCache[float32](host.PrefixCacheConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// One layer with rows of two elements, in blocks of a store that both sequences use.
	store, err := host.NewBlockStore[float32](64, host.DefaultPagedBlockSize, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	sequence := func() (keys, values *host.PagedKvCache[float32], layers *host.PagedLayers[float32], err error) {
		if keys, err = store.NewCache(256); err != nil {
			return
		}
		if values, err = store.NewCache(256); err != nil {
			return
		}
		layers, err = host.NewPagedLayers([]*host.PagedKvCache[float32]{keys}, []*host.PagedKvCache[float32]{values})
		return
	}
	keys, values, first, err := sequence()
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt := []uint32{5, 6, 7, 8, 9, 10}
	for _, token := range prompt {
		row := []float32{float32(token), 0.5} // a model would compute them
		if keys.Append(row) != nil || values.Append(row) != nil {
			fmt.Println("the store is full")
			return
		}
	}
	if _, err := cache.Store(prompt, first); err != nil {
		fmt.Println(err)
		return
	}

	next := []uint32{5, 6, 7, 8, 1, 2, 3}
	matched, state, ok := cache.Lookup(next[:len(next)-1]) // the last token's logits are needed
	fmt.Println("matched:", matched, ok)
	keys, _, second, err := sequence()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := cache.Restore(state, second); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("restored:", second.Len(), "tokens:", keys.AsTensor().Data)
	fmt.Println("to compute:", next[second.Len():])
	// Output:
	// matched: 4 true
	// restored: 4 tokens: [5 0.5 6 0.5 7 0.5 8 0.5]
	// to compute: [1 2 3]
}
