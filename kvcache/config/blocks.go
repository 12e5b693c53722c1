package config

import (
	"math"

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

// EntryTokens is the tokens of an entry of the prefix tree.
func (c *Config) EntryTokens() int { return orElse(c.memory.entry, c.BlockTokens()) }

// BlocksOf is the number of blocks that a sequence of that many tokens needs.
func (c *Config) BlocksOf(tokens int) int { return ceilDiv(tokens, c.BlockTokens()) }

// KernelBlocksOf is BlocksOf in blocks of a kernel: see Each.
func (c *Config) KernelBlocksOf(tokens int) int { return ceilDiv(tokens, c.KernelTokens()) }

// MostBlocks is the number of blocks that a sequence of full capacity needs.
func (c *Config) MostBlocks() int { return c.BlocksOf(c.Memory.Capacity) }

// MostEntries is the number of entries of the prefix tree that a sequence of full capacity has.
func (c *Config) MostEntries() int { return ceilDiv(c.Memory.Capacity, c.EntryTokens()) }

// blocksWanted is the blocks of MaxSeqs sequences of full capacity, and of one long step.
func (c *Config) blocksWanted() int {
	n := 0
	for i := range c.memory.parts {
		p := &c.memory.parts[i]
		r := &p.Rule
		all, each := ceilDiv(c.Memory.Capacity, r.Block), r.Need(c.Memory.Capacity)
		if !p.attends() { // it is copied before it is written
			all, each = 1, 2
		}
		more, ok := backend.Mul(c.Memory.MaxSeqs, each)
		if more += all - r.Need(c.Memory.Capacity); !ok || n > math.MaxInt-more {
			return math.MaxInt // too many: bytes says so unless Blocks is given
		}
		n += more
	}
	return n
}

func ceilDiv(a, b int) int {
	if b < 1 { // of a configuration that is not filled in
		return 0
	}
	return a/b + (a%b+b-1)/b
}
