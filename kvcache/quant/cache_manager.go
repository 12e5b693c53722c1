// Package quant holds a sequence's keys and values in few bits, in host memory, and lets
// go of those that an eviction policy can spare: for programs that compute
// attention themselves. Its blocks are those of package host, its codecs those of the paged pools.
//
// A number is a code of 2, 3, 4 or 8 bits, bit-packed, in groups that share a scale and a
// zero point of 4 bytes together (see backend/quant.Affine): a head is one group at 8
// bits, as in the pools' int8asym, and groups of 32 at fewer, as in their int4.
package quant

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/memory"
)

// CacheManager is the quantized keys and values of one sequence, layer by layer, made by
// New. Layer
// gives one of the layers; the calls on the manager that concern one layer's tokens are
// for caches of a single one, and an ErrShape on others.
//
// It may be used by one goroutine at a time, with all its layers. It must not be copied.
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

// New returns an empty cache. It allocates next to nothing: a block of 16 tokens is
// allocated when a layer first needs it. The error is a backend.ErrConfig.
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

// Layer is a view of one layer. ErrShape when there is no such layer.
func (c *CacheManager) Layer(i int) (*Layer, error) { return c.layer("layer", i) }

func (c *CacheManager) layer(op string, i int) (*Layer, error) {
	if i < 0 || i >= len(c.layers) {
		return nil, backend.ErrShape{Package: "quant", Op: op, What: fmt.Sprintf("layer %d: the cache has %d", i, len(c.layers))}
	}
	return &c.layers[i], nil
}

// only is the layer of a cache that has one.
func (c *CacheManager) only(op string) (*Layer, error) {
	if len(c.layers) != 1 {
		return nil, backend.ErrShape{Package: "quant", Op: op, What: fmt.Sprintf("the cache has %d layers; call it on one of them: see Layer", len(c.layers))}
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

// Append is Layer.Append on a layer.
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

// PyramidBudget is what PyramidKV gives a layer of a model with so many layers, if all
// layers together may hold MaxSeqLen tokens; added up over the layers it is MaxSeqLen.
// The budgets fall linearly: evict.PyramidKV says how, with the settings of this cache's
// policy if that is one. 0 for a layer that there is not.
func (c *CacheManager) PyramidBudget(layer, totalLayers int) int {
	p, _ := c.cfg.EvictionPolicy.(evict.PyramidKV)
	return p.Budget(c.cfg.MaxSeqLen, layer, totalLayers)
}

// CompressionRatio is the bytes of a token in float32 over the bytes it is stored in, its
// scales, zero points and the rounding of heads to whole bytes included.
func (c *CacheManager) CompressionRatio() float64 {
	if c.memory == nil {
		return 0
	}
	return float64(2*4*c.format.elements()) / float64(c.format.tokenBytes())
}

// MemoryBytes is the bytes of the blocks that hold the layers' tokens, 16 tokens each, with
// their scales and zero points: as much as is allocated for them, for blocks that are not
// needed any more are dropped. What a layer knows of a token, 24 bytes, is not counted.
func (c *CacheManager) MemoryBytes() int64 {
	var bytes int64
	for i := range c.layers {
		bytes += c.layers[i].MemoryBytes()
	}
	return bytes
}
