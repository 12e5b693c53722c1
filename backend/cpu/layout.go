package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// vectors is n Rows as memory: vector i starts at element offset + i*stride.
type vectors struct {
	n              int
	k              *kernels
	mem            []byte
	dt             backend.DType
	size           int // bytes of an element
	offset, stride int // elements
}

// of sets v to n vectors of r with its stride resolved for width elements.
func (v *vectors) of(r *backend.Rows[*Buffer], n, width int) {
	v.n, v.k, v.mem, v.dt, v.size = n, r.Buf.be.kernels, r.Buf.mem, r.Buf.dt, r.Buf.dt.Bits()/8
	if v.offset, v.stride = r.Offset, r.Stride; v.stride == 0 {
		v.stride = width
	}
}

// vectorsOf is n vectors of r.
func vectorsOf(r backend.Rows[*Buffer], n, width int) (v vectors) {
	v.of(&r, n, width)
	return v
}

// at is the memory of n elements of vector i from element col on.
func (v *vectors) at(i, col, n int) []byte {
	return v.mem[(v.offset+i*v.stride+col)*v.size:][:n*v.size]
}

func (v *vectors) load(dst []float32, i, col int) {
	row := stored{dt: v.dt, data: v.at(i, col, len(dst))}
	if i+1 < v.n { // which is likely wanted next
		row.ahead = &v.mem[(v.offset+(i+1)*v.stride+col)*v.size]
	}
	v.k.decode[v.dt](dst, row)
}

func (v *vectors) store(i, col int, src []float32) {
	v.k.encode[v.dt](stored{dt: v.dt, data: v.at(i, col, len(src))}, src, false)
}

// plane is the keys or values of a layer as memory, [blocks, heads, block, row].
type plane struct {
	k            *kernels
	mem          []byte
	dt           backend.DType
	heads, block int
	dim, row     int // elements of a row that count, and all of its bytes
	wide         int // elements of a row where more than dim count for others; 0: dim
	hadamard     bool
	scales       []uint32
	factors      []float32 // of heads, where rows have scales too; before those
	// The scales of a block, of one head of it and of one row; shared is how many go with
	// any rows of a head.
	perBlock, perHead, perRow, shared int
}

func planeOf(v backend.CacheView[*Buffer], p backend.Plane[*Buffer]) (out plane) {
	out.of(&v, &p)
	return out
}

// ofValues sets out, which is zero, to the values of v: of a latent cache, those in its keys.
func (out *plane) ofValues(v *backend.CacheView[*Buffer]) {
	if !v.Latent {
		out.of(v, &v.V)
		return
	}
	if out.of(v, &v.K); v.V.Dim < v.K.Dim {
		out.dim, out.wide = v.V.Dim, v.K.Dim
	}
}

// ownValues is the values of v that lie beside its keys: none of a latent cache.
func ownValues(v backend.CacheView[*Buffer]) (out plane) {
	if !v.Latent {
		out.of(&v, &v.V)
	}
	return out
}

// planes is how many a cache has.
func planes(v *backend.CacheView[*Buffer]) int {
	if v.Latent {
		return 1
	}
	return 2
}

// of sets out, which is zero, to a plane of v. Only types that have scales have them set.
func (out *plane) of(v *backend.CacheView[*Buffer], p *backend.Plane[*Buffer]) {
	out.k, out.mem, out.dt, out.heads, out.block = p.Data.be.kernels, p.Data.mem, p.Data.dt, v.KVHeads, v.BlockSize
	out.dim, out.row, out.hadamard, out.scales = p.Dim, p.Dim*p.Data.dt.Bits()/8, p.Hadamard, optional[uint32](p.Scales)
	if !p.Scales.Set {
		return
	}
	p.Scales.Buf.expose() // the operation may write them
	switch out.dt.Coding().Scope {
	case backend.ByHead:
		out.perHead, out.shared = 1, 1
	case backend.ByChannel:
		out.perBlock, out.perHead, out.shared = v.KVHeads*p.Dim, p.Dim, p.Dim
	default:
		if n := out.dt.HeadWords(v.KVHeads); n > 0 {
			out.factors, out.scales = of[float32](backend.BytesOf(out.scales[:v.KVHeads])), out.scales[n:]
		}
		out.perRow = out.dt.ScaleWords(p.Dim)
		out.perHead = v.BlockSize * out.perRow
		out.perBlock = v.KVHeads * out.perHead
	}
}

// at is n rows of one head from a block's offset on.
func (p *plane) at(block, head, offset, n int) (rows stored) {
	p.find(&rows, block, head, offset, n)
	return rows
}

// find sets rows to those at a place; field by field, which is faster than to copy it.
func (p *plane) find(rows *stored, block, head, offset, n int) {
	rows.dt, rows.dim, rows.wide, rows.n = p.dt, p.dim, p.wide, n
	rows.data = p.mem[p.number(block, head, offset)*p.row:][:n*p.row]
	rows.scales = p.scales[block*p.perBlock+head*p.perHead+offset*p.perRow:][:p.shared+n*p.perRow]
	rows.ahead, rows.later, rows.wanted = nil, nil, nil
	if p.factors != nil {
		rows.factor = p.factors[head]
	}
}

// expect adds to rows where those are, from number i on, that are wanted soon.
func (p *plane) expect(rows *stored, i int) { rows.ahead = &p.mem[i*p.row] }

// expectLater adds to rows where those are, from number i on, that are wanted later.
func (p *plane) expectLater(rows *stored, i int) {
	rows.later = &p.mem[i*p.row]
	if p.perRow > 0 {
		rows.wanted = &p.scales[i*p.perRow]
	}
}

// number is that of a row, where rows lie [blocks, heads, block].
func (p *plane) number(block, head, offset int) int {
	return (block*p.heads+head)*p.block + offset
}

// slot is the row of one head at a slot: block*BlockSize + offset.
func (p *plane) slot(slot, head int) stored {
	return p.at(slot/p.block, head, slot%p.block, 1)
}

// index is the number of one head's row at a slot, where rows lie [blocks, heads, block].
func (p *plane) index(slot, head int) int {
	return p.number(slot/p.block, head, slot%p.block)
}

// copySlot copies one head's row, and the scales of its own, to another slot.
func (p *plane) copySlot(to, from, head int) {
	dst, src := p.slot(to, head), p.slot(from, head)
	copy(dst.data, src.data)
	copy(dst.scales[p.shared:], src.scales[p.shared:])
}

// blockTable maps the blocks of a sequence's tokens to blocks of a cache. Without
// ids the sequence lies in one block.
type blockTable struct {
	ids   []uint32
	block int
}

// table is that of sequence i.
func (a *attention) table(i int) blockTable {
	if a.tables == nil {
		return blockTable{block: i}
	}
	return blockTable{ids: a.tables[i*a.stride:][:a.stride]}
}

func (t *blockTable) at(i int) int {
	if t.ids == nil {
		return t.block
	}
	return int(t.ids[i])
}
