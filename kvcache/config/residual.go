package config

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// DefaultStepTokens is the default of Memory.StepTokens, with Storage.Residual.
const DefaultStepTokens = 512

// Edge is the number of leading blocks that the query at a position reads quantized.
func (c *Config) Edge(position int) int {
	return max(position+1-c.Storage.Residual, 0) / max(c.BlockTokens(), 1)
}

// WindowBlocks is the number of unquantized blocks (Storage.Residual) that a sequence has while it grows token by
// token: those of the window, one that is not full, and one for drafts.
func (c *Config) WindowBlocks() int {
	return min(ceilDiv(c.Storage.Residual, c.Memory.BlockSize)+2, ceilDiv(c.Memory.Capacity, c.Memory.BlockSize))
}

// Recent is the configuration of the cache of the last, unquantized tokens, with Storage.Residual.
func (c Config) Recent() Config {
	c.Memory.Blocks = c.recentBlocks()
	c.Storage.Residual, c.Memory.StepTokens = 0, 0
	c.Storage.K, c.Storage.V, c.Storage.SkipLayers, c.Storage.Hadamard, c.Storage.Saturate, c.Storage.KScales, c.Storage.VScales = c.Model.Act, c.Model.Act, nil, false, false, nil, nil
	return c
}

// recentBlocks is what every sequence needs for its window, and two steps on their way: for their new tokens, or
// for the window that a longer one leaves.
func (c Config) recentBlocks() int {
	n, ok := backend.Mul(c.Memory.MaxSeqs, c.WindowBlocks())
	if !ok {
		return maxSetting
	}
	return min(n, maxSetting) + 2*min(max(ceilDiv(c.Memory.StepTokens, c.Memory.BlockSize), c.WindowBlocks()), (maxSetting-min(n, maxSetting))/2)
}

func (s *Storage) checkResidual() error {
	switch {
	case s.Residual == 0 && s.K.Coding().Scope == backend.ByChannel:
		return backend.ErrConfig{Name: "Storage.K", Value: s.K.String(), Why: "quantizes whole blocks; set Storage.Residual, the tokens that stay as they are until then"}
	case s.Residual > 0 && (!s.K.Quantized() || !s.V.Quantized()):
		return badConfig("Storage.Residual", s.Residual, fmt.Sprintf("is for quantized keys and values; K is %s, V is %s", s.K, s.V))
	}
	return nil
}
