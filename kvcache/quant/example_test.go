package quant_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/quant"
)

// Each width of codes, with normal noise as keys: the memory of a token, and the largest error as a part of the largest number.
func ExampleCacheManager() {
	rng := rand.New(rand.NewPCG(1, 2))
	key := make([]float32, 8*128)
	largest := 0.0
	for i := range key {
		key[i] = float32(rng.NormFloat64())
		largest = max(largest, math.Abs(float64(key[i])))
	}
	for _, bits := range []int{8, 4, 3, 2} {
		c, err := quant.New(quant.KVCacheConfig{MaxSeqLen: 4096, NumHeads: 8, HeadDim: 128, QuantizationBits: bits})
		check(err)
		for range 16 {
			check(c.Append(key, key, 0))
		}
		keys, _, err := c.Get([]int{3})
		check(err)
		worst := 0.0
		for i, x := range keys[0] {
			worst = max(worst, math.Abs(float64(x-key[i])))
		}
		fmt.Printf("%d bits: %d bytes a token, %.1f times fewer than float32, error %.3f\n", bits, c.MemoryBytes()/16, c.CompressionRatio(), worst/largest)
	}
	// Output:
	// 8 bits: 2112 bytes a token, 3.9 times fewer than float32, error 0.004
	// 4 bits: 1280 bytes a token, 6.4 times fewer than float32, error 0.060
	// 3 bits: 1024 bytes a token, 8.0 times fewer than float32, error 0.123
	// 2 bits: 768 bytes a token, 10.7 times fewer than float32, error 0.299
}

// A layer of at most six tokens. The token that is looked at outlives its neighbours, under the position that it always had.
func ExampleCacheManager_evict() {
	c, err := quant.New(quant.KVCacheConfig{
		MaxSeqLen: 6, NumHeads: 1, HeadDim: 64, QuantizationBits: 4,
		EvictionPolicy: evict.H2O{Sinks: 1, Recent: 2},
	})
	check(err)
	key, value := make([]float32, 64), make([]float32, 64)
	for token := range 12 {
		for i := range key {
			key[i], value[i] = float32(token), float32(i)/64
		}
		check(c.Append(key, value, 0))
		scores := make([]float64, c.Len()) // of a step that looks at token 3 only
		positions, err := c.Positions(nil)
		check(err)
		for i, p := range positions {
			if p == 3 {
				scores[i] = 1
			}
		}
		check(c.UpdateAttentionScores(scores))
	}
	positions, err := c.Positions(nil)
	check(err)
	fmt.Println("held:", positions)
	_, _, err = c.Get([]int{4})
	fmt.Println(err)
	// Output:
	// held: [0 3 8 9 10 11]
	// quant: layer 0 has no position 4: it was evicted
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
