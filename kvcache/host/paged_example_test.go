package host_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/host"
)

// A prompt is stored once; two continuations share it and copy only the block that
// they both write to.
func ExamplePagedKvCache() {
	store, err := host.NewBlockStore[float32](64, host.DefaultPagedBlockSize, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt, err := store.NewCache(256)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prompt.Release()
	for i := range 20 {
		if err := prompt.Append([]float32{float32(i), 0.5}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fork, err := prompt.Clone()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fork.Release()
	fmt.Println("shared: ", store.BlocksInUse())
	if err := fork.Append([]float32{-1, -1}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written:", store.BlocksInUse())
	fmt.Println(prompt)
	fmt.Println(fork)
	for first, rows := range fork.Blocks() {
		fmt.Println(first, len(rows)/2, "tokens, the last", rows[len(rows)-2:])
	}
	// Output:
	// shared:  2
	// written: 3
	// PagedKvCache(len=20, max=256, dim=2, blocks=2/16)
	// PagedKvCache(len=21, max=256, dim=2, blocks=2/16)
	// 0 16 tokens, the last [15 0.5]
	// 16 5 tokens, the last [-1 -1]
}
