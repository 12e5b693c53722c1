package quant_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/quant"
)

// A cache of at most six tokens in 4 bits. The token that is looked at outlives its
// neighbours, under the position it always had.
func ExampleCacheManager() {
	c, err := quant.New(quant.KVCacheConfig{
		MaxSeqLen: 6, NumHeads: 1, HeadDim: 64, QuantizationBits: 4,
		EvictionPolicy: evict.H2O{Sinks: 1, Recent: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, value := make([]float32, 64), make([]float32, 64)
	for token := range 12 {
		for i := range key {
			key[i], value[i] = float32(token), float32(i)/64
		}
		if err := c.Append(key, value, 0); err != nil {
			fmt.Println(err)
			return
		}
		scores := make([]float64, c.Len()) // of a step that looks at token 3 only
		positions, _ := c.Positions(nil)
		for i, p := range positions {
			if p == 3 {
				scores[i] = 1
			}
		}
		if err := c.UpdateAttentionScores(scores); err != nil {
			fmt.Println(err)
			return
		}
	}
	positions, _ := c.Positions(nil)
	fmt.Println("held:", positions)
	keys, _, err := c.Get([]int{3})
	fmt.Printf("key 3: %.2f %v\n", keys[0][0], err)
	_, _, err = c.Get([]int{4})
	fmt.Println(err)
	fmt.Printf("%.1f times smaller than float32, %d bytes\n", c.CompressionRatio(), c.MemoryBytes())
	// Output:
	// held: [0 3 8 9 10 11]
	// key 3: 3.00 <nil>
	// quant: layer 0 has no position 4: it was evicted
	// 6.4 times smaller than float32, 1280 bytes
}
