package quant

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
)

// DefaultBits is the width of a code when a config does not say. It costs a model nothing that can
// be measured.
const DefaultBits = 8

// KVCacheConfig configures a CacheManager. MaxSeqLen, NumHeads and HeadDim are required.
type KVCacheConfig struct {
	// MaxSeqLen is the most tokens of a layer. Under a policy with different budgets for layers
	// (PyramidKV) it is the most tokens of all layers together.
	MaxSeqLen int
	// NumHeads and HeadDim are the shape of a token's keys, and of its values:
	// [NumHeads, HeadDim].
	NumHeads, HeadDim int
	// QuantizationBits is the bits of a stored number: 2, 3, 4 or 8; 0: DefaultBits.
	QuantizationBits int
	// EvictionPolicy decides which tokens stay when a layer is full; nil: evict.Recency. Policies
	// that read scores get the sums of those passed to UpdateAttentionScores.
	EvictionPolicy evict.Policy
	// Layers is the number of layers; 0: 1.
	Layers int
	// Saturate stores values that are not finite as finite ones: an infinity as the largest of its
	// group, NaN as 0. Without it they are an error.
	Saturate bool
}

const (
	maxLayers   = 1 << 16 // more than any model has
	maxElements = 1 << 22 // of a token's keys in a layer: likewise
)

// resolved is the config with its defaults, and how many tokens each layer may hold. The
// error is a backend.ErrConfig.
func (cfg KVCacheConfig) resolved() (KVCacheConfig, []int, error) {
	if cfg.QuantizationBits == 0 {
		cfg.QuantizationBits = DefaultBits
	}
	if cfg.EvictionPolicy == nil {
		cfg.EvictionPolicy = evict.Recency{}
	}
	if cfg.Layers == 0 {
		cfg.Layers = 1
	}
	switch elements, ok := backend.Mul(cfg.NumHeads, cfg.HeadDim); {
	case cfg.NumHeads < 1:
		return cfg, nil, badConfig("NumHeads", cfg.NumHeads, "need at least 1")
	case cfg.HeadDim < 1:
		return cfg, nil, badConfig("HeadDim", cfg.HeadDim, "need at least 1")
	case !ok || elements > maxElements:
		return cfg, nil, badConfig("HeadDim", cfg.HeadDim, fmt.Sprintf("with NumHeads=%d a token has more than %d elements", cfg.NumHeads, maxElements))
	case !slices.Contains([]int{2, 3, 4, 8}, cfg.QuantizationBits):
		return cfg, nil, badConfig("QuantizationBits", cfg.QuantizationBits, "need 2, 3, 4 or 8")
	case cfg.Layers < 1 || cfg.Layers > maxLayers:
		return cfg, nil, badConfig("Layers", cfg.Layers, fmt.Sprintf("need 1 to %d", maxLayers))
	case cfg.MaxSeqLen < 1:
		return cfg, nil, badConfig("MaxSeqLen", cfg.MaxSeqLen, "need at least 1")
	}
	if err := cfg.EvictionPolicy.Validate(); err != nil {
		return cfg, nil, cfg.badPolicy(err)
	}
	blocks, ok := backend.Mul(cfg.Layers, (cfg.MaxSeqLen-1)/blockSize+1)
	if _, fits := backend.Mul(blocks, formatOf(cfg).blockBytes()); !ok || !fits || uint64(blocks) >= math.MaxUint32 {
		return cfg, nil, badConfig("MaxSeqLen", cfg.MaxSeqLen, "needs more memory than there can be")
	}
	limits, err := cfg.limits()
	return cfg, limits, err
}

// limits is how many tokens each layer may hold. Layers with equal budgets have MaxSeqLen
// each. No layer may have more, so where budgets differ MaxSeqLen is divided.
func (cfg KVCacheConfig) limits() ([]int, error) {
	p := cfg.EvictionPolicy
	budgets, err := evict.Divide(nil, p, cfg.Layers*cfg.MaxSeqLen, cfg.Layers)
	if err == nil && slices.ContainsFunc(budgets, func(n int) bool { return n > cfg.MaxSeqLen }) {
		budgets, err = evict.Divide(nil, p, cfg.MaxSeqLen, cfg.Layers)
	}
	if err != nil {
		return nil, cfg.badPolicy(err)
	}
	for layer, budget := range budgets {
		budgets[layer] = min(p.Limit(budget), cfg.MaxSeqLen)
		if budgets[layer] < 1 {
			return nil, badConfig("MaxSeqLen", cfg.MaxSeqLen, fmt.Sprintf("with %s layer %d of %d may hold nothing", p, layer, cfg.Layers))
		}
	}
	return budgets, nil
}

func badConfig(name string, value int, why string) error {
	return backend.ErrConfig{Package: "quant", Name: name, Value: strconv.Itoa(value), Why: why}
}

func (cfg KVCacheConfig) badPolicy(err error) error {
	return backend.ErrConfig{Package: "quant", Name: "EvictionPolicy", Value: cfg.EvictionPolicy.String(), Why: err.Error()}
}
