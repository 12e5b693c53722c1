package host_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/host"
)

// Four answers to one prompt share the prompt's blocks. Each copies only the block that it writes to, the last one of the prompt.
func ExamplePagedKvCache() {
	const kvDim = 8 * 128 // KV heads × head dim
	store, err := host.NewBlockStore[float32](128, host.DefaultPagedBlockSize, kvDim)
	check(err)
	prompt, err := store.NewCache(4096)
	check(err)
	defer prompt.Release()
	row := make([]float32, kvDim) // a token's keys; a model computes them
	for range 1000 {
		check(prompt.Append(row))
	}
	tokens, apart := prompt.Len(), prompt.BlocksInUse()
	for answer := range 4 {
		fork, err := prompt.Clone()
		check(err)
		defer fork.Release()
		row[0] = float32(answer)
		for range 24 {
			check(fork.Append(row))
		}
		tokens, apart = tokens+fork.Len(), apart+fork.BlocksInUse()
		last, err := fork.Token(fork.Len() - 1)
		check(err)
		fmt.Println(fork, "ends with", last[0])
	}
	fmt.Printf("%d tokens in %d blocks of 64 KiB; apart they would take %d\n", tokens, store.BlocksInUse(), apart)
	// Output:
	// PagedKvCache(len=1024, max=4096, dim=1024, blocks=64/128) ends with 0
	// PagedKvCache(len=1024, max=4096, dim=1024, blocks=64/128) ends with 1
	// PagedKvCache(len=1024, max=4096, dim=1024, blocks=64/128) ends with 2
	// PagedKvCache(len=1024, max=4096, dim=1024, blocks=64/128) ends with 3
	// 5096 tokens in 71 blocks of 64 KiB; apart they would take 319
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
