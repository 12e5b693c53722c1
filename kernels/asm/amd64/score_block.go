package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// block is a few rows and keys.
type block struct {
	*scoring
	rows, keys int
	sums       sums
	y          reg.VecPhysical // for the elements of a key
}

// block assigns registers; free is the first that is left.
func (s *scoring) block(rows int) (b *block, free int) {
	b = &block{scoring: s, rows: rows, keys: 4, sums: make(sums, s.lanes)}
	if !s.wide() && rows > 2 {
		b.keys = 2
	}
	for i := range b.sums {
		if r, k := b.owner(s.place(i)); r < rows {
			b.sums[i] = b.sum(r, k)
		}
	}
	b.y = s.vec(rows * b.keys)
	return b, rows*b.keys + 1
}

// sum is where the products of a row and a key are added.
func (b *block) sum(r, k int) reg.VecPhysical { return b.vec(r*b.keys + k) }

// owner is the row and the key whose sum comes out at a place: a row's keys lie side by side.
func (b *block) owner(part, element int) (r, k int) {
	return part*(4/b.keys) + element/b.keys, element % b.keys
}

func (b *block) label(what string) string { return fmt.Sprintf("%s%d", what, b.rows) }

func (b *block) to(what string) operand.LabelRef { return operand.LabelRef(b.label(what)) }

// row is a place in a row of q, and key one in a key.
func (b *block) row(r, disp int) operand.Mem { return nth(b.q, b.qRow, b.qRow3, r, disp) }

func (b *block) key(k, disp int) operand.Mem {
	return nth(b.scoring.keys, b.scoring.row, b.row3, k, disp)
}

// ofKeys sets v to the words at m, one for each key, for each row.
func (b *block) ofKeys(m operand.Mem, v reg.VecPhysical) {
	switch {
	case b.wide():
		b.VBROADCASTF32X4(m, v)
	case b.keys == 4:
		b.VBROADCASTF128(m, v)
	default:
		b.VBROADCASTSD(m, v)
	}
}

// store writes the scores.
func (b *block) store(scores reg.VecPhysical) {
	stride, thrice := b.count, b.q // those begin anew with the next block
	b.Load(b.Param("stride"), stride)
	b.SHLQ(operand.U8(2), stride)
	b.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, thrice)
	for r := range b.rows {
		part, element := r/(4/b.keys), r%(4/b.keys)*b.keys
		from := b.y.AsX()
		switch {
		case part == 0:
			from = scores.AsX()
		case element == 0 && b.wide():
			b.VEXTRACTF32X4(operand.U8(part), scores, from)
		case element == 0:
			b.VEXTRACTF128(operand.U8(part), scores, from)
		}
		to := nth(b.dst, stride, thrice, r, 0)
		switch {
		case b.keys == 4:
			b.VMOVUPS(from, to)
		case element == 0:
			b.VMOVLPS(from, to)
		default:
			b.VMOVHPS(from, to)
		}
	}
}

// advance goes on to the next keys; the loop has moved on by one.
func (b *block) advance() {
	row, scale := b.row3, b.scale3
	if b.keys == 2 {
		row, scale = b.scoring.row, b.scale
	}
	b.ADDQ(row, b.scoring.keys)
	b.ADDQ(operand.U8(4*b.keys), b.dst)
	if bytes := b.by.scaleBytes(); bytes > 0 {
		b.ADDQ(operand.U8(bytes*b.keys), b.scales)
	} else if scale != nil {
		b.ADDQ(scale, b.scales)
	}
}

// back moves dst back by keys, which is negative.
func (b *block) back(keys reg.GPVirtual) {
	bytes := b.q
	b.LEAQ(operand.Mem{Base: b.dst, Index: keys, Scale: 4}, b.dst)
	b.MOVQ(keys, bytes)
	b.IMULQ(b.scoring.row, bytes)
	b.ADDQ(bytes, b.scoring.keys)
	b.ADDQ(bytes, b.ahead)
	if bytes := b.by.scaleBytes(); bytes > 0 {
		b.LEAQ(operand.Mem{Base: b.scales, Index: keys, Scale: uint8(bytes)}, b.scales)
	} else if b.scale != nil {
		b.IMULQ(b.scale, keys)
		b.ADDQ(keys, b.scales)
	}
}
