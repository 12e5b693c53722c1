// Package quant stores a sequence's keys and values quantized, in host memory, and evicts those
// that a policy can spare: for programs that compute attention themselves. Its blocks are those of
// package host, its codecs those of the paged pools.
//
// A number is stored as a code of 2, 3, 4 or 8 bits. Codes are bit-packed, in groups that share a
// scale and a zero point, 4 bytes together (see backend/quant.Affine). With 8 bits the group is a
// head, as in int8asym of the pools; with fewer bits a group has 32 numbers, as in int4.
package quant

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/memory"
)

// CacheManager is the quantized keys and values of one sequence, layer by layer. Layer returns one
// of the layers. The methods of the manager itself that concern one layer's tokens are for caches
// of a single layer, and ErrArgument on others.
//
// It may be used, with all its layers, by one goroutine at a time. It must not be copied.
type CacheManager struct {
	cfg    KVCacheConfig
	format format
	memory *memory.Memory[byte] // of all layers; nil: not made by New
	layers []Layer

	// Working memory of calls.
	pending rows      // a token before it has a place
	head    []float32 // to saturate without touching the caller's
	keep    [][]int   // of one layer
	holes   []int
	mass    []float32
	scratch evict.Scratch
}

// New returns an empty cache. A block of 16 tokens is allocated when a layer first needs it.
// backend.ErrConfig when cfg is not valid.
func New(cfg KVCacheConfig) (*CacheManager, error) {
	cfg, limits, err := cfg.resolved()
	if err != nil {
		return nil, err
	}
	f := formatOf(cfg)
	m, err := memory.NewOnDemand[byte](f.size(), blockSize)
	if err != nil {
		return nil, err
	}
	c := &CacheManager{cfg: cfg, format: f, memory: m, pending: m.Room(1), head: make([]float32, f.dim)}
	c.layers = make([]Layer, cfg.Layers)
	for i := range c.layers {
		c.layers[i] = Layer{cache: c, index: i, limit: limits[i]}
	}
	return c, nil
}

// Config is the configuration with its defaults filled in.
func (c *CacheManager) Config() KVCacheConfig { return c.cfg }

// Layer returns one layer of the cache, which shares its memory. ErrArgument when there is no such
// layer.
func (c *CacheManager) Layer(i int) (*Layer, error) { return c.layer("layer", i) }

func (c *CacheManager) layer(op string, i int) (*Layer, error) {
	if i < 0 || i >= len(c.layers) {
		return nil, backend.ErrArgument{Package: "quant", Op: op, What: fmt.Sprintf("layer %d: the cache has %d", i, len(c.layers))}
	}
	return &c.layers[i], nil
}

// only is the layer of a cache that has one.
func (c *CacheManager) only(op string) (*Layer, error) {
	if len(c.layers) != 1 {
		return nil, backend.ErrArgument{Package: "quant", Op: op, What: fmt.Sprintf("the cache has %d layers; call it on one of them: see Layer", len(c.layers))}
	}
	return &c.layers[0], nil
}

// Len is the number of tokens held, of all layers together.
func (c *CacheManager) Len() int {
	n := 0
	for i := range c.layers {
		n += c.layers[i].Len()
	}
	return n
}

// IsEmpty reports whether Len is 0.
func (c *CacheManager) IsEmpty() bool { return c.Len() == 0 }

// Append appends a token to a layer; see Layer.Append.
func (c *CacheManager) Append(key, value []float32, layer int) error {
	l, err := c.layer("append", layer)
	if err != nil {
		return err
	}
	return l.Append(key, value)
}

// Get is Layer.Get on the only layer.
func (c *CacheManager) Get(positions []int) (keys, values [][]float32, err error) {
	l, err := c.only("get")
	if err != nil {
		return nil, nil, err
	}
	return l.Get(positions)
}

// GetInto is Layer.GetInto on the only layer.
func (c *CacheManager) GetInto(keys, values []float32, positions []int) error {
	l, err := c.only("get")
	if err != nil {
		return err
	}
	return l.GetInto(keys, values, positions)
}

// Positions is Layer.Positions of the only layer.
func (c *CacheManager) Positions(dst []int) ([]int, error) {
	l, err := c.only("positions")
	if err != nil {
		return dst, err
	}
	return l.Positions(dst), nil
}

// Evict is Layer.Evict on the only layer.
func (c *CacheManager) Evict(budget int) error {
	l, err := c.only("evict")
	if err != nil {
		return err
	}
	return l.Evict(budget)
}

// UpdateAttentionScores is Layer.UpdateAttentionScores on the only layer.
func (c *CacheManager) UpdateAttentionScores(scores []float64) error {
	l, err := c.only("update attention scores")
	if err != nil {
		return err
	}
	return l.UpdateAttentionScores(scores)
}

// PyramidBudget is the budget that PyramidKV gives a layer of a model with totalLayers layers, when
// all layers together may hold MaxSeqLen tokens. The budgets fall linearly: see evict.PyramidKV,
// whose settings are those of the cache's policy if it is one. It is 0 for a layer that does not
// exist.
func (c *CacheManager) PyramidBudget(layer, totalLayers int) int {
	p, _ := c.cfg.EvictionPolicy.(evict.PyramidKV)
	return p.Budget(c.cfg.MaxSeqLen, layer, totalLayers)
}

// CompressionRatio is the bytes of a token in float32, divided by the bytes that it is stored in,
// including scales, zero points and padding to whole bytes.
func (c *CacheManager) CompressionRatio() float64 {
	if c.memory == nil {
		return 0
	}
	return float64(2*4*c.format.elements()) / float64(c.format.tokenBytes())
}

// MemoryBytes is the memory of the blocks that hold the layers' tokens, 16 tokens each, with their
// scales and zero points. Blocks that are not needed any more are freed. The 24 bytes of each token
// that describe it are not counted.
func (c *CacheManager) MemoryBytes() int64 {
	var bytes int64
	for i := range c.layers {
		bytes += c.layers[i].MemoryBytes()
	}
	return bytes
}
