package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// integerType is codes that are multiplied with those of query rows.
type integerType struct {
	name string // in the names of functions
	bits int    // of a code
	// table, if there is one, is what codes of 4 bits stand for: bytes without a sign.
	table *constant
}

var (
	signed   = integerType{name: "Int8", bits: 8}
	unsigned = integerType{name: "Int8Asym", bits: 8}
	nibbles  = integerType{name: "Int4", bits: 4}
	// floats are half steps, the lowest of which stands for 0.
	floats = integerType{name: "E2M1", bits: 4, table: &constant{"halfSteps", func(i int) uint32 {
		return []uint32{0x0f0e0d0c, 0x18141210, 0x090a0b0c, 0x00040608}[i%4]
	}}}
)

// packed reports whether a byte has two codes.
func (t integerType) packed() bool { return t.bits == 4 }

// integerProducts multiplies codes, and adds the products as integers: of a whole key, or of
// each group of 32 codes. Rows of 4-bit keys are as splitRows leaves them.
type integerProducts struct {
	*scoring
	integerType
	group reg.GPVirtual // scales of it

	x                []reg.VecPhysical // codes of each row
	rowScale, rowSum reg.VecPhysical   // of the rows, for each key
	high, term       reg.VecPhysical
	step, base       reg.VecPhysical // of a key's groups: what a code and what code 0 is worth
	present          reg.VecPhysical // all of a chunk, or what is left of a key
}

func (p *integerProducts) prepare() {
	p.scales = p.GP64()
	if p.packed() {
		p.scale, p.scale3 = p.apart("scale")
		p.group = p.GP64()
	}
}

func (p *integerProducts) scaleBytes() int {
	if p.packed() {
		return 0
	}
	return 4
}

// chunk is the bytes of a key that a step of the loop multiplies.
func (p *integerProducts) chunk() int {
	if p.wide() {
		return 64
	}
	return 16
}

// zeroPoint reports whether codes count from elsewhere than 0. Those of AVX-512 that are
// signed are made to: one factor of its instruction is unsigned.
func (p *integerProducts) zeroPoint() bool {
	return p.integerType == unsigned || p.integerType == signed && p.wide()
}

func (p *integerProducts) constants() []constant {
	switch {
	case p.packed() && p.wide():
		return []constant{low4, {"steps", func(i int) uint32 { return uint32(i / 4 * 2) }}, {"bases", func(i int) uint32 { return uint32(i/4*2 + 1) }}}
	case p.packed():
		return []constant{low4, one16}
	case p.integerType == signed && p.wide():
		return []constant{{"signs", every(0x80808080)}}
	}
	return nil
}

var (
	low4  = constant{"low4", every(0x0f0f0f0f)}
	one8  = constant{"one8", every(0x01010101)}
	one16 = constant{"one16", every(0x00010001)}
)

func (p *integerProducts) hold(b *block, free int) {
	if p.wide() {
		p.rest()
	}
	free = p.generator.hold(p.constants(), free)
	p.term, p.rowScale = p.spare, p.vec(free)
	p.ofRows(0, b, p.rowScale)
	free++
	if p.packed() {
		p.step, p.base, p.high = p.vec(free), p.vec(free+1), p.vec(free+2)
		p.present = p.high // AVX2 has no use for high
		return
	}
	if p.zeroPoint() {
		p.rowSum = p.vec(free)
		p.ofRows(16, b, p.rowSum)
		free++
	}
	p.x = p.vecs(free, b.rows)
}

// ofRows sets v to four words behind qScales, one for each row, for each of its keys.
func (p *integerProducts) ofRows(disp int, b *block, v reg.VecPhysical) {
	index := constant{fmt.Sprintf("rowsOf%d", b.keys), func(i int) uint32 {
		r, _ := b.owner(i/4, i%4)
		return uint32(r)
	}}
	from := p.pointer("qScales")
	if p.wide() {
		p.VBROADCASTF32X4(at(from, disp), v)
	} else {
		p.VBROADCASTF128(at(from, disp), v)
	}
	p.move(p.global(index), b.y)
	p.VPERMPS(v, b.y, v)
}

func (p *integerProducts) loop(b *block) {
	p.Load(p.Param("row"), p.count)
	ragged := p.wide() || p.packed()
	if p.packed() {
		p.MOVQ(p.scales, p.group)
	}
	if p.wide() {
		p.KXNORW(reg.K2, reg.K2, reg.K2)
	} else if ragged {
		p.move(p.global(constant{"whole", every(1 << 31)}), p.present)
	}
	p.Label(b.label("step"))
	if ragged {
		p.CMPQ(p.count, operand.U8(p.chunk()))
		p.JGE(b.to("whole"))
		p.mask()
		p.Label(b.label("whole"))
	}
	if p.packed() {
		p.groups(b)
	} else {
		p.codes(b)
	}
	p.fetch(b.keys * p.chunk())
	p.ADDQ(operand.U8(p.chunk()), p.keys)
	p.SUBQ(operand.U8(p.chunk()), p.count)
	p.JG(b.to("step"))
	if ragged { // the last step may have gone too far
		p.ADDQ(p.count, p.keys)
		p.LEAQ(operand.Mem{Base: p.ahead, Index: p.count, Scale: uint8(b.keys)}, p.ahead)
	}
	if p.packed() {
		p.ADDQ(p.scale, p.scales)
	}
}

// rest sets K3 to the words of what is left of a key behind its chunks.
func (p *integerProducts) rest() {
	words, bits := p.count, p.q // which are not in use yet
	p.MOVQ(p.row, words)
	p.ANDQ(operand.U8(p.chunk()-1), words)
	p.SHRQ(operand.U8(2), words)
	p.XORQ(bits, bits)
	p.BTSQ(words, bits)
	p.DECQ(bits)
	p.KMOVW(bits.As32(), reg.K3)
}

// mask sets K2, or present, to the words of what is left of a key.
func (p *integerProducts) mask() {
	if p.wide() {
		p.KMOVW(reg.K3, reg.K2)
		return
	}
	p.move(p.global(constant{"firstHalf", func(i int) uint32 { return uint32(1-min(i/2, 1)) << 31 }}), p.present)
}

// codes adds the products of a chunk of codes of a byte.
func (p *integerProducts) codes(b *block) {
	for r, x := range p.x {
		if p.wide() {
			p.VMOVDQU32_Z(b.row(r, 0), reg.K2, x)
		} else {
			p.VPMOVSXBW(b.row(r, 0), x)
		}
	}
	p.ADDQ(operand.U8(p.chunk()), p.q)
	for k := range b.keys {
		switch {
		case p.wide():
			p.VMOVDQU32_Z(b.key(k, 0), reg.K2, b.y)
			if p.integerType == signed {
				p.VPXORD(p.held[0], b.y, b.y)
			}
		case p.integerType == signed:
			p.VPMOVSXBW(b.key(k, 0), b.y)
		default:
			p.VPMOVZXBW(b.key(k, 0), b.y)
		}
		for r, x := range p.x {
			if p.wide() {
				p.VPDPBUSD(x, b.y, b.sum(r, k))
			} else {
				p.VPMADDWD(x, b.y, p.term)
				p.VPADDD(p.term, b.sum(r, k), b.sum(r, k))
			}
		}
	}
}

// groups adds the products of a chunk of codes of 4 bits: four groups of 32, or one.
func (p *integerProducts) groups(b *block) {
	split := splitOf(p.isa)
	for k := range b.keys {
		scales := nth(p.group, p.scale, p.scale3, k, 0)
		if p.wide() {
			p.VBROADCASTF32X8(scales, p.step)
			p.VPERMPS_Z(p.step, p.held[2], reg.K2, p.base)
			p.VPERMPS_Z(p.step, p.held[1], reg.K2, p.step)
			p.VMOVDQU32_Z(b.key(k, 0), reg.K2, b.y)
			p.VPSRLW(operand.U8(4), b.y, p.high)
			p.VPANDD(p.held[0], b.y, b.y)
			p.VPANDD(p.held[0], p.high, p.high)
		} else {
			p.VBROADCASTSS(scales, p.step)
			p.VBROADCASTSS(scales.Offset(4), p.base)
			p.VPMASKMOVD(b.key(k, 0), p.present.AsX(), b.y.AsX())
			p.VPSRLW(operand.U8(4), b.y.AsX(), p.term.AsX())
			p.VINSERTI128(operand.U8(1), p.term.AsX(), b.y, b.y)
			p.VPAND(p.held[0], b.y, b.y)
		}
		p.lookUpBytes(b.y, p.high)
		for r := range b.rows {
			if p.wide() {
				p.zero(p.term)
				p.VPDPBUSD(b.row(r, 0), b.y, p.term)
				p.VPDPBUSD(b.row(r, split.odd), p.high, p.term)
			} else {
				p.VPMADDUBSW(b.row(r, 0), b.y, p.term)
				p.VPMADDWD(p.held[1], p.term, p.term)
			}
			p.VCVTDQ2PS(p.term, p.term)
			p.VFMADD231PS(p.step, p.term, b.sum(r, k))
			p.VFMADD231PS(b.row(r, split.sums), p.base, b.sum(r, k))
		}
	}
	p.ADDQ(operand.U8(8*split.groups), p.group)
	p.ADDQ(operand.U32(split.bytes), p.q)
}

// lookUpBytes replaces codes by what they stand for.
func (p *integerProducts) lookUpBytes(low, high reg.VecPhysical) {
	if p.table == nil {
		return
	}
	p.move(p.global(*p.table), p.term)
	p.VPSHUFB(low, p.term, low)
	if p.wide() { // elsewhere low has all
		p.VPSHUFB(high, p.term, high)
	}
}

func (p *integerProducts) finish(b *block) reg.VecPhysical {
	if p.packed() {
		scores := p.reduce(b.sums, b.y, p.VADDPS)
		p.VMULPS(p.rowScale, scores, scores)
		return scores
	}
	scores := p.reduce(b.sums, b.y, p.VPADDD)
	b.ofKeys(at(p.scales, 0), b.y)
	switch {
	case p.integerType == unsigned:
		p.VPSRAD(operand.U8(16), b.y, p.term)
		p.VPMULLD(p.rowSum, p.term, p.term)
		p.VPADDD(p.term, scores, scores)
		p.VPSLLD(operand.U8(16), b.y, b.y)
	case p.zeroPoint():
		p.VPSLLD(operand.U8(7), p.rowSum, p.term)
		p.VPSUBD(p.term, scores, scores)
	}
	p.VCVTDQ2PS(scores, scores)
	p.VMULPS(b.y, scores, scores)
	p.VMULPS(p.rowScale, scores, scores)
	return scores
}
