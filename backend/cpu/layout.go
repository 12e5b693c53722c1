package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// vectors is Rows as memory: vector i starts at element offset + i*stride.
type vectors struct {
	mem            []byte
	dt             backend.DType
	size           int // bytes of an element
	offset, stride int // elements
}

// vectorsOf is r with its stride resolved for vectors of width elements.
func vectorsOf(r backend.Rows[*Buffer], width int) vectors {
	if r.Stride == 0 {
		r.Stride = width
	}
	return vectors{mem: r.Buf.mem, dt: r.Buf.dt, size: r.Buf.dt.Bits() / 8, offset: r.Offset, stride: r.Stride}
}

// at is the memory of n elements of vector i from element col on.
func (v *vectors) at(i, col, n int) []byte {
	return v.mem[(v.offset+i*v.stride+col)*v.size:][:n*v.size]
}

func (v *vectors) load(dst []float32, i, col int) { decode[v.dt](dst, v.at(i, col, len(dst))) }

func (v *vectors) store(i, col int, src []float32) { encode[v.dt](v.at(i, col, len(src)), src) }

// plane is the keys or values of a layer as memory, [blocks, heads, block, row].
type plane struct {
	mem          []byte
	dt           backend.DType
	heads, block int
	dim, row     int // elements and bytes of a row
}

func planeOf(v backend.CacheView[*Buffer], p backend.Plane[*Buffer]) plane {
	return plane{mem: p.Data.mem, dt: p.Data.dt, heads: v.KVHeads, block: v.BlockSize, dim: p.Dim, row: p.Dim * p.Data.dt.Bits() / 8}
}

// at is the memory of n rows of one head from a block's offset on.
func (p *plane) at(block, head, offset, n int) []byte {
	return p.mem[((block*p.heads+head)*p.block+offset)*p.row:][:n*p.row]
}

// slot is the row of one head at a slot: block*BlockSize + offset.
func (p *plane) slot(slot, head int) []byte {
	return p.at(slot/p.block, head, slot%p.block, 1)
}

// whole is the memory of one block.
func (p *plane) whole(block int) []byte { return p.at(block, 0, 0, p.heads*p.block) }

// blockTable maps the blocks of a sequence's tokens to blocks of a cache. Without
// ids the sequence lies in one block.
type blockTable struct {
	ids   []uint32
	block int
}

// tableOf is the table of sequence i.
func tableOf(r *backend.Ragged[*Buffer], i int) blockTable {
	if !r.Table.Set {
		return blockTable{block: i}
	}
	return blockTable{ids: view[uint32](r.Table.Buf)[i*r.TableStride:][:r.TableStride]}
}

func (t *blockTable) at(i int) int {
	if t.ids == nil {
		return t.block
	}
	return int(t.ids[i])
}
