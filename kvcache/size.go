package kvcache

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// slots is the tokens of one block: the block size, or the capacity of a
// contiguous sequence.
func (c *Config) slots() int {
	if c.Layout == Paged {
		return c.BlockSize
	}
	return c.Capacity
}

// planeLen is the elements of one layer's keys or values.
func (c Config) planeLen(dim int) (int, bool) {
	return backend.Mul(c.Blocks, c.KVHeads, c.slots(), dim)
}

// Bytes is the device memory that a pool of this configuration allocates: keys and
// values with their scales, scores, the RoPE table and the masks' vectors. Batches and sequences add their
// index vectors, a few bytes a token of a step.
func (c Config) Bytes() (int64, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	return c.bytes()
}

// bytes is Bytes of a configuration that is filled in.
func (c Config) bytes() (int64, error) {
	fixed, perBlock, err := c.parts()
	if err != nil {
		return 0, err
	}
	if int64(c.Blocks) > (math.MaxInt64-fixed)/perBlock {
		return 0, c.tooLarge()
	}
	for _, dim := range [...]int{c.HeadDim, c.VHeadDim} {
		if _, ok := c.planeLen(dim); !ok || c.Blocks > maxSetting {
			return 0, c.tooLarge()
		}
	}
	return fixed + int64(c.Blocks)*perBlock, nil
}

// BlocksFor is the number of blocks that fit a budget in bytes: the largest
// Blocks (MaxSeqs in the contiguous layout) for which Bytes is within it. 0 means
// that not even one does.
func (c Config) BlocksFor(budget int64) (int, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	fixed, perBlock, err := c.parts()
	if err != nil {
		return 0, err
	}
	return int(min(max(budget-fixed, 0)/perBlock, maxSetting)), nil
}

// Within is c resolved for a device with that many bytes free, 0 for unknown. Where
// neither the caller nor the environment chose Blocks or MaxSeqs, a paged cache takes
// at most nine tenths of them, but always room for one sequence of full capacity:
// blocks are taken as sequences grow, so fewer are a smaller cache and not an error.
// NewPool does this with the device's free memory.
func (c Config) Within(free int64) (Config, error) {
	c, err := c.Resolve()
	if err != nil || c.Layout != Paged || free <= 0 || c.sources[setBlocks] != FromDefault || c.sources[setMaxSeqs] != FromDefault {
		return c, err
	}
	fit, err := c.BlocksFor(free - free/10)
	if err == nil && fit < c.Blocks {
		c.Blocks = max(fit, ceilDiv(c.Capacity, c.BlockSize))
	}
	return c, err
}

// Fits reports whether a device with that many bytes free, 0 for unknown, has room for the
// cache: NewPool's ErrPoolSize. It is about the limit that leaves the fewest blocks.
func (c Config) Fits(free int64, caps backend.Caps) error {
	c, err := c.Resolve()
	if err != nil {
		return err
	}
	fixed, perBlock, err := c.parts()
	if err != nil {
		return err
	}
	// Every buffer may waste most of a page.
	room := free
	if caps.Page > 1 {
		room = max(free-int64(c.buffers())*(caps.Page-1), 0)
	}
	blocks := int64(c.Blocks)
	size := ErrPoolSize{Blocks: c.Blocks, MaxBlocks: c.Blocks, Contiguous: c.Layout == Contiguous}
	if most := max(room-fixed, 0) / perBlock; free > 0 && most < blocks {
		size.Bytes, size.Max, size.MaxBlocks = fixed+blocks*perBlock, room, int(most)
	}
	for _, plane := range c.largest() {
		n, _ := c.planeLen(plane.dim) // Resolve checked that they fit
		bytes, _ := plane.dt.Size(n)
		if most := caps.MaxBuffer / (bytes / blocks); most < int64(size.MaxBlocks) {
			size.Bytes, size.Max, size.MaxBlocks, size.Layer = bytes, caps.MaxBuffer, int(most), true
		}
	}
	if c.Residual > 0 {
		r := c.residual()
		for _, plane := range r.largest() {
			n, ok := r.planeLen(plane.dim)
			bytes, sized := plane.dt.Size(n)
			if !ok || !sized {
				return c.tooLarge()
			}
			if bytes > caps.MaxBuffer {
				return ErrPoolSize{Bytes: bytes, Max: caps.MaxBuffer, Layer: true, Recent: true, Blocks: r.Blocks, MaxBlocks: int(caps.MaxBuffer / (bytes / int64(r.Blocks)))}
			}
		}
	}
	if size.MaxBlocks == c.Blocks {
		return nil
	}
	return size
}

// BytesPerToken is what one token takes in all layers: keys and values with their
// scales, and scores.
func (c Config) BytesPerToken() (int64, error) {
	c, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	_, perBlock, err := c.parts()
	return perBlock / int64(c.slots()), err
}

// parts are the bytes that do not depend on the number of blocks, and those of
// one block in all layers. c is filled in.
func (c Config) parts() (fixed, perBlock int64, err error) {
	formats, layers := c.formats()
	for i, f := range formats {
		for _, plane := range c.planes(f) {
			block, once, ok := c.blockBytes(plane)
			if !ok || block > math.MaxInt64/8/int64(c.Layers) {
				return 0, 0, c.tooLarge()
			}
			perBlock, fixed = perBlock+int64(layers[i])*block, fixed+int64(layers[i])*once
		}
	}
	if c.Scores {
		n, ok := backend.Mul(c.Layers, c.KVHeads, c.slots())
		if !ok || int64(n) > math.MaxInt64/32 {
			return 0, 0, c.tooLarge()
		}
		perBlock += 4 * int64(n)
	}
	if c.Residual > 0 {
		r := c.residual()
		_, block, err := r.parts()
		if err != nil || int64(r.Blocks) > math.MaxInt64/8/block {
			return 0, 0, c.tooLarge()
		}
		fixed += int64(r.Blocks) * block
	}
	floats := 0
	if c.RoPE != nil {
		r, err := c.RoPE.Resolve(c.HeadDim)
		if err != nil {
			return 0, 0, err
		}
		n, ok := backend.Mul(c.Capacity, r.Dims)
		if !ok || n > math.MaxInt32 {
			return 0, 0, c.tooLarge()
		}
		floats = n
	}
	for _, m := range c.Masks {
		floats += len(m.ALiBi) + len(m.SinkLogits)
	}
	return fixed + 4*int64(floats), perBlock, nil
}

// largest are the planes of all formats.
func (c Config) largest() (all []plane) {
	formats, _ := c.formats()
	for _, f := range formats {
		planes := c.planes(f)
		all = append(all, planes[:]...)
	}
	return all
}

// buffers is the most that a pool allocates: keys, values and their scales, scores, the
// RoPE table, the masks' vectors.
func (c Config) buffers() int {
	n := 2*c.Layers + 1 + 2*len(c.Masks)
	if c.K.Quantized() || c.V.Quantized() {
		n += 2 * c.Layers
	}
	if c.Residual > 0 {
		n += 2 * c.Layers
	}
	if c.Scores {
		n += c.Layers
	}
	return n
}

func (c Config) tooLarge() error {
	return backend.ErrShape{Package: "kvcache", Op: "config", What: fmt.Sprintf(
		"%d layers of %d blocks [%d heads, %d tokens, %d+%d dims] overflow; lower Blocks, MaxSeqs or Capacity",
		c.Layers, c.Blocks, c.KVHeads, c.slots(), c.HeadDim, c.VHeadDim)}
}

func ceilDiv(a, b int) int { return a/b + (a%b+b-1)/b }
