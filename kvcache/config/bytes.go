package config

import (
	"fmt"
	"math"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
)

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
	for i := range c.memory.parts {
		p := &c.memory.parts[i]
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
	_, block, err := c.costs()
	perToken := int64(0)
	for i := range c.memory.parts {
		p := &c.memory.parts[i]
		if !p.keepsAll() {
			continue
		}
		if c.memory.lanes == 0 && err == nil { // a block is the part's own
			_, block, err = p.costs()
		}
		if err != nil {
			return 0, err
		}
		perToken += block / int64(p.BlockTokens())
	}
	return perToken, err
}

// costs are the bytes that do not depend on the number of blocks, and those of one block in all layers. c is filled in.
func (c *Config) costs() (fixed, perBlock int64, err error) {
	m := &c.memory
	perBlock = int64(m.lanes) * (m.keys + m.vals)
	if perBlock > math.MaxInt32 {
		return 0, 0, c.tooLarge()
	}
	type place struct {
		lane int
		of   string
	}
	seen := map[place]bool{}
	for i := range m.parts {
		p := &m.parts[i]
		if !p.attends() {
			continue
		}
		once, own, err := p.costs()
		if err != nil {
			return 0, 0, err
		}
		fixed += once
		if m.lanes == 0 {
			perBlock += own
			continue
		}
		for lane := range p.Layers {
			if at := (place{lane, p.Alike(lane)}); !seen[at] {
				seen[at] = true
				perBlock += p.besides(lane)
			}
		}
	}
	return fixed, perBlock, nil
}

// largest are the bytes of a block in the buffers that may be the largest.
func (c *Config) largest() (all []int64) {
	m := &c.memory
	if m.interleaved {
		return []int64{m.keys + m.vals}
	}
	if m.lanes > 0 {
		return []int64{max(m.keys, m.vals)}
	}
	for i := range m.parts {
		p := &m.parts[i]
		for _, plane := range p.largest() {
			n, ok := backend.Mul(p.Model.KVHeads, p.BlockTokens(), plane.dim)
			if bytes, sized := plane.dt.Size(n); ok && sized {
				all = append(all, bytes)
			}
		}
	}
	return all
}

// MostBuffers is an upper bound on the number of buffers that a pool allocates: for keys, values,
// their scales, attention scores, the RoPE table and the masks' vectors. 0: c is none that Resolve accepts.
func (c Config) MostBuffers() int {
	c, err := c.Resolve()
	if err != nil {
		return 0
	}
	n := 2 * c.memory.lanes
	for i := range c.memory.parts {
		n += c.memory.parts[i].mostBuffers()
	}
	return n
}

func (c *Config) tooLarge() error {
	return backend.ErrConfig{Name: "Memory.Blocks", Value: strconv.Itoa(c.Memory.Blocks), Why: fmt.Sprintf(
		"%d layers of that many blocks [%d heads, %d tokens, %d+%d dims] overflow; lower Blocks, MaxSeqs or Capacity",
		c.Model.Layers, c.Model.KVHeads, c.BlockTokens(), c.Model.HeadDim, c.Model.VHeadDim)}
}
