package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scalesQ4K leaves the scales of the eight groups in both halves of free[5], and their mins, each twice, in free[6]: numbers of 6 bits after two factors.
// The upper two bits of the last four of either are above those of the first four, and the lower four in the last four bytes.
func scalesQ4K(d *dots, m func(int) operand.Mem, _ operand.Mem) {
	all, first, upper := d.free[6].AsY(), d.free[5].AsY(), d.free[4].AsY()
	each := func(name string, words ...uint32) operand.Mem {
		return d.global(constant{name, func(i int) uint32 { return words[i%4] }})
	}
	const none = 0x80808080
	d.VBROADCASTI128(m(0), all)
	d.VPSHUFB(each("firstAndLast", 0x07060504, 0x0f0e0d0c, 0x0b0a0908, 0x0f0e0d0c), all, first)
	d.VPSRLVD(each("lastBy4", 0, 0, 0, 4), first, first)
	d.VPAND(each("low6and4", 0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f), first, first)
	d.VPSHUFB(each("upper2", none, 0x07060504, none, 0x0b0a0908), all, upper)
	d.VPSRLW(operand.U8(2), upper, upper)
	d.VPAND(each("upper2of6", 0x30303030, 0x30303030, 0x30303030, 0x30303030), upper, upper)
	d.VPOR(upper, first, first)
	d.VPSHUFB(d.global(constant{"minsTwice", func(i int) uint32 { return 0x80008000 | uint32(8+i)*0x10001 }}), first, all)
}

// codesQ4K is four times two groups: the lower halves of 32 bytes, and the upper ones.
func codesQ4K(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	d.fours(m, 16, nil, each)
}

// codesQ5K has a fifth bit for each weight: eight in the byte of a column of groups.
func codesQ5K(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	all, bit := d.free[3].AsY(), d.free[4].AsY()
	d.VMOVDQU(m(16), all)
	d.fours(m, 48, func(i int, v reg.VecPhysical) {
		from := bit
		switch {
		case i < 4:
			d.VPSLLW(operand.U8(4-i), all, bit)
		case i == 4:
			from = all
		default:
			d.VPSRLW(operand.U8(i-4), all, bit)
		}
		d.VPAND(d.held[1].AsY(), from, bit)
		d.VPOR(bit, v.AsY(), v.AsY())
	}, each)
}

// fours is groups of halves of bytes, from a byte of the block on, of which more changes each.
func (d *dots) fours(m func(int) operand.Mem, disp int, more func(i int, v reg.VecPhysical), each func(reg.VecPhysical)) {
	for i := range 8 {
		four, v := d.free[0], d.free[1+i/2%2]
		if i%2 == 0 {
			d.VMOVDQU(m(disp+16*i), four.AsY())
			d.VPAND(d.held[0].AsY(), four.AsY(), v.AsY())
		} else {
			d.VPSRLW(operand.U8(4), four.AsY(), v.AsY())
			d.VPAND(d.held[0].AsY(), v.AsY(), v.AsY())
		}
		if more != nil {
			more(i, v)
		}
		each(v)
	}
}

// scalesQ6K leaves sixteen numbers of 8 bits, the scales of halves of groups, as words in free[4] and free[5], the first eight and the last eight twice. Codes are
// less 32, so mins are 32 times the scales.
func scalesQ6K(d *dots, m func(int) operand.Mem, _ operand.Mem) {
	all := d.free[6].AsY()
	d.VPMOVSXBW(m(192), all)
	for i := range 2 {
		d.VPERMQ(operand.U8(0x44+0xaa*uint8(i)), all, d.free[4+i].AsY())
	}
	d.VPSLLW(operand.U8(5), all, all)
}

// codesQ6K is the lower halves of codes in halves of 32 bytes, and two bits above them in quarters of others.
func codesQ6K(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	for turn := range 8 {
		half, quarter := turn/4, turn%4
		low4, bits4and5 := d.held[0].AsY(), d.held[1].AsY()
		all, code, upper := d.free[3].AsY(), d.free[turn%2], d.free[2].AsY()
		if quarter == 0 {
			d.VMOVDQU(m(128+32*half), all)
		}
		if lower := m(64*half + 32*(quarter%2)); quarter < 2 {
			d.VPAND(lower, low4, code.AsY())
		} else {
			d.VMOVDQU(lower, code.AsY())
			d.VPSRLW(operand.U8(4), code.AsY(), code.AsY())
			d.VPAND(low4, code.AsY(), code.AsY())
		}
		from := upper
		switch quarter {
		case 2:
			from = all
		case 3:
			d.VPSRLW(operand.U8(2), all, upper)
		default:
			d.VPSLLW(operand.U8(4-2*quarter), all, upper)
		}
		d.VPAND(bits4and5, from, upper)
		d.VPOR(upper, code.AsY(), code.AsY())
		each(code)
	}
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

// codesIQ4XS is groups of 16 bytes.
func codesIQ4XS(d *dots, m func(int) operand.Mem, each func(reg.VecPhysical)) {
	for i := range 8 {
		d.nibbles(m(8 + 16*i))
		d.VPSHUFB(d.free[0].AsY(), d.held[1].AsY(), d.free[0].AsY())
		each(d.free[0])
	}
}
