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
	k, v *plane[B]
}

// plane is a region of shape [blocks, heads, block, dim].
type plane[B backend.Buffer] struct {
	*region[B]
	geometry
	dim int
}

func (r *rig[B]) cache(g geometry) *cache[B] {
	plane := func(name string, dt backend.DType, dim int) *plane[B] {
		return &plane[B]{r.region(name, dt, 0, g.slots()*g.kvHeads*dim), g, dim}
	}
	return &cache[B]{g, plane("K cache", g.format.K, g.kDim), plane("V cache", g.format.V, g.vDim)}
}

// view is the operand.
func (c *cache[B]) view() backend.CacheView[B] {
	return backend.CacheView[B]{
		K:      backend.Plane[B]{Data: c.k.buf, Dim: c.kDim},
		V:      backend.Plane[B]{Data: c.v.buf, Dim: c.vDim},
		Blocks: c.blocks, KVHeads: c.kvHeads, BlockSize: c.block,
	}
}

// planes is both halves of the cache.
func (c *cache[B]) planes() []*plane[B] { return []*plane[B]{c.k, c.v} }

// fill gives every slot values of the standard normal distribution.
func (c *cache[B]) fill(r *rig[B]) {
	for slot := range c.slots() {
		c.write(r, slot)
	}
}

// write gives one slot values of the standard normal distribution.
func (c *cache[B]) write(r *rig[B], slot int) {
	for head := range c.kvHeads {
		for _, p := range c.planes() {
			p.put(slot, head, encode(p.dt, r.normal(p.dim)))
		}
	}
}

// element is where the row of a slot and head begins.
func (p *plane[B]) element(slot, head int) int {
	return ((slot/p.block*p.kvHeads+head)*p.block + slot%p.block) * p.dim
}

// put sets a row of the image.
func (p *plane[B]) put(slot, head int, data []byte) { p.set(p.element(slot, head), data) }

// row is a row of data, which has the layout of the image.
func (p *plane[B]) row(data []byte, slot, head int) []byte {
	return p.part(data, p.element(slot, head), p.dim)
}

// move copies a slot over another in the image.
func (c *cache[B]) move(from, to int) {
	for head := range c.kvHeads {
		for _, p := range c.planes() {
			p.put(to, head, append([]byte(nil), p.row(p.image, from, head)...))
		}
	}
}
