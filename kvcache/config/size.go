package config

import (
	"fmt"
	"math"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
)

// BlockTokens is the number of tokens of a block: the block size, or in the contiguous
// layout the capacity of a sequence.
func (c *Config) BlockTokens() int {
	if c.Memory.Layout == Paged {
		return c.Memory.BlockSize * max(c.each, 1)
	}
	return c.Memory.Capacity
}

// KernelTokens is the tokens of what a kernel takes for a block: of a block with groups, whose blocks of all
// take the same memory, there may be Each of them in a block.
func (c *Config) KernelTokens() int { return c.BlockTokens() / c.Each() }

// Each is the blocks of a kernel that make one block; Stride is from the number of the first of a block to that of the
// first of the next.
func (c *Config) Each() int   { return max(c.each, 1) }
func (c *Config) Stride() int { return max(c.stride, 1) }

// planeLen is the elements of one layer's keys or values.
func (c Config) planeLen(dim int) (int, bool) {
	return backend.Mul(c.Memory.Blocks, c.Model.KVHeads, c.BlockTokens(), dim)
}

// Bytes is the device memory that a pool of this configuration allocates: keys and
// values with their scales, attention scores, the RoPE table and the masks' vectors.
// Batches and sequences allocate index vectors besides, a few bytes for each token of a step.
func (c Config) Bytes() (int64, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	return c.bytes()
}

// bytes is Bytes of a configuration that is filled in.
func (c Config) bytes() (int64, error) {
	fixed, perBlock, err := c.costs()
	if err != nil {
		return 0, err
	}
	if int64(c.Memory.Blocks) > (math.MaxInt64-fixed)/perBlock {
		return 0, c.tooLarge()
	}
	for _, p := range c.Parts() {
		for _, dim := range [...]int{p.Model.HeadDim, p.Model.VHeadDim} {
			if _, ok := p.planeLen(dim); !ok || p.Memory.Blocks > maxSetting {
				return 0, c.tooLarge()
			}
		}
	}
	return fixed + int64(c.Memory.Blocks)*perBlock, nil
}

// BlocksFor is the number of blocks that fit a budget in bytes: the largest
// Blocks (MaxSeqs in the contiguous layout) for which Bytes is at most budget. 0: not
// even one block fits.
func (c Config) BlocksFor(budget int64) (int, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	fixed, perBlock, err := c.costs()
	if err != nil {
		return 0, err
	}
	return int(min(max(budget-fixed, 0)/perBlock, maxSetting)), nil
}

// Within is c resolved for a device with free bytes of free memory, 0 for unknown. If
// neither the caller nor the environment chose Blocks or MaxSeqs, it lowers Blocks of a
// paged cache to what fits in nine tenths of free, but not below one sequence of full
// capacity. NewPool does this with the device's free memory.
func (c Config) Within(free int64) (Config, error) {
	c, err := c.Resolve()
	if err != nil || c.Memory.Layout != Paged || free <= 0 || c.sources[setBlocks] != FromDefault || c.sources[setMaxSeqs] != FromDefault {
		return c, err
	}
	fit, err := c.BlocksFor(free - free/10)
	if err == nil && fit < c.Memory.Blocks {
		one := c
		one.Memory.MaxSeqs = 1
		c.Memory.Blocks = ceilDiv(c.Memory.Capacity, c.Memory.BlockSize)
		if c.memory != nil {
			c.Memory.Blocks = one.blocksWanted()
		}
		if c.Memory.Blocks = max(fit, c.Memory.Blocks); c.memory != nil {
			return c.Resolve()
		}
	}
	return c, err
}

// Fits returns nil if the cache fits a device with free bytes of free memory, 0 for unknown, or
// else the ErrPoolSize that NewPool would return. The error names the tightest limit.
func (c Config) Fits(free int64, caps backend.Caps) error {
	c, err := c.Resolve()
	if err != nil {
		return err
	}
	fixed, perBlock, err := c.costs()
	if err != nil {
		return err
	}
	// Every buffer may waste most of a page.
	room := free
	if caps.AllocGranularity > 1 {
		room = max(free-int64(c.MostBuffers())*(caps.AllocGranularity-1), 0)
	}
	blocks := int64(c.Memory.Blocks)
	size := ErrPoolSize{Blocks: c.Memory.Blocks, MaxBlocks: c.Memory.Blocks, Contiguous: c.Memory.Layout == Contiguous, lower: c.SizeSettings()}
	if most := max(room-fixed, 0) / perBlock; free > 0 && most < blocks {
		size.Bytes, size.Max, size.MaxBlocks = fixed+blocks*perBlock, room, int(most)
	}
	if c.memory != nil {
		for _, p := range c.largestParts() {
			if most := caps.MaxBuffer / p; most < int64(size.MaxBlocks) {
				size.Bytes, size.Max, size.MaxBlocks, size.Layer = p*blocks, caps.MaxBuffer, int(most), true
			}
		}
		if size.MaxBlocks == c.Memory.Blocks {
			return nil
		}
		return size
	}
	for _, plane := range c.largest() {
		n, _ := c.planeLen(plane.dim) // Resolve checked that they fit
		bytes, _ := plane.dt.Size(n)
		if most := caps.MaxBuffer / (bytes / blocks); most < int64(size.MaxBlocks) {
			size.Bytes, size.Max, size.MaxBlocks, size.Layer = bytes, caps.MaxBuffer, int(most), true
		}
	}
	if c.Storage.Residual > 0 {
		r := c.Recent()
		for _, plane := range r.largest() {
			n, ok := r.planeLen(plane.dim)
			bytes, sized := plane.dt.Size(n)
			if !ok || !sized {
				return c.tooLarge()
			}
			if bytes > caps.MaxBuffer {
				return ErrPoolSize{Bytes: bytes, Max: caps.MaxBuffer, Layer: true, Recent: true, Blocks: r.Memory.Blocks, MaxBlocks: int(caps.MaxBuffer / (bytes / int64(r.Memory.Blocks)))}
			}
		}
	}
	if size.MaxBlocks == c.Memory.Blocks {
		return nil
	}
	return size
}

// BytesPerBlock is the bytes of one block in all layers: keys and values with their scales, and attention scores.
func (c Config) BytesPerBlock() (int64, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	_, perBlock, err := c.costs()
	return perBlock, err
}

// BytesPerToken is the bytes of one token in all layers: keys and values with their
// scales, and attention scores. With groups it is what a long sequence grows by: that of full ones.
func (c Config) BytesPerToken() (int64, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	if c.memory != nil {
		return c.partBytesPerToken(), nil
	}
	_, perBlock, err := c.costs()
	return perBlock / int64(c.BlockTokens()), err
}

// costs are the bytes that do not depend on the number of blocks, and those of
// one block in all layers. c is filled in.
func (c Config) costs() (fixed, perBlock int64, err error) {
	if c.memory != nil {
		return c.partCosts()
	}
	formats, layers := c.countFormats()
	for i, f := range formats {
		for _, plane := range c.planes(f) {
			block, once, ok := c.blockBytes(plane)
			if !ok || block > math.MaxInt64/8/int64(c.Model.Layers) {
				return 0, 0, c.tooLarge()
			}
			perBlock, fixed = perBlock+int64(layers[i])*block, fixed+int64(layers[i])*once
		}
	}
	if c.Attention.Scores {
		n, ok := backend.Mul(c.Model.Layers, c.Model.KVHeads, c.BlockTokens())
		if !ok || int64(n) > math.MaxInt64/32 {
			return 0, 0, c.tooLarge()
		}
		perBlock += 4 * int64(n)
	}
	if c.Storage.Residual > 0 {
		r := c.Recent()
		_, block, err := r.costs()
		if err != nil || int64(r.Memory.Blocks) > math.MaxInt64/8/block {
			return 0, 0, c.tooLarge()
		}
		fixed += int64(r.Memory.Blocks) * block
	}
	floats := 0
	if c.Model.RoPE != nil {
		r, err := c.Model.RoPE.Resolve(c.Model.RotatedDims())
		if err != nil {
			return 0, 0, err
		}
		n, ok := backend.Mul(c.Memory.Capacity, r.Dims)
		if !ok || n > math.MaxInt32 {
			return 0, 0, c.tooLarge()
		}
		floats = n
	}
	for _, m := range c.Model.Masks {
		floats += len(m.ALiBi) + len(m.SinkLogits)
	}
	return fixed + 4*int64(floats), perBlock, nil
}

// largest are the planes of all formats.
func (c Config) largest() (all []plane) {
	formats := c.Formats()
	for _, f := range formats {
		all = append(all, c.planes(f)...)
	}
	return all
}

// MostBuffers is an upper bound on the number of buffers that a pool allocates: for keys, values,
// their scales, attention scores, the RoPE table and the masks' vectors.
func (c Config) MostBuffers() int {
	if c.memory != nil {
		n := 2 * c.memory.lanes
		for _, p := range c.memory.parts {
			n += p.MostBuffers()
		}
		return n
	}
	n := 2*c.Model.Layers + 1 + 2*len(c.Model.Masks)
	if c.Storage.K.Quantized() || c.Storage.V.Quantized() {
		n += 2 * c.Model.Layers
	}
	if c.Storage.Residual > 0 {
		n += 2 * c.Model.Layers
	}
	if c.Attention.Scores {
		n += c.Model.Layers
		if c.Storage.Residual > 0 {
			n += c.Model.Layers
		}
	}
	return n
}

func (c Config) tooLarge() error {
	return backend.ErrConfig{Name: "Memory.Blocks", Value: strconv.Itoa(c.Memory.Blocks), Why: fmt.Sprintf(
		"%d layers of that many blocks [%d heads, %d tokens, %d+%d dims] overflow; lower Blocks, MaxSeqs or Capacity",
		c.Model.Layers, c.Model.KVHeads, c.BlockTokens(), c.Model.HeadDim, c.Model.VHeadDim)}
}

// BlocksOf is the number of blocks that a sequence of that many tokens needs.
func (c *Config) BlocksOf(tokens int) int { return ceilDiv(tokens, c.BlockTokens()) }

// KernelBlocksOf is BlocksOf in blocks of a kernel: see Each.
func (c *Config) KernelBlocksOf(tokens int) int { return ceilDiv(tokens, c.KernelTokens()) }

// MostBlocks is the number of blocks that a sequence of full capacity needs.
func (c *Config) MostBlocks() int { return c.BlocksOf(c.Memory.Capacity) }

func ceilDiv(a, b int) int {
	if b < 1 { // of a configuration that is not filled in
		return 0
	}
	return a/b + (a%b+b-1)/b
}

// MostEntries is the number of entries of the prefix tree that a sequence of full capacity has.
func (c *Config) MostEntries() int { return ceilDiv(c.Memory.Capacity, c.EntryTokens()) }
