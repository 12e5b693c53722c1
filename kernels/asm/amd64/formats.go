package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var low4of8 = constant{"low4of8", every(0x0f0f0f0f)}

// formats is the types of weights that have functions of their own.
func formats() []format {
	none := func(*dots, func(int) operand.Mem, operand.Mem) {}
	return []format{
		{name: "Q80", layout: of32, bytes: 34, turn: 32, prepare: none, codes: codesQ80, factor: halfAt(0)},
		{name: "Q40", layout: of32, bytes: 18, turn: 32, prepare: none, codes: codesQ40, factor: halfAt(0), constants: []constant{words("low4of16", 15), words("half", 8)}},
		{name: "Q50", layout: of32, bytes: 22, turn: 32, prepare: none, codes: codesQ50, factor: halfAt(0),
			constants: []constant{low4of8, bytesOf("fifthOf", func(i int) byte { return byte(i / 8) }), bytesOf("bitOf", func(i int) byte { return 1 << (i % 8) }),
				bytesOf("half5", func(int) byte { return 0xf0 })}},
		{name: "IQ4NL", layout: of32, bytes: 18, turn: 32, prepare: none, codes: codesOfTable(2), factor: halfAt(0), constants: []constant{low4of8, nonlinear}},
		{name: "MXFP4", layout: of32, bytes: 17, turn: 32, prepare: none, codes: codesOfTable(1), factor: exponent, constants: []constant{low4of8, floats4}},
		{name: "Q4K", layout: mins, bytes: 144, turn: 64, prepare: scalesQ4K, codes: codesQ4K, factor: halfAt(0),
			scale: scaleOfByte, scaleWords: scaleWordsOfByte, constants: []constant{words("low4of16", 15)}},
		{name: "Q5K", layout: mins, bytes: 176, turn: 64, prepare: scalesQ4K, codes: codesQ5K, factor: halfAt(0),
			scale: scaleOfByte, scaleWords: scaleWordsOfByte, constants: []constant{words("low4of16", 15), words("fifthOf16", 16)}},
		{name: "Q6K", layout: of256, bytes: 210, turn: 32, prepare: scalesQ6K, codes: codesQ6K, factor: halfAt(208), scale: scaleOfHalves, scaleWords: scaleWordsOfHalves,
			constants: []constant{low4of8, {"bits4and5", every(0x30303030)}, {"none", every(0)}, words("half6", 32)}},
		{name: "IQ4XS", layout: of256, bytes: 136, turn: 32, scratch: 32, prepare: scalesIQ4XS, codes: codesIQ4XS, factor: halfAt(0),
			scale: scaleOfGroup, scaleWords: scaleWordsOfGroup, constants: []constant{low4of8, nonlinear, {"none", every(0)}}},
	}
}

// bytesOf is a constant of 32 bytes.
func bytesOf(name string, b func(i int) byte) constant {
	return constant{name, func(lane int) (word uint32) {
		for i := range 4 {
			word |= uint32(b(4*lane+i)) << (8 * i)
		}
		return word
	}}
}

// tableOf is a constant that has a table of 16 numbers twice.
func tableOf(name string, numbers ...int8) constant {
	return bytesOf(name, func(i int) byte { return byte(numbers[i%16]) })
}

var (
	nonlinear = tableOf("nonlinear", -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
	floats4   = tableOf("floats4", 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12) // twice the numbers of E2M1
)

// halfAt is a factor in binary16, which that of mins follows.
func halfAt(disp int) func(d *dots, m func(int) operand.Mem, mins bool, to reg.VecPhysical) {
	return func(d *dots, m func(int) operand.Mem, mins bool, to reg.VecPhysical) {
		disp := disp
		if mins {
			disp += 2
		}
		d.VPBROADCASTW(m(disp), d.half(to))
		d.VCVTPH2PS(d.half(to), to)
	}
}

// exponent is a factor of which there is the exponent e, for numbers that are doubled: 2^(e-128), which is subnormal where e is 0 or 1.
func exponent(d *dots, m func(int) operand.Mem, _ bool, to reg.VecPhysical) {
	e, normal, small := reg.RCX, d.GP64(), d.GP64()
	d.MOVBQZX(m(0), e)
	d.LEAQ(at(e, -1), normal)
	d.SHLQ(operand.U8(23), normal)
	d.MOVQ(operand.U32(0x200000), small)
	d.SHLQ(reg.CL, small)
	d.CMPQ(e, operand.U8(2))
	d.CMOVQLT(small, normal)
	d.VMOVD(normal.As32(), to.AsX())
	d.VBROADCASTSS(to.AsX(), to)
}

// scaleOfGroup and scaleWordsOfGroup multiply by the group's scale, an int32 in scratch.
func scaleOfGroup(d *dots, v reg.VecPhysical, scratch operand.Mem, i int) {
	d.VPBROADCASTD(scratch.Offset(4*i), d.free[0])
	d.VPMULLD(d.free[0], v, v)
}

func scaleWordsOfGroup(d *dots, v reg.VecPhysical, scratch operand.Mem, i int) {
	d.VPBROADCASTW(scratch.Offset(4*i), d.free[0])
	d.VPMULLW(d.free[0], v, v)
}

// scaleOfByte and scaleWordsOfByte multiply by a byte of those that are in each quarter of free[5].
func scaleOfByte(d *dots, v reg.VecPhysical, _ operand.Mem, i int) {
	d.VPSHUFB(d.global(constant{fmt.Sprintf("scale%d", i), every(0x80808000 | uint32(i))}), d.free[5], d.free[0])
	d.VPMULLD(d.free[0], v, v)
}

func scaleWordsOfByte(d *dots, v reg.VecPhysical, _ operand.Mem, i int) {
	d.VPSHUFB(d.global(constant{fmt.Sprintf("scaleWords%d", i), every(0x80008000 | uint32(i)*0x10001)}), d.free[5], d.free[0])
	d.VPMULLW(d.free[0], v, v)
}

// scaleOfHalves and scaleWordsOfHalves multiply the lower halves of a group's vectors by one scale, and the upper ones by the next, of the bytes in free[1].
func scaleOfHalves(d *dots, v reg.VecPhysical, _ operand.Mem, i int) {
	d.VPSHUFB(d.global(spread(i, 24)), d.free[1], d.free[0])
	d.VPSRAD(operand.U8(24), d.free[0], d.free[0])
	d.VPMULLD(d.free[0], v, v)
}

func scaleWordsOfHalves(d *dots, v reg.VecPhysical, _ operand.Mem, i int) {
	d.VPSHUFB(d.global(spread(i, 8)), d.free[1], d.free[0])
	d.VPSRAW(operand.U8(8), d.free[0], d.free[0])
	d.VPMULLW(d.free[0], v, v)
}

// spread puts bytes 2i and 2i+1 where the upper eight bits of all int32 or words of the lower and of the upper half of a vector are.
func spread(i, shift int) constant {
	return constant{fmt.Sprintf("scales%dby%d", i, shift), func(lane int) uint32 {
		at := uint32(2*i + lane/4)
		if shift == 24 {
			return at<<24 | 0x808080
		}
		return at<<24 | 0x80<<16 | at<<8 | 0x80
	}}
}

// pack makes words of two vectors of int32, in their order.
func (g *generator) pack(a, b reg.VecPhysical) {
	g.VPACKSSDW(b, a, a)
	g.VPERMQ(operand.U8(0xd8), a, a)
}

func inOrder(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical) {
	g.pack(v[0], v[1])
	g.pack(v[2], v[3])
	return v[0], v[2]
}

// byHalves is the order of what VPUNPCKLBW and VPUNPCKHBW take out of 32 bytes.
func byHalves(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical) {
	g.pack(v[0], v[2])
	g.pack(v[1], v[3])
	return v[0], v[1]
}

// evenAndOdd is the lower bytes of words, and the upper ones.
func evenAndOdd(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical) {
	for i := 0; i < 4; i += 2 {
		g.VSHUFPS(operand.U8(0x88), v[i+1], v[i], v[4])
		g.VSHUFPS(operand.U8(0xdd), v[i+1], v[i], v[i+1])
		g.VPERMQ(operand.U8(0xd8), v[4], v[i])
		g.VPERMQ(operand.U8(0xd8), v[i+1], v[i+1])
	}
	g.pack(v[0], v[2])
	g.pack(v[1], v[3])
	return v[0], v[1]
}

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

// inBytes hands over 32 bytes with signs, which are in free[0].
func (d *dots) inBytes(each func(reg.VecPhysical)) {
	all, v := d.free[0], d.free[1]
	d.VPMOVSXBW(all.AsX(), v.AsY())
	each(v)
	d.VEXTRACTI128(operand.U8(1), all.AsY(), all.AsX())
	d.VPMOVSXBW(all.AsX(), v.AsY())
	each(v)
}

// codesQ50 has a fifth bit for each, without which 16 is subtracted.
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
