package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codesQ80 is 32 codes after a scale.
func codesQ80(d *dots, m func(int) operand.Mem, _ int, each func(reg.VecPhysical)) {
	for j := range 2 {
		d.VPMOVSXBW(m(2+16*j), d.free[j])
		each(d.free[j])
	}
}

// codesQ40 is codes less 8 in the lower and then in the upper halves of 16 bytes.
func codesQ40(d *dots, m func(int) operand.Mem, _ int, each func(reg.VecPhysical)) {
	low, high, low4, half := d.free[0].AsY(), d.free[1].AsY(), d.held[0].AsY(), d.held[1].AsY()
	d.VPMOVZXBW(m(2), low)
	d.VPSRLW(operand.U8(4), low, high)
	d.VPAND(low4, low, low)
	d.VPSUBW(half, low, low)
	each(d.free[0])
	d.VPSUBW(half, high, high)
	each(d.free[1])
}

// nibbles sets free[0] to the lower halves of 16 bytes, and then the upper ones.
func (d *dots) nibbles(m operand.Mem) {
	all, high := d.free[0], d.free[1]
	d.VMOVDQU(m, all.AsX())
	d.VPSRLW(operand.U8(4), all.AsX(), high.AsX())
	d.VINSERTI128(operand.U8(1), high.AsX(), all.AsY(), all.AsY())
	d.VPAND(d.held[0].AsY(), all.AsY(), all.AsY())
}

// inBytes passes 32 bytes with signs, which are in free[0].
func (d *dots) inBytes(each func(reg.VecPhysical)) {
	all, v := d.free[0], d.free[1]
	d.VPMOVSXBW(all.AsX(), v.AsY())
	each(v)
	d.VEXTRACTI128(operand.U8(1), all.AsY(), all.AsX())
	d.VPMOVSXBW(all.AsX(), v.AsY())
	each(v)
}

// codesQ50 has a fifth bit for each; 16 is subtracted where it is clear.
func codesQ50(d *dots, m func(int) operand.Mem, _ int, each func(reg.VecPhysical)) {
	all, v := d.free[0].AsY(), d.free[1].AsY()
	d.nibbles(m(6))
	d.VPBROADCASTD(m(2), v)
	d.VPSHUFB(d.held[1].AsY(), v, v)
	d.VPANDN(d.held[2].AsY(), v, v)
	d.VPCMPEQB(d.held[2].AsY(), v, v)
	d.VPAND(d.held[3].AsY(), v, v)
	d.VPOR(v, all, all)
	d.inBytes(each)
}

// codesOfTable is codes of the table in held[1], from a byte of the block on.
func codesOfTable(disp int) func(*dots, func(int) operand.Mem, int, func(reg.VecPhysical)) {
	return func(d *dots, m func(int) operand.Mem, _ int, each func(reg.VecPhysical)) {
		d.nibbles(m(disp))
		d.VPSHUFB(d.free[0].AsY(), d.held[1].AsY(), d.free[0].AsY())
		d.inBytes(each)
	}
}
