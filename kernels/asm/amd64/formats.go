package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// formats is the types of weights that have functions of their own. All of their values are exact in float32.
func formats() []format {
	return []format{
		{name: "Q80", weights: 32, bytes: 34, turn: 32, values: valuesQ80},
		{name: "Q4K", weights: 256, bytes: 144, turn: 64, scales: 16, prepare: scalesQ4K, values: valuesQ4K,
			constants: []constant{{"low4of32", every(15)}}},
		{name: "Q6K", weights: 256, bytes: 210, turn: 32, scales: 16, prepare: scalesQ6K, values: valuesQ6K,
			constants: []constant{{"low4of8", every(0x0f0f0f0f)}, {"bits4and5", every(0x30303030)}, {"half6", every(0x20202020)}}},
	}
}

// spread16 sets a vector to the float32 of a binary16 in memory.
func (g *generator) spread16(m operand.Mem, to reg.VecPhysical) {
	g.VPBROADCASTW(m, g.half(to))
	g.VCVTPH2PS(g.half(to), to)
}

// valuesQ80 is a scale and 32 codes.
func valuesQ80(d *dots, m func(int) operand.Mem, _ operand.Mem, _ int, each func(reg.VecPhysical)) {
	scale := d.free[0]
	d.spread16(m(0), scale)
	for j := range 32 / d.lanes {
		v := d.free[1+j]
		d.VPMOVSXBD(m(2+j*d.lanes), v)
		d.VCVTDQ2PS(v, v)
		d.VMULPS(scale, v, v)
		each(v)
	}
}

// scalesQ4K writes the scales of the eight parts of 32, and then what is subtracted in each: numbers of 6 bits times two of the block.
// The upper two bits of the last four of either are above those of the first four, and the lower four in the last four bytes.
func scalesQ4K(d *dots, m func(int) operand.Mem, scales operand.Mem) {
	last, shared := d.GP64(), d.GP64()
	d.MOVL(m(12), last.As32())
	for i := range 2 {
		first, upper := d.GP64(), d.GP64()
		d.MOVL(m(4+4*i), first.As32())
		d.MOVL(first.As32(), upper.As32())
		d.SHRL(operand.U8(2), upper.As32())
		d.ANDL(operand.U32(0x30303030), upper.As32())
		d.ANDL(operand.U32(0x3f3f3f3f), first.As32())
		d.MOVL(last.As32(), shared.As32())
		if i == 1 {
			d.SHRL(operand.U8(4), shared.As32())
		}
		d.ANDL(operand.U32(0x0f0f0f0f), shared.As32())
		d.ORL(shared.As32(), upper.As32())
		d.SHLQ(operand.U8(32), upper)
		d.ORQ(upper, first)
		all, by := d.free[0], d.free[1]
		d.VMOVQ(first, all.AsX())
		d.VPMOVZXBD(all.AsX(), all.AsY())
		d.VCVTDQ2PS(all.AsY(), all.AsY())
		d.VPBROADCASTW(m(2*i), by.AsX())
		d.VCVTPH2PS(by.AsX(), by.AsY())
		d.VMULPS(by.AsY(), all.AsY(), all.AsY())
		d.VMOVUPS(all.AsY(), scales.Offset(32*i))
	}
}

// valuesQ4K is two parts of 32, codes in the lower and in the upper halves of 32 bytes.
func valuesQ4K(d *dots, m func(int) operand.Mem, scales operand.Mem, turn int, each func(reg.VecPhysical)) {
	by, less, pairs := d.free[0], d.free[1], d.free[2:6]
	for part := range 2 {
		d.VBROADCASTSS(scales.Offset(4*(2*turn+part)), by)
		d.VBROADCASTSS(scales.Offset(4*(8+2*turn+part)), less)
		for j, p := range pairs {
			v := d.free[6+j%2]
			if part == 0 {
				d.VPMOVZXBD(m(16+32*turn+8*j), p)
				d.VPAND(d.held[0], p, v)
			} else {
				d.VPSRLD(operand.U8(4), p, v)
			}
			d.VCVTDQ2PS(v, v)
			d.VFMSUB213PS(less, by, v)
			each(v)
		}
	}
}

// scalesQ6K writes the scales of sixteen parts of 16: numbers of 8 bits times one of the block.
func scalesQ6K(d *dots, m func(int) operand.Mem, scales operand.Mem) {
	by := d.free[0]
	d.spread16(m(208), by)
	for i := 0; i < 16; i += d.lanes {
		v := d.free[1]
		d.VPMOVSXBD(m(192+i), v)
		d.VCVTDQ2PS(v, v)
		d.VMULPS(by, v, v)
		d.VMOVUPS(v, scales.Offset(4*i))
	}
}

// valuesQ6K is two parts of 16: lower halves of codes in halves of 32 bytes, and two bits above them in quarters of others.
func valuesQ6K(d *dots, m func(int) operand.Mem, scales operand.Mem, turn int, each func(reg.VecPhysical)) {
	half, quarter := turn/4, turn%4
	code, upper, low := d.free[0].AsY(), d.free[1].AsY(), d.free[0].AsX()
	low4, bits4and5, half6 := d.held[0].AsY(), d.held[1].AsY(), d.held[2].AsY()
	d.VMOVDQU(m(64*half+32*(quarter%2)), code)
	d.VMOVDQU(m(128+32*half), upper)
	if quarter >= 2 {
		d.VPSRLW(operand.U8(4), code, code)
	}
	d.VPAND(low4, code, code)
	switch quarter {
	case 0, 1:
		d.VPSLLW(operand.U8(4-2*quarter), upper, upper)
	case 3:
		d.VPSRLW(operand.U8(2), upper, upper)
	}
	d.VPAND(bits4and5, upper, upper)
	d.VPOR(upper, code, code)
	d.VPSUBB(half6, code, code)
	for j := range 32 / d.lanes {
		v, by := d.free[2], d.free[3]
		switch i := j * d.lanes; {
		case i == 0:
			d.VPMOVSXBD(low, v)
		case i == 16:
			d.VEXTRACTI128(operand.U8(1), code, low)
			d.VPMOVSXBD(low, v)
		default:
			d.VPSRLDQ(operand.U8(8), low, v.AsX())
			d.VPMOVSXBD(v.AsX(), v)
		}
		d.VCVTDQ2PS(v, v)
		if j*d.lanes%16 == 0 {
			d.VBROADCASTSS(scales.Offset(4*(2*turn+j*d.lanes/16)), by)
		}
		d.VMULPS(by, v, v)
		each(v)
	}
}
