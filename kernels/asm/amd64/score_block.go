package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scoreBlock is a few rows and keys: the sums of their products stay in registers over a key's
// elements, of which every 16 are loaded once for all rows.
type scoreBlock struct {
	*scoring
	nRows, nKeys int
	sums         sums
	x            []reg.VecPhysical // the next elements of each row
	y            reg.VecPhysical   // and of one key
	tables       []reg.VecPhysical // what the codes of each key are worth
	step         reg.VecPhysical   // the difference of two codes of a key
}

// block assigns the vector registers, and loads the constants.
func (s *scoring) block(rows int) *scoreBlock {
	b := &scoreBlock{scoring: s, nRows: rows, nKeys: 4, sums: make(sums, s.lanes)}
	if !s.wide() && rows > 2 {
		b.nKeys = 2
	}
	for i := range b.sums {
		if r, k := b.owner(s.place(i)); r < rows {
			b.sums[i] = b.sum(r, k)
		}
	}
	n := rows * b.nKeys
	b.x, b.y = s.vecs(n, rows), s.vec(n+rows)
	free := s.hold(s.t.constants, n+rows+1)
	switch {
	case s.t.scaling == byGroup && s.t.index != nil:
		b.tables = s.vecs(free, b.nKeys)
	case s.t.scaling == byGroup:
		b.step = s.vec(free)
	}
	return b
}

// sum is where the products of a row and a key are added.
func (b *scoreBlock) sum(r, k int) reg.VecPhysical { return b.vec(r*b.nKeys + k) }

// owner is the row and the key whose sum comes out at a place: a row's keys lie side by side.
func (b *scoreBlock) owner(part, element int) (r, k int) {
	return part*(4/b.nKeys) + element/b.nKeys, element % b.nKeys
}

func (b *scoreBlock) clear() {
	for _, s := range b.sums {
		if s != nil {
			b.zero(s)
		}
	}
}

// begin sets the tables to those of a group.
func (b *scoreBlock) begin() {
	for k, t := range b.tables {
		b.VBROADCASTSS(b.scaleOf(k, 4), t)
		b.VFMADD231PS_BCST(b.scaleOf(k, 0), b.held[2], t)
	}
}

// scaleOf is the step of a key's group, or four bytes behind it what code 0 is worth.
func (b *scoreBlock) scaleOf(k, disp int) operand.Mem {
	return nth(b.scales, b.scale, b.scale3, k, disp)
}

// multiply adds the products of the next elements.
func (b *scoreBlock) multiply() {
	bytes := unit * b.t.bits / 8
	for i := 0; i < unit; i += b.lanes {
		for r, x := range b.x {
			b.VMOVUPS(nth(b.q, b.qRow, b.qRow3, r, 4*i), x)
		}
		for k := range b.nKeys {
			b.load(k, i)
			for r, x := range b.x {
				b.VFMADD231PS(x, b.y, b.sum(r, k))
			}
		}
	}
	for line := 0; line < b.nKeys*bytes; line += 64 {
		b.PREFETCHT0(at(b.ahead, line))
	}
	b.ADDQ(operand.U32(b.nKeys*bytes), b.ahead)
	b.ADDQ(operand.U8(bytes), b.keys)
	b.ADDQ(operand.U8(4*unit), b.q)
	if b.t.scaling == byChannels {
		b.ADDQ(operand.U8(4*unit), b.scales)
	}
}

// load sets y to the values of key k from the i-th of the next elements on, but for what
// is left to others (see scaling).
func (b *scoreBlock) load(k, i int) {
	m := nth(b.keys, b.row, b.row3, k, i*b.t.bits/8)
	if b.tables != nil {
		b.t.index(b.generator, m, b.y)
		b.VPERMPS(b.tables[k], b.y, b.y)
		return
	}
	b.t.load(b.generator, m, b.y)
	switch b.t.scaling {
	case byGroup:
		b.VBROADCASTSS(b.scaleOf(k, 0), b.step)
		if b.wide() {
			b.VFMADD213PS_BCST(b.scaleOf(k, 4), b.step, b.y)
		} else {
			b.VBROADCASTSS(b.scaleOf(k, 4), b.spare)
			b.VFMADD213PS(b.spare, b.step, b.y)
		}
	case byChannels:
		b.VADDPS(at(b.scales, 4*i), b.y, b.y)
	}
}

// store writes the scores.
func (b *scoreBlock) store() {
	sum := b.reduce(b.sums, b.y, b.VADDPS)
	if b.t.scaling == byRow {
		b.repeat(at(b.scales, 0), b.y)
		b.VMULPS(b.y, sum, sum)
	}
	stride, thrice := b.count, b.q // those begin anew with the next block
	b.Load(b.Param("stride"), stride)
	b.SHLQ(operand.U8(2), stride)
	b.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, thrice)
	for r := range b.nRows {
		part, element := r/(4/b.nKeys), r%(4/b.nKeys)*b.nKeys
		from := b.y.AsX()
		switch {
		case part == 0:
			from = sum.AsX()
		case element == 0 && b.wide():
			b.VEXTRACTF32X4(operand.U8(part), sum, from)
		case element == 0:
			b.VEXTRACTF128(operand.U8(part), sum, from)
		}
		to := nth(b.dst, stride, thrice, r, 0)
		switch {
		case b.nKeys == 4:
			b.VMOVUPS(from, to)
		case element == 0:
			b.VMOVLPS(from, to)
		default:
			b.VMOVHPS(from, to)
		}
	}
}

// repeat sets v to the float32 at m, one for each key of the block, for each row.
func (b *scoreBlock) repeat(m operand.Mem, v reg.VecPhysical) {
	switch {
	case b.wide():
		b.VBROADCASTF32X4(m, v)
	case b.nKeys == 4:
		b.VBROADCASTF128(m, v)
	default:
		b.VBROADCASTSD(m, v)
	}
}

// advance goes on to the next keys; multiply has moved on by one.
func (b *scoreBlock) advance() {
	row, scale := b.row3, b.scale3
	if b.nKeys == 2 {
		row, scale = b.row, b.scale
	}
	b.ADDQ(row, b.keys)
	b.ADDQ(operand.U8(4*b.nKeys), b.dst)
	switch b.t.scaling {
	case byRow:
		b.ADDQ(operand.U8(4*b.nKeys), b.scales)
	case byGroup:
		b.ADDQ(scale, b.scales)
	}
}

// back returns to so many keys before, given as a negative number.
func (b *scoreBlock) back(keys reg.GPVirtual) {
	bytes := b.q
	b.LEAQ(operand.Mem{Base: b.dst, Index: keys, Scale: 4}, b.dst)
	b.MOVQ(keys, bytes)
	b.IMULQ(b.row, bytes)
	b.ADDQ(bytes, b.keys)
	b.ADDQ(bytes, b.ahead)
	switch b.t.scaling {
	case byRow:
		b.LEAQ(operand.Mem{Base: b.scales, Index: keys, Scale: 4}, b.scales)
	case byGroup:
		b.IMULQ(b.scale, keys)
		b.ADDQ(keys, b.scales)
	}
}
