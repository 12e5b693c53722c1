package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codesQ80 is 32 codes after a scale.
func codesQ80(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	d.VMOVDQU(m(2), d.free[0].AsY())
	each(d.free[0])
}

// codesQ40 is codes less 8 in the lower and then in the upper halves of 16 bytes.
func codesQ40(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	d.nibbles(m(2))
	d.VPSUBB(d.held[1].AsY(), d.free[0].AsY(), d.free[0].AsY())
	each(d.free[0])
}

// nibbles sets free[0] to the lower halves of 16 bytes, and then the upper ones.
func (d *dots) nibbles(m operand.Mem) {
	all, high := d.free[0], d.free[1]
	d.VMOVDQU(m, all.AsX())
	d.VPSRLW(operand.U8(4), all.AsX(), high.AsX())
	d.VINSERTI128(operand.U8(1), high.AsX(), all.AsY(), all.AsY())
	d.VPAND(d.held[0].AsY(), all.AsY(), all.AsY())
}

// codesQ50 has a fifth bit for each; 16 is subtracted where it is clear.
func codesQ50(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	all, v := d.free[0].AsY(), d.free[1].AsY()
	d.nibbles(m(6))
	d.VPBROADCASTD(m(2), v)
	d.VPSHUFB(d.held[1].AsY(), v, v)
	d.VPANDN(d.held[2].AsY(), v, v)
	d.VPCMPEQB(d.held[2].AsY(), v, v)
	d.VPAND(d.held[3].AsY(), v, v)
	d.VPOR(v, all, all)
	each(d.free[0])
}

// codesOfTable is codes of the table in held[1], from a byte of the block on.
func codesOfTable(disp int) func(*dots, func(int) operand.Mem, func(reg.VecPhysical)) {
	return func(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
		d.nibbles(m(disp))
		d.VPSHUFB(d.free[0].AsY(), d.held[1].AsY(), d.free[0].AsY())
		each(d.free[0])
	}
}
