package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scalesQ4K leaves the scales of the eight groups in free[5], and their mins in free[6]: numbers of 6 bits. The upper two bits of
// the last four of either are above those of the first four, and the lower four in the last four bytes.
func scalesQ4K(d *dots, m func(int) operand.Mem, _ operand.Mem) {
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
		all := d.free[5+i]
		d.VMOVQ(first, all.AsX())
		if i == 0 {
			d.VPBROADCASTQ(all.AsX(), all.AsY())
		} else {
			d.VPMOVZXBD(all.AsX(), all.AsY())
		}
	}
}

// fours are the lower halves of the lower bytes of words, those of the upper ones, and then the upper halves: two groups of 32 weights,
// of which first the even columns, then the odd ones. more may change each.
func fours(d *dots, m operand.Mem, more func(i int, v reg.VecPhysical), each func(reg.VecPhysical)) {
	four, v, low4 := d.free[1].AsY(), d.free[2].AsY(), d.held[0].AsY()
	d.VMOVDQU(m, four)
	for i, shift := range []uint8{0, 8, 4, 12} {
		switch shift {
		case 0:
			d.VPAND(low4, four, v)
		case 12:
			d.VPSRLW(operand.U8(shift), four, v)
		default:
			d.VPSRLW(operand.U8(shift), four, v)
			d.VPAND(low4, v, v)
		}
		more(i, d.free[2])
		each(d.free[2])
	}
}

func codesQ4K(d *dots, m func(int) operand.Mem, turn int, each func(reg.VecPhysical)) {
	fours(d, m(16+32*turn), func(int, reg.VecPhysical) {}, each)
}

// codesQ5K has a fifth bit for each weight: eight in the byte of a column of groups.
func codesQ5K(d *dots, m func(int) operand.Mem, turn int, each func(reg.VecPhysical)) {
	all, bit := d.free[3].AsY(), d.free[4].AsY()
	d.VMOVDQU(m(16), all)
	fours(d, m(48+32*turn), func(i int, v reg.VecPhysical) {
		switch shift := 2*turn + i/2 + i%2*8 - 4; {
		case shift < 0:
			d.VPSLLW(operand.U8(-shift), all, bit)
		default:
			d.VPSRLW(operand.U8(shift), all, bit)
		}
		d.VPAND(d.held[1].AsY(), bit, bit)
		d.VPOR(bit, v.AsY(), v.AsY())
	}, each)
}

// scalesQ6K is sixteen numbers of 8 bits, the scales of halves of groups.
func scalesQ6K(d *dots, m func(int) operand.Mem, _ operand.Mem) {
	d.VBROADCASTI128(m(192), d.free[1].AsY())
}

// codesQ6K is a group: lower halves of codes in halves of 32 bytes, and two bits above them in quarters of others, less 32.
func codesQ6K(d *dots, m func(int) operand.Mem, turn int, each func(reg.VecPhysical)) {
	half, quarter := turn/4, turn%4
	low4, bits4and5, none, half6 := d.held[0].AsY(), d.held[1].AsY(), d.held[2].AsY(), d.held[3].AsY()
	code, upper := d.free[2].AsY(), d.free[3].AsY()
	if lower := m(64*half + 32*(quarter%2)); quarter < 2 {
		d.VPAND(lower, low4, code)
	} else {
		d.VMOVDQU(lower, code)
		d.VPSRLW(operand.U8(4), code, code)
		d.VPAND(low4, code, code)
	}
	d.VMOVDQU(m(128+32*half), upper)
	switch quarter {
	case 0, 1:
		d.VPSLLW(operand.U8(4-2*quarter), upper, upper)
	case 3:
		d.VPSRLW(operand.U8(2), upper, upper)
	}
	d.VPAND(bits4and5, upper, upper)
	d.VPOR(upper, code, code)
	d.VPUNPCKLBW(none, code, upper)
	d.VPSUBW(half6, upper, upper)
	each(d.free[3])
	d.VPUNPCKHBW(none, code, code)
	d.VPSUBW(half6, code, code)
	each(d.free[2])
}

// scalesIQ4XS writes, as int32, the scales of the eight groups: numbers of 6 bits less 32, whose lower four bits are in the second four bytes,
// and the upper two in the two before these.
func scalesIQ4XS(d *dots, m func(int) operand.Mem, scratch operand.Mem) {
	low, high := d.free[0].AsY(), d.free[1].AsY()
	d.VPBROADCASTD(m(4), low)
	d.VPSRLVD(d.global(constant{"by4", func(i int) uint32 { return uint32(4 * i) }}), low, low)
	d.VPAND(d.global(constant{"low4of32", every(15)}), low, low)
	d.VPBROADCASTW(m(2), high)
	d.VPSRLVD(d.global(constant{"by2", func(i int) uint32 { return uint32(2 * i) }}), high, high)
	d.VPSLLD(operand.U8(4), high, high)
	d.VPAND(d.global(constant{"bits4and5of32", every(0x30)}), high, high)
	d.VPOR(high, low, low)
	d.VPSUBD(d.global(constant{"half6of32", every(32)}), low, low)
	d.VMOVDQU(low, scratch)
}

// codesIQ4XS is a group of 16 bytes.
func codesIQ4XS(d *dots, m func(int) operand.Mem, turn int, each func(reg.VecPhysical)) {
	all, v := d.free[2].AsY(), d.free[1].AsY()
	d.nibbles(m(8 + 16*turn))
	d.VPSHUFB(d.free[0].AsY(), d.held[1].AsY(), all)
	for i := range 2 { // a byte is the upper one of a word
		if i == 0 {
			d.VPUNPCKLBW(all, d.held[2].AsY(), v)
		} else {
			d.VPUNPCKHBW(all, d.held[2].AsY(), v)
		}
		d.VPSRAW(operand.U8(8), v, v)
		each(d.free[1])
	}
}
