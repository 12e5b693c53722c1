package host_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/host"
)

// A runner keeps its keys and values in tensors of f16, [seq, heads, dim] for each layer. It stores what it computed for a prompt; a
// prompt that begins alike restores that, and only the rest is computed.
func ExamplePrefixKvCache() {
	const layers, kvDim, capacity = 4, 2 * 64, 1024
	tensors := func() (all [][]uint16) {
		for range layers {
			all = append(all, make([]uint16, capacity*kvDim))
		}
		return all
	}
	cache, err := host.NewPrefixKvCache[uint16](host.PrefixCacheConfig{MaxBytes: 64 << 20})
	check(err)
	system := make([]uint32, 512) // tokens of a system prompt
	for question := range uint32(3) {
		prompt := append(append([]uint32(nil), system...), 7, question, 9, 9, 9)
		sequence, err := host.NewDense(tensors(), tensors(), kvDim, 0)
		check(err)
		matched, state, ok := cache.Lookup(prompt[:len(prompt)-1]) // the last token is computed for its logits
		if ok {
			check(cache.Restore(state, sequence))
		}
		fmt.Println("to compute:", len(prompt)-matched, "of", len(prompt))
		check(sequence.SetLen(len(prompt))) // the model has written the other rows
		_, err = cache.Store(prompt, sequence)
		check(err)
	}
	apart := 3 * 517 * layers * 2 * kvDim * 2
	fmt.Printf("%d prompts in %.2f MiB; apart their rows would take %.2f\n", cache.Len(), float64(cache.MemoryUsage())/(1<<20), float64(apart)/(1<<20))
	// Output:
	// to compute: 517 of 517
	// to compute: 4 of 517
	// to compute: 4 of 517
	// 3 prompts in 1.04 MiB; apart their rows would take 3.03
}
