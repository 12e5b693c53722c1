package backendtest

import (
	"github.com/ferrumkv/ferrumkv/backend"
)

// geometry is the shape of one layer's cache.
type geometry struct {
	kvHeads, block, blocks, kDim, vDim int
	format                             backend.Format
}

// slots is the number of tokens that fit.
func (g geometry) slots() int { return g.blocks * g.block }

// cache is a layer of a cache on the device and its image. Every slot holds
// poison until a check sets it.
type cache[B backend.Buffer] struct {
	geometry
	k, v   *plane[B] // of a latent cache v is in k
	mass   *plane[B] // the slots' attention scores, as values of one dim; nil: none
	latent bool
}

func (r *rig[B]) cache(g geometry) *cache[B] {
	return &cache[B]{geometry: g, k: r.plane("K cache", g, g.format.K, g.kDim), v: r.plane("V cache", g, g.format.V, g.vDim)}
}

// view is the operand.
func (c *cache[B]) view() backend.CacheView[B] {
	if c.latent {
		return backend.CacheView[B]{K: c.k.operand(), V: backend.Plane[B]{Dim: c.vDim}, Blocks: c.blocks, KVHeads: c.kvHeads, BlockSize: c.block, Latent: true}
	}
	return backend.CacheView[B]{K: c.k.operand(), V: c.v.operand(), Blocks: c.blocks, KVHeads: c.kvHeads, BlockSize: c.block}
}

// addMass gives each slot and head some attention scores.
func (c *cache[B]) addMass(r *rig[B]) {
	c.mass = r.plane("attention scores", c.geometry, backend.F32, 1)
	c.mass.set(0, encode(backend.F32, r.normal(c.mass.n)))
}

// massOperand is the attention scores, if there are any.
func (c *cache[B]) massOperand() backend.Opt[B] {
	if c.mass == nil {
		return backend.Opt[B]{}
	}
	return backend.Some(c.mass.buf)
}

// planes is both halves of the cache, or its only one.
func (c *cache[B]) planes() []*plane[B] {
	if c.latent {
		return []*plane[B]{c.k}
	}
	return []*plane[B]{c.k, c.v}
}

// moving is what goes along with a slot.
func (c *cache[B]) moving() []*plane[B] {
	if c.mass == nil {
		return c.planes()
	}
	return append(c.planes(), c.mass)
}

// fill gives every slot values of the standard normal distribution.
func (c *cache[B]) fill(r *rig[B]) *cache[B] {
	for slot := range c.slots() {
		c.write(r, slot)
	}
	return c
}

// write gives one slot values of the standard normal distribution.
func (c *cache[B]) write(r *rig[B], slot int) {
	for head := range c.kvHeads {
		for _, p := range c.planes() {
			p.put(slot, head, r.normal(p.dim))
		}
	}
}

// move copies a slot over another in the image.
func (c *cache[B]) move(from, to int) {
	for head := range c.kvHeads {
		for _, p := range c.moving() {
			p.take(p.now(), from, to, head)
		}
	}
}

// copyBlock copies a block over one of dst, which may be c, in the images.
func (c *cache[B]) copyBlock(dst *cache[B], from, to int) {
	onto := dst.planes()
	for i, p := range c.planes() {
		p.shareScales(onto[i], from, to)
		p.copyBlock(onto[i], from, to)
	}
	c.copyMass(dst, from, to)
}

// copyMass copies the attention scores, if there are any, of a block's slots in the images.
func (c *cache[B]) copyMass(dst *cache[B], from, to int) {
	if c.mass != nil {
		c.mass.copyBlock(dst.mass, from, to)
	}
}
